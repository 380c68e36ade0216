// Measures the agent beside the floor, which is what the runtime's own calls take, and beside the reference kubelet; a table each:
//   bun test/bench/bench.ts [--quick] [--only floor|kubelet|probes] [--containerd 1.6|2.1] [--readme] [--binary PATH]
// A missed target is shown and fails nothing: figures depend on the machine.
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { builtBinary } from "../bed/agent.ts";
import { buildIfStale } from "../bed/build.ts";
import type { ContainerdVersion } from "../bed/containerd/containerd.ts";
import { whyUnavailable } from "../upstream/programs.ts";
import { withFigures } from "./benchmarks-document.ts";
import { benchCluster, type ClusterResult } from "./cluster/cluster-bench.ts";
import { clusterFigures } from "./cluster/cluster-figures.ts";
import { describeClusterEffort, fullClusterEffort, quickClusterEffort } from "./cluster/cluster-rounds.ts";
import { type Conditions, describeConditions, loadNow, readConditions } from "./conditions.ts";
import { type Figure, figuresOf, isReached } from "./figures.ts";
import { benchFloor } from "./floor/floor-bench.ts";
import { describeEffort, fullEffort, type Measurements, quickEffort } from "./floor/floor-rounds.ts";
import {
  benchProbes,
  describeProbeEffort,
  fullProbeEffort,
  type ProbeResult,
  quickProbeEffort,
} from "./probes/probe-bench.ts";
import { probeFigures } from "./probes/probe-figures.ts";
import { markdownTable, type Part, textTable } from "./table.ts";

const usage = `npm run bench -- [--quick] [--only floor|kubelet|probes] [--containerd 1.6|2.1] [--readme] [--binary PATH]

  --quick              fewer repetitions: about fourteen minutes instead of fifty-five
  --only floor         beside the raw calls to the runtime alone: a third of the time
  --only kubelet       beside the reference kubelet alone
  --only probes        probes and what comes of them alone, beside the reference kubelet too
  --containerd         the release of the runtime (default 1.6)
  --readme             put the figures into README.md
  --binary PATH        measure this program instead of dist/berth
`;

const titles: Readonly<Record<Part, string>> = {
  floor: "Beside the floor",
  kubelet: "Beside the kubelet",
  probes: "Probes, beside the kubelet",
};

const repository = join(import.meta.dirname, "..", "..");

interface Options {
  readonly isQuick: boolean;
  readonly version: ContainerdVersion;
  readonly writesReadme: boolean;
  /** All parts if undefined. */
  readonly only: Part | undefined;
  readonly binary: string | undefined;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      quick: { type: "boolean", default: false },
      only: { type: "string" },
      containerd: { type: "string", default: "1.6" },
      readme: { type: "boolean", default: false },
      binary: { type: "string" },
    },
  });
  const { quick: isQuick, containerd: version, readme: writesReadme, binary, only } = values;
  if (version !== "1.6" && version !== "2.1") throw new Error(`--containerd takes 1.6 or 2.1, found ${version}`);
  if (only !== undefined && only !== "floor" && only !== "kubelet" && only !== "probes")
    throw new Error(`--only takes floor, kubelet or probes, found ${only}`);
  return { isQuick, version, writesReadme, binary, only };
}

async function bench({ isQuick, version, binary: given, only }: Options): Promise<readonly Result[]> {
  const before = loadNow();
  const interruption = interrupted();
  if (given === undefined) console.log(await buildIfStale());
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-"));
  try {
    // A copy, so that a build in between does not change what is measured.
    const binary = join(folder, "berth");
    await copyFile(given ?? builtBinary, binary);
    const results: Result[] = [];
    const add = async (part: Part, half: Half) => {
      const load = { before, after: loadNow() };
      results.push({ part, ...half, conditions: await readConditions(binary, version, half.how, load) });
    };
    const common = { binary, version, folder, interruption };
    if (only === undefined || only === "floor") {
      const effort = isQuick ? quickEffort : fullEffort;
      const measurements = await benchFloor({ ...common, effort });
      await add("floor", { measurements, figures: figuresOf(measurements), how: describeEffort(effort) });
    }
    if (only === "floor" || !(await canHaveKubelet())) return results;
    if (only !== "probes") {
      const effort = isQuick ? quickClusterEffort : fullClusterEffort;
      const measurements = await benchCluster({ ...common, effort });
      await add("kubelet", { measurements, figures: clusterFigures(measurements), how: describeClusterEffort(effort) });
    }
    if (only !== "kubelet") {
      const effort = isQuick ? quickProbeEffort : fullProbeEffort;
      const measurements = await benchProbes({ ...common, effort });
      await add("probes", { measurements, figures: probeFigures(measurements), how: describeProbeEffort(effort) });
    }
    return results;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Says it where it cannot be had: its rows are left out then. */
async function canHaveKubelet(): Promise<boolean> {
  const reason = await whyUnavailable();
  if (reason !== undefined) console.warn(`left out: the figures beside the reference kubelet, since ${reason}`);
  return reason === undefined;
}

/** Rejects when the user has had enough, so that the clean-up comes before the end. */
function interrupted(): Promise<never> {
  const interruption = new Promise<never>((_, reject) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      process.once(signal, () => reject(new Error(`ended by ${signal}`)));
  });
  // During the set-up nobody listens yet; whoever measures hears of it at once.
  interruption.catch(() => undefined);
  return interruption;
}

interface Half {
  readonly figures: readonly Figure[];
  readonly measurements: Measurements | ClusterResult | ProbeResult;
  readonly how: string;
}

interface Result extends Omit<Half, "how"> {
  readonly part: Part;
  readonly conditions: Conditions;
}

async function main(options: Options): Promise<void> {
  const started = performance.now();
  const results = await bench(options);
  for (const { part, figures, conditions } of results) {
    console.log(`\n${titles[part]}:\n\n${textTable(figures, part)}\n`);
    for (const line of describeConditions(conditions)) console.log(line);
  }
  console.log("\nIn brackets the lowest and the highest sample; the floor of pods at once works on four at a time.");
  const verdicts = results.flatMap(({ figures }) => figures.map(isReached));
  const count = (verdict: boolean) => verdicts.filter((one) => one === verdict).length;
  if (results.some(({ conditions }) => conditions.load.before > conditions.cores / 2))
    console.log("The machine was busy with other things before: the figures say little.");
  const file = await keep(results, options);
  const minutes = ((performance.now() - started) / 60_000).toFixed(1);
  console.log(`\n${count(true)} targets reached, ${count(false)} missed, in ${minutes} minutes; all samples: ${file}`);
}

/** Writes the JSON file, and README.md if it is asked for. Returns the file's path. */
async function keep(results: readonly Result[], { writesReadme }: Options): Promise<string> {
  const folder = join(repository, "state");
  const file = join(folder, "bench.json");
  await mkdir(folder, { recursive: true });
  await writeFile(file, `${JSON.stringify(results, null, 2)}\n`);
  if (writesReadme) {
    const readme = join(repository, "README.md");
    const write = (text: string, { part, figures, conditions }: Result) =>
      withFigures(text, part, `${markdownTable(figures, part)}\n\n${describeConditions(conditions).join(" ")}`);
    await writeFile(readme, results.reduce(write, await readFile(readme, "utf8")));
  }
  return relative(process.cwd(), file);
}

async function run(): Promise<number> {
  let options: Options;
  try {
    options = readOptions();
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : String(error)}\n\n${usage}`);
    return 2;
  }
  try {
    await main(options);
    return 0;
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  }
}

// Whatever was under way when it was interrupted is not waited for.
process.exit(await run());
