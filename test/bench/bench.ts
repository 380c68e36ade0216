// Measures the agent beside the floor, which is what the runtime's own calls take, and beside the reference kubelet; a table each:
//   bun test/bench/bench.ts [--quick] [--only floor|kubelet|probes|starts] [--containerd 1.6|2.1] [--write] [--binary PATH]
// A missed target is shown and fails nothing: figures depend on the machine.
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { builtBinary } from "../bed/agent.ts";
import { buildIfStale } from "../bed/build.ts";
import type { ContainerdVersion } from "../bed/containerd/containerd.ts";
import { unavailableReason } from "../upstream/programs.ts";
import { withFigures } from "./benchmarks-document.ts";
import { benchCluster, type ClusterResult } from "./cluster/cluster-bench.ts";
import { clusterFigures } from "./cluster/cluster-figures.ts";
import { describeClusterEffort, fullClusterEffort, quickClusterEffort } from "./cluster/cluster-rounds.ts";
import { type Conditions, describeConditions, loadNow, readConditions } from "./conditions.ts";
import { type Figure, floorFigures, isTargetReached } from "./figures.ts";
import { benchFloor } from "./floor/floor-bench.ts";
import {
  describeFloorEffort,
  type FloorMeasurements,
  fullFloorEffort,
  quickFloorEffort,
} from "./floor/floor-rounds.ts";
import {
  benchProbes,
  describeProbeEffort,
  fullProbeEffort,
  type ProbeResult,
  quickProbeEffort,
} from "./probes/probe-bench.ts";
import { probeFigures } from "./probes/probe-figures.ts";
import {
  benchStarts,
  describeStartsEffort,
  fullStartsEffort,
  quickStartsEffort,
  type StartsResult,
} from "./starts/starts-bench.ts";
import { startsFigures } from "./starts/starts-figures.ts";
import { type BenchPart, markdownTable, textTable } from "./table.ts";

const usage = `npm run bench -- [--quick] [--only floor|kubelet|probes|starts] [--containerd 1.6|2.1] [--write] [--binary PATH]

  --quick              fewer repetitions: about twenty minutes instead of sixty-five
  --only floor         only the comparison with raw CRI calls: a third of the time
  --only kubelet       only the comparison with the reference kubelet
  --only probes        only probes, readiness and statuses, compared with the reference kubelet
  --only starts        only servers that need time, Jobs and init containers, compared with the reference kubelet
  --containerd         the release of the runtime (default 1.6)
  --write              write the figures into docs/benchmarks.md
  --binary PATH        measure this program instead of dist/berth
`;

const titles: Readonly<Record<BenchPart, string>> = {
  floor: "Compared with raw CRI calls (the floor)",
  kubelet: "Compared with the kubelet",
  probes: "Probes, compared with the kubelet",
  starts: "Servers that need time, Jobs and init containers, compared with the kubelet",
};

const repository = join(import.meta.dirname, "..", "..");

interface Options {
  readonly isQuick: boolean;
  readonly version: ContainerdVersion;
  readonly writesDocument: boolean;
  /** All parts if undefined. */
  readonly only: BenchPart | undefined;
  readonly binary: string | undefined;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      quick: { type: "boolean", default: false },
      only: { type: "string" },
      containerd: { type: "string", default: "1.6" },
      write: { type: "boolean", default: false },
      binary: { type: "string" },
    },
  });
  const { quick: isQuick, containerd: version, write: writesDocument, binary, only } = values;
  if (version !== "1.6" && version !== "2.1") throw new Error(`--containerd takes 1.6 or 2.1, found ${version}`);
  if (only !== undefined && !isPart(only))
    throw new Error(`--only takes floor, kubelet, probes or starts, found ${only}`);
  return { isQuick, version, writesDocument, binary, only };
}

const isPart = (text: string): text is BenchPart => Object.hasOwn(titles, text);

async function bench({ isQuick, version, binary: givenBinary, only }: Options): Promise<readonly Result[]> {
  const before = loadNow();
  const interruption = createInterruption();
  if (givenBinary === undefined) console.log(await buildIfStale());
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-"));
  try {
    // A copy, so that a concurrent build does not change the measured binary.
    const binary = join(folder, "berth");
    await copyFile(givenBinary ?? builtBinary, binary);
    const results: Result[] = [];
    const add = async (part: BenchPart, partResult: PartResult) => {
      const load = { before, after: loadNow() };
      results.push({ part, ...partResult, conditions: await readConditions(binary, version, partResult.how, load) });
    };
    const common = { binary, version, folder, interruption };
    const isAsked = (part: BenchPart) => only === undefined || only === part;
    if (isAsked("floor")) {
      const effort = isQuick ? quickFloorEffort : fullFloorEffort;
      const measurements = await benchFloor({ ...common, effort });
      await add("floor", { measurements, figures: floorFigures(measurements), how: describeFloorEffort(effort) });
    }
    if (only === "floor" || !(await isKubeletAvailable())) return results;
    if (isAsked("kubelet")) {
      const effort = isQuick ? quickClusterEffort : fullClusterEffort;
      const measurements = await benchCluster({ ...common, effort });
      await add("kubelet", { measurements, figures: clusterFigures(measurements), how: describeClusterEffort(effort) });
    }
    if (isAsked("probes")) {
      const effort = isQuick ? quickProbeEffort : fullProbeEffort;
      const measurements = await benchProbes({ ...common, effort });
      await add("probes", { measurements, figures: probeFigures(measurements), how: describeProbeEffort(effort) });
    }
    if (isAsked("starts")) {
      const effort = isQuick ? quickStartsEffort : fullStartsEffort;
      const measurements = await benchStarts({ ...common, effort });
      await add("starts", { measurements, figures: startsFigures(measurements), how: describeStartsEffort(effort) });
    }
    return results;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Whether the reference kubelet is available here. If not, prints the reason, and its rows are left out. */
async function isKubeletAvailable(): Promise<boolean> {
  const reason = await unavailableReason();
  if (reason !== undefined) console.warn(`left out: the comparison with the reference kubelet, because ${reason}`);
  return reason === undefined;
}

/** Rejects on a termination signal, so that the clean-up runs before the process ends. */
function createInterruption(): Promise<never> {
  const interruption = new Promise<never>((_, reject) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      process.once(signal, () => reject(new Error(`ended by ${signal}`)));
  });
  // During the set-up nothing awaits the promise yet, which must not count as an unhandled rejection.
  interruption.catch(() => undefined);
  return interruption;
}

interface PartResult {
  readonly figures: readonly Figure[];
  readonly measurements: FloorMeasurements | ClusterResult | ProbeResult | StartsResult;
  readonly how: string;
}

interface Result extends Omit<PartResult, "how"> {
  readonly part: BenchPart;
  readonly conditions: Conditions;
}

async function main(options: Options): Promise<void> {
  const started = performance.now();
  const results = await bench(options);
  for (const { part, figures, conditions } of results) {
    console.log(`\n${titles[part]}:\n\n${textTable(figures, part)}\n`);
    for (const line of describeConditions(conditions)) console.log(line);
  }
  console.log(
    "\nIn brackets: the lowest and the highest sample. For pods at once the floor runs four calls in parallel.",
  );
  const verdicts = results.flatMap(({ figures }) => figures.map(isTargetReached));
  const count = (verdict: boolean) => verdicts.filter((one) => one === verdict).length;
  if (results.some(({ conditions }) => conditions.load.before > conditions.cores / 2))
    console.log("The machine was busy before the run, so the figures are not reliable.");
  const file = await writeResults(results, options);
  const minutes = ((performance.now() - started) / 60_000).toFixed(1);
  console.log(`\n${count(true)} targets reached, ${count(false)} missed, in ${minutes} minutes; all samples: ${file}`);
}

/** Writes the JSON file, and docs/benchmarks.md with `--write`. Returns the path of the JSON file. */
async function writeResults(results: readonly Result[], { writesDocument }: Options): Promise<string> {
  const folder = join(repository, "state");
  const file = join(folder, "bench.json");
  await mkdir(folder, { recursive: true });
  await writeFile(file, `${JSON.stringify(results, null, 2)}\n`);
  if (writesDocument) {
    const document = join(repository, "docs", "benchmarks.md");
    const write = (text: string, { part, figures, conditions }: Result) =>
      withFigures(text, part, `${markdownTable(figures, part)}\n\n${describeConditions(conditions).join(" ")}`);
    await writeFile(document, results.reduce(write, await readFile(document, "utf8")));
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

// After an interruption, exits without waiting for calls under way.
process.exit(await run());
