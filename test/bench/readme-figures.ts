import { clusterFigures } from "./cluster/cluster-figures.ts";
import type { Conditions } from "./conditions.ts";
import type { Result } from "./results.ts";
import { markdownTable } from "./table.ts";

/** The rows of the table beside the kubelet that the README quotes. */
const quoted = [
  "one pod, created → Ready",
  "100 pods at once, created → Ready, wall",
  "one pod, deleted → gone",
  "a container's exit → its status, containerd 1.6",
  "idle with 100 pods: CPU of the agent, of one core",
  "idle with 100 pods: PSS",
];

/** The columns of that table without the floor and the number of samples, which the conditions name. */
const columns = [0, 2, 3, 4, 6, 7];

type KubeletResult = Extract<Result, { readonly part: "kubelet" }>;

/** The README's table and its conditions, in Markdown. They follow from the samples. */
export function readmeFigures({ measurements, conditions }: KubeletResult): string {
  const rows = clusterFigures(measurements).filter(({ what }) => quoted.includes(what));
  if (rows.length !== quoted.length) throw new Error(`the README quotes ${quoted.length} rows, found ${rows.length}`);
  const lines = markdownTable(rows, "kubelet").split("\n");
  const cells = lines.map((line) => line.slice("| ".length, -" |".length).split(" | "));
  const table = cells.map((row) => `| ${columns.map((column) => row[column] ?? "").join(" | ")} |`);
  return [table.join("\n"), describe(conditions)].join("\n\n");
}

/** `how` names the kubelet and the number of samples. */
function describe({ date, berth, containerd, system, kernel, cores, cpu, memoryGB, how }: Conditions): string {
  return [
    `Medians, and their ratio with its 90 % interval. Measured ${date.slice(0, 10)} with Berth ${berth},`,
    `containerd ${containerd} with runc, ${system}, Linux ${kernel}, ${cores} cores of ${cpu}, ${memoryGB} GB.`,
    how,
  ].join("\n");
}
