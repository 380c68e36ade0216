import type { StatsSummary } from "../../../proto/kubelet/stats-summary.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import {
  fieldsOfBerthAlone,
  isKnown,
  metricsOfKubeletAlone,
} from "../../differential/stats/known-stats-differences.ts";
import { fieldPaths, metricShapes, missingIn } from "../../differential/stats/page-shape.ts";
import { assert } from "./await-cgroups.ts";
import { isReady, type NodeBed } from "./node-bed.ts";

const PAGES_TIMEOUT_MS = 5 * 60_000;
const POLL_MS = 5000;
/** What a container that sleeps may take or free between two readings, in bytes. */
const MEMORY_TOLERANCE = 2 ** 20;

/** The pages of one agent that are read from cgroups. */
interface StatsPages {
  readonly summary: string;
  readonly resource: string;
  readonly cadvisor: string;
}

/** Reads the pages of the agent that runs. */
async function readStatsPages({ readPage }: NodeBed): Promise<StatsPages> {
  const [summary, resource, cadvisor] = [
    await readPage("/stats/summary"),
    await readPage("/metrics/resource"),
    await readPage("/metrics/cadvisor"),
  ];
  return { summary, resource, cadvisor };
}

/**
 * Compares the pages of both agents for the same containers: fields and metrics that only one has, and metrics with other
 * texts, types or labels. Returns a line for each difference that is not known.
 */
function comparePages(kubelet: StatsPages, berth: StatsPages): readonly string[] {
  const fieldsOf = ({ summary }: StatsPages) => new Set(fieldPaths(JSON.parse(summary) as StatsSummary));
  const metricsOf = (page: string) =>
    [...metricShapes(page)].map(([name, { help, type, labels }]) =>
      [name, help, type, ...[...labels].toSorted()].join("; "),
    );
  const namesOf = ({ cadvisor }: StatsPages) => metricShapes(cadvisor).keys();
  const only = (agent: string, what: string, lines: readonly string[]) =>
    lines.map((line) => `only ${agent} has ${what} ${line}`);
  const known = (differences: Readonly<Record<string, string>>) => (line: string) => !isKnown(differences, line);
  return [
    ...only("the kubelet", "the field", missingIn(fieldsOf(kubelet), fieldsOf(berth))),
    ...only("Berth", "the field", missingIn(fieldsOf(berth), fieldsOf(kubelet)).filter(known(fieldsOfBerthAlone))),
    ...only("the kubelet", "the metric", missingIn(metricsOf(kubelet.resource), metricsOf(berth.resource))),
    ...only("Berth", "the metric", missingIn(metricsOf(berth.resource), metricsOf(kubelet.resource))),
    ...only(
      "the kubelet",
      "the metric",
      missingIn(namesOf(kubelet), namesOf(berth)).filter(known(metricsOfKubeletAlone)),
    ),
  ];
}

/**
 * Reads the pages of Berth, and then those of the kubelet in its place, which takes the pods over. Throws unless they are alike,
 * and Berth's page has the memory that the files of each container's cgroup say.
 */
export async function compareStats(bed: NodeBed, created: readonly Pod[]): Promise<string> {
  await bed.deletePods();
  await bed.createPods(created, isReady);
  const berth = await readStatsPages(bed);
  const containers = await compareMemory(bed, berth);
  await bed.stopAgent("berth");
  await bed.startAgent("kubelet");
  let differences: readonly string[] = [];
  const areAlike = async () => {
    differences = await readStatsPages(bed).then(
      (kubelet) => comparePages(kubelet, berth),
      (error: Error) => [error.message],
    );
    return differences.length === 0;
  };
  // The kubelet does not serve at once, and its cAdvisor finds the containers one after the other.
  await pollUntil("the kubelet's pages to be like Berth's", PAGES_TIMEOUT_MS, areAlike, POLL_MS).catch(
    (cause: Error) => {
      throw new Error(`${cause.message}:\n${differences.join("\n")}`, { cause });
    },
  );
  await bed.stopAgent("kubelet");
  await bed.startAgent("berth");
  return `summary and metrics have the kubelet's fields; the memory of ${containers} containers is that of their files`;
}

/** Returns how many containers were compared. */
async function compareMemory(bed: NodeBed, { summary }: StatsPages): Promise<number> {
  const files = await bed.guest.run(`cd /sys/fs/cgroup
for file in $(busybox find kubepods* -name memory.current); do
  echo "$file $(cat $file) $(sed -n 's/^inactive_file //p' \${file%current}stat)"
done`);
  const bytesOf = (id: string) => {
    const line = files.split("\n").find((each) => each.includes(id)) ?? "";
    const [, current, inactive] = line.split(" ").map(Number) as [number, number, number];
    return current - inactive;
  };
  const pods = await bed.listPods();
  const compared = (JSON.parse(summary) as StatsSummary).pods.flatMap(({ podRef, containers }) =>
    containers.map(({ name, memory }) => {
      const status = pods.get(podRef.name)?.status?.containerStatuses?.find((each) => each.name === name);
      const bytes = bytesOf(status?.containerID?.replace(/^.*:\/\//, "") ?? "no id");
      return { name: `${podRef.name}/${name}`, page: memory?.workingSetBytes ?? 0, files: bytes };
    }),
  );
  const wrong = compared.filter((each) => !(Math.abs(each.page - each.files) <= MEMORY_TOLERANCE));
  assert(compared.length > 0, "the summary has no container");
  assert(wrong.length === 0, `the working sets differ: ${JSON.stringify(wrong)}`);
  return compared.length;
}
