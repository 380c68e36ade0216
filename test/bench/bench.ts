// Measures the agent beside the floor, which is what the runtime's own calls take, and beside the reference kubelet; a table each.
// A missed goal is shown and fails nothing: figures depend on the machine.
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { execa } from "execa";
import { builtBinary } from "../bed/agent.ts";
import { buildIfStale } from "../bed/build.ts";
import type { ContainerdVersion } from "../bed/containerd/containerd.ts";
import { unavailableReason } from "../upstream/programs.ts";
import { describeConditions, readConditions } from "./conditions.ts";
import { foreignCpuIn } from "./foreign-cpu/foreign-cpu.ts";
import { type ForeignCpuWatch, watchForeignCpu } from "./foreign-cpu/watch-foreign-cpu.ts";
import { assess } from "./goals.ts";
import { type Effort, isEffort, measurePart } from "./measure-part.ts";
import { refusalOf, refusalOfForeignCpu, refusalOfMachine } from "./publication.ts";
import { measureBusyShare, waitUntilQuiet } from "./quiet-machine.ts";
import { drawingOf, figuresOf, type Result } from "./results.ts";
import type { Verdict } from "./statistics.ts";
import { type BenchPart, textTable } from "./table.ts";
import { readSamples, writeSamples, writeTables } from "./written-documents.ts";

const usage = `npm run bench -- [--effort quick|published|thorough] [--only floor|kubelet|own-share|probes|starts|volumes|api|network] [--containerd 1.6|2.1] [--write] [--binary PATH]

  --effort published   default: as many pairs as decide something; about three hours
  --effort quick       shows that everything runs and decides nothing; about half an hour
  --effort thorough    two hundred single pods, so that their 90th percentile is shown, too; about seven hours
  --only floor         only the comparison with raw CRI calls: thirty minutes
  --only kubelet       only the comparison with the reference kubelet: fifty-five minutes
  --only own-share     only the agents' own share of a start, and the time line of one start: three minutes
  --only probes        only probes, readiness and statuses, compared with the reference kubelet: twenty minutes
  --only starts        only servers that need time, Jobs and init containers, compared with the reference kubelet: ten minutes
  --only volumes       only volumes and the objects they come from, compared with the reference kubelet: twenty minutes
  --only api           only the node's own API: exec, logs, stats and metrics, compared with the reference kubelet: twenty minutes
  --only network       only the network of pods: the chain executed by the runtime and by the agent, and the built-in network,
                       compared with the reference kubelet: about thirty-five minutes
  --containerd         the release of the runtime (default 1.6)
  --write              write the tables into docs/benchmarks.md, the samples below docs/benchmarks/, and the README's six
                       figures; needs a tree that is committed, and a machine that is quiet before each part and stays so
  --tables             measure nothing: write all tables again from the samples below docs/benchmarks/
  --binary PATH        measure this program instead of dist/berth
`;

const titles: Readonly<Record<BenchPart, string>> = {
  floor: "Compared with raw CRI calls (the floor)",
  kubelet: "Compared with the kubelet",
  "own-share": "The agents' own share of a start",
  probes: "Probes, compared with the kubelet",
  starts: "Servers that need time, Jobs and init containers, compared with the kubelet",
  volumes: "Volumes, compared with the kubelet",
  api: "The node's own API, compared with the kubelet",
  network: "The network of pods, compared with the kubelet",
};

const repository = join(import.meta.dirname, "..", "..");

interface Options {
  readonly effort: Effort;
  readonly version: ContainerdVersion;
  readonly writesDocument: boolean;
  /** All parts if undefined. */
  readonly only: BenchPart | undefined;
  readonly binary: string | undefined;
  readonly writesTablesOnly: boolean;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      effort: { type: "string", default: "published" },
      only: { type: "string" },
      containerd: { type: "string", default: "1.6" },
      write: { type: "boolean", default: false },
      tables: { type: "boolean", default: false },
      binary: { type: "string" },
    },
  });
  const { effort, containerd: version, write: writesDocument, tables: writesTablesOnly, binary, only } = values;
  if (!isEffort(effort)) throw new Error(`--effort takes quick, published or thorough, found ${effort}`);
  if (version !== "1.6" && version !== "2.1") throw new Error(`--containerd takes 1.6 or 2.1, found ${version}`);
  if (only !== undefined && !isPart(only))
    throw new Error(`--only takes floor, kubelet, own-share, probes, starts, volumes, api or network, found ${only}`);
  return { effort, version, writesDocument, binary, only, writesTablesOnly };
}

const isPart = (text: string): text is BenchPart => Object.hasOwn(titles, text);

interface BenchRun {
  readonly results: readonly Result[];
  /** With `--write`: the machine was quiet before each part. Without, every part is measured. */
  readonly isComplete: boolean;
}

async function bench(options: Options): Promise<BenchRun> {
  const { effort, version, binary: givenBinary, only, writesDocument } = options;
  const interruption = createInterruption();
  if (givenBinary === undefined) console.log(await buildIfStale());
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-"));
  let watch: ForeignCpuWatch | undefined;
  try {
    // A copy, so that a concurrent build does not change the measured binary.
    const binary = join(folder, "berth");
    await copyFile(givenBinary ?? builtBinary, binary);
    if (writesDocument) await rejectUnpublishable(binary, effort);
    const results: Result[] = [];
    const parts = await partsOf(only);
    watch = await watchForeignCpu();
    for (const part of parts) {
      const busyBefore = await waitUntilQuiet(writesDocument ? QUIET_ATTEMPTS : 1, measureBusyShare);
      const refusal = refusalOfMachine(busyBefore);
      if (writesDocument && refusal !== undefined) {
        // What is measured already is worth hours.
        console.error(`bench: the part ${part} is not measured: ${refusal}`);
        continue;
      }
      await watch.take();
      const { how, ...measured } = await measurePart(part, effort, { binary, version, folder, interruption });
      const samples = await watch.take();
      const foreignCpu = samples && foreignCpuIn(samples, cpus().length);
      const during = { containerd: version, how, busyBefore, ...(foreignCpu !== undefined && { foreignCpu }) };
      results.push({ ...measured, conditions: await readConditions(binary, during) });
    }
    return { results, isComplete: results.length === parts.length };
  } finally {
    watch?.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

/** A machine becomes quiet within a minute after the previous part. */
const QUIET_ATTEMPTS = 12;

async function rejectUnpublishable(binary: string, effort: Effort): Promise<void> {
  const git = async (...args: readonly string[]) => (await execa("git", args, { cwd: repository })).stdout;
  const [{ stdout: version }, head, changes] = await Promise.all([
    execa(binary, ["version"]),
    git("rev-parse", "HEAD"),
    git("status", "--porcelain"),
  ]);
  const refusal = refusalOf({ version, head, changes, isQuick: effort === "quick" });
  if (refusal !== undefined) throw new Error(refusal);
}

/** The parts to measure; without the reference kubelet only the floor's. */
async function partsOf(only: BenchPart | undefined): Promise<readonly BenchPart[]> {
  const chosen = only === undefined ? (Object.keys(titles) as BenchPart[]) : [only];
  if (chosen.every((part) => part === "floor") || (await isKubeletAvailable())) return chosen;
  return chosen.filter((part) => part === "floor");
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

/** Prints the tables and writes the samples, with `--write` also the documents. Returns whether everything that was to be published is. */
async function main(options: Options): Promise<boolean> {
  const started = performance.now();
  const { results, isComplete } = await bench(options);
  for (const result of results) {
    console.log(`\n${titles[result.part]}:\n\n${textTable(figuresOf(result), result.part)}\n`);
    const drawing = drawingOf(result);
    if (drawing !== undefined) console.log(`${drawing}\n`);
    for (const line of describeConditions(result.conditions)) console.log(line);
  }
  console.log(
    "\nIn brackets: the lowest and the highest sample, or the 90 % interval. For pods at once the floor runs four calls in parallel.",
  );
  const verdicts = results.flatMap((result) => figuresOf(result).map((figure) => assess(figure)?.verdict));
  const count = (verdict: Verdict) => verdicts.filter((one) => one === verdict).length;
  for (const { part, conditions } of results)
    if (refusalOfMachine(conditions.busyBefore) !== undefined)
      console.log(`The machine was busy before the part ${part}, so its figures are not reliable.`);
  const refused = options.writesDocument ? await writeResults(results) : [];
  const unpublished = options.writesDocument ? refused : results;
  if (unpublished.length > 0) await writeSamples(join(repository, "state", "benchmarks"), unpublished);
  const minutes = ((performance.now() - started) / 60_000).toFixed(1);
  const counts = `${count("reached")} goals reached, ${count("missed")} missed, ${count("not decided")} not decided`;
  const folders = [
    ...(unpublished.length < results.length ? ["docs/benchmarks"] : []),
    ...(unpublished.length > 0 ? ["state/benchmarks"] : []),
  ];
  const where = folders.length === 0 ? "no part was measured" : `all samples: ${folders.join(" and ")}`;
  console.log(`\n${counts}, in ${minutes} minutes; ${where}`);
  return isComplete && refused.length === 0;
}

/** Publishes each part during which the machine was quiet. Returns the others. */
async function writeResults(results: readonly Result[]): Promise<readonly Result[]> {
  const refusals = new Map(
    results.map((result) => [result, refusalOfForeignCpu(result.part, result.conditions.foreignCpu)] as const),
  );
  for (const refusal of refusals.values()) if (refusal !== undefined) console.error(`bench: ${refusal}`);
  const published = results.filter((result) => refusals.get(result) === undefined);
  await writeSamples(join(repository, "docs", "benchmarks"), published);
  // The tables follow from the samples as they are written.
  await writeTables(
    repository,
    await readSamples(
      repository,
      published.map(({ part }) => part),
    ),
  );
  return results.filter((result) => !published.includes(result));
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
    if (options.writesTablesOnly) {
      await writeTables(repository, await readSamples(repository, Object.keys(titles) as BenchPart[]));
      return 0;
    }
    return (await main(options)) ? 0 : 1;
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  }
}

// After an interruption, exits without waiting for calls under way.
process.exit(await run());
