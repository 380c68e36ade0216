// Measures the agent beside the floor, which is what the runtime's own calls take, and prints one table:
//   bun test/bench/bench.ts [--quick] [--containerd 1.6|2.1] [--readme] [--binary PATH]
// A missed target is shown and fails nothing: figures depend on the machine.
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { builtBinary } from "../bed/agent.ts";
import { buildIfStale } from "../bed/build.ts";
import type { ContainerdVersion } from "../bed/containerd.ts";
import { createPodNames } from "./bench-pod.ts";
import { startBerth } from "./berth.ts";
import { type Conditions, describeConditions, loadNow, readConditions } from "./conditions.ts";
import { type Figure, figuresOf, isReached } from "./figures.ts";
import { startFloor } from "./floor.ts";
import { withFigures } from "./readme.ts";
import { fullEffort, type Measurements, measureAll, quickEffort } from "./rounds.ts";
import { startMeasuredRuntime } from "./runtime.ts";
import { markdownTable, textTable } from "./table.ts";

const usage = `npm run bench -- [--quick] [--containerd 1.6|2.1] [--readme] [--binary PATH]

  --quick              fewer repetitions: under three minutes instead of about ten
  --containerd         the release of the runtime (default 1.6)
  --readme             put the figures into README.md
  --binary PATH        measure this program instead of dist/berth
`;

const repository = join(import.meta.dirname, "..", "..");

interface Options {
  readonly isQuick: boolean;
  readonly version: ContainerdVersion;
  readonly writesReadme: boolean;
  readonly binary: string | undefined;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      quick: { type: "boolean", default: false },
      containerd: { type: "string", default: "1.6" },
      readme: { type: "boolean", default: false },
      binary: { type: "string" },
    },
  });
  const { quick: isQuick, containerd: version, readme: writesReadme, binary } = values;
  if (version !== "1.6" && version !== "2.1") throw new Error(`--containerd takes 1.6 or 2.1, found ${version}`);
  return { isQuick, version, writesReadme, binary };
}

/** Two equal runtimes, since an agent would take the floor's pods for strays and end them. */
async function bench({ isQuick, version, binary: given }: Options) {
  const load = { before: loadNow(), after: 0 };
  const interruption = interrupted();
  const effort = isQuick ? quickEffort : fullEffort;
  if (given === undefined) console.log(await buildIfStale());
  const folder = await mkdtemp(join(tmpdir(), "berth-bench-"));
  const ends: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  try {
    // A copy, so that a build in between does not change what is measured.
    const binary = join(folder, "berth");
    await copyFile(given ?? builtBinary, binary);
    const [floorDir, agentDir] = [join(folder, "floor"), join(folder, "agent")];
    const floorRuntime = await startMeasuredRuntime(version, floorDir);
    ends.push(floorRuntime.stop);
    const agentRuntime = await startMeasuredRuntime(version, agentDir);
    ends.push(agentRuntime.stop);
    const floor = startFloor(floorRuntime, floorDir);
    ends.push(floor.stop);
    const agent = await startBerth(binary, agentRuntime, agentDir);
    ends.push(agent.stop);
    const subjects = { binary, floor, agent, names: createPodNames(), say: console.log };
    const measurements = await Promise.race([measureAll(subjects, effort), interruption]);
    const conditions = await readConditions(binary, version, effort, { ...load, after: loadNow() });
    return { conditions, figures: figuresOf(measurements), measurements };
  } finally {
    for (const end of ends.toReversed()) await end();
  }
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

interface Result {
  readonly conditions: Conditions;
  readonly figures: readonly Figure[];
  readonly measurements: Measurements;
}

async function main(options: Options): Promise<void> {
  const started = performance.now();
  const result: Result = await bench(options);
  const { figures, conditions } = result;
  console.log(`\n${textTable(figures)}\n`);
  console.log("In brackets the lowest and the highest sample; the floor of pods at once works on four at a time.");
  for (const line of describeConditions(conditions)) console.log(line);
  const verdicts = figures.map(isReached);
  const count = (verdict: boolean) => verdicts.filter((one) => one === verdict).length;
  if (conditions.load.before > conditions.cores / 2)
    console.log("The machine was busy with other things before: the figures say little.");
  const file = await keep(result, options);
  const minutes = ((performance.now() - started) / 60_000).toFixed(1);
  console.log(`\n${count(true)} targets reached, ${count(false)} missed, in ${minutes} minutes; all samples: ${file}`);
}

/** Writes the JSON file, and README.md if it is asked for. Returns the file's path. */
async function keep(result: Result, { writesReadme }: Options): Promise<string> {
  const { figures, conditions } = result;
  const folder = join(repository, "state");
  const file = join(folder, "bench.json");
  await mkdir(folder, { recursive: true });
  await writeFile(file, `${JSON.stringify(result, null, 2)}\n`);
  if (writesReadme) {
    const readme = join(repository, "README.md");
    const words = [...describeConditions(conditions)].join(" ");
    await writeFile(readme, withFigures(await readFile(readme, "utf8"), `${markdownTable(figures)}\n\n${words}`));
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
