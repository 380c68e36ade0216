import { join, relative } from "node:path";
import type { RuntimeEventSource } from "../../../cri/runtime.ts";
import type { AgentHarness } from "../harness.ts";
import { type RecordedRun, repeatedEventsOf } from "./checks-at-end.ts";
import { duplicateInstances } from "./duplicate-instances.ts";
import { ruleOf } from "./expected-regressions.ts";

/** What a repeated scenario needs of its harness. */
export interface ScenarioHarness
  extends RecordedRun,
    Pick<AgentHarness, "course" | "diedAfter" | "mutatingCalls" | "statusRegressions" | "showExits"> {}

/** A scenario that is repeated for every call after which the agent may die, and has to end the same each time. */
export interface RepeatedScenario<Harness extends ScenarioHarness = AgentHarness> {
  readonly name: string;
  /** Creates a node whose agent dies after this mutating call; it never dies if left out. */
  readonly create: (dieAfterCall?: number) => Promise<Harness>;
  /** Starts the agent, and runs until the node is idle. */
  readonly run: (harness: Harness) => Promise<void>;
  /** The lines of the end state. */
  readonly endOf: (harness: Harness) => Promise<readonly string[]>;
  /** Every how many calls the agent dies; 1 if left out. */
  readonly stride?: number;
  /** The value, with the offset, selects the first of these calls; call 0 if left out. */
  readonly seed?: { readonly value: number; readonly offset: number };
  /** The source of the runtime's events, for the command that repeats a death. */
  readonly eventSource?: RuntimeEventSource;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** The whole end state: the node, and the pods in the API. */
export async function endStateOf(harness: AgentHarness): Promise<readonly string[]> {
  return [...harness.nodeSnapshot(), ...(await harness.apiPods()).map((line) => `shown ${line}`)];
}

/**
 * Runs a scenario without a death, and then once for each death. Throws if an end differs, if two instances of a
 * sandbox or container were live at once, if a pod's status in the API regresses only after a death, or if an event of a
 * container is repeated. Returns the end.
 */
export async function dieAnywhere<Harness extends ScenarioHarness>(
  scenario: RepeatedScenario<Harness>,
  env: Environment,
): Promise<readonly string[]> {
  const undisturbed = await scenario.create();
  await scenario.run(undisturbed);
  const end = await scenario.endOf(undisturbed);
  const repeated = repeatedEventsOf(undisturbed, 0);
  if (repeated.length > 0) throw new Error([`"${scenario.name}" without a death:`, ...repeated].join("\n"));
  for (const dieAfterCall of selectDeaths(scenario, undisturbed.mutatingCalls, env)) {
    const harness = await scenario.create(dieAfterCall);
    const [failure, cause] = await runWithDeath(scenario, harness, { end, undisturbed });
    if (failure.length > 0)
      throw new Error(describeDeath({ scenario, dieAfterCall, failure, harness, undisturbed }), { cause });
  }
  return end;
}

/**
 * The calls after which the agent dies. DIE_AT=n selects one, DIE_EVERY=n every n-th of the scenario's own, and
 * DIE_BOTH=1 every call, whatever the scenario's stride. A scenario with fewer calls than that has one death,
 * since otherwise it would try none.
 */
export function selectDeaths(
  { name, stride = 1, seed = { value: 0, offset: 0 } }: Pick<RepeatedScenario, "name" | "stride" | "seed">,
  mutatingCalls: number,
  env: Environment,
): readonly number[] {
  const { DIE_AT: dieAt } = env;
  if (dieAt !== undefined) {
    const call = Number(dieAt);
    if (!/^\d+$/.test(dieAt)) throw new Error(`DIE_AT=${dieAt} is not the number of a call`);
    if (call < mutatingCalls) return [call];
    console.log(`no death: "${name}" has no call ${call}, its last one is ${mutatingCalls - 1}`);
    return [];
  }
  if (mutatingCalls === 0) throw new Error(`"${name}" makes no call after which the agent could die`);
  const start = seed.value + seed.offset;
  const every = callsPerDeath(stride, env);
  const calls = Array.from({ length: mutatingCalls }, (_, call) => call);
  const selected = calls.filter((call) => call % every === start % every);
  return selected.length === 0 ? [start % mutatingCalls] : selected;
}

/** After every how many calls the agent dies: the scenario's stride, unless DIE_BOTH=1, times DIE_EVERY. */
export const callsPerDeath = (stride: number, { DIE_EVERY, DIE_BOTH }: Environment): number =>
  (DIE_BOTH === "1" ? 1 : stride) * Number(DIE_EVERY ?? "1");

/** What is wrong with a run with a death: nothing, or lines, with the error if the scenario itself failed. */
async function runWithDeath<Harness extends ScenarioHarness>(
  { run, endOf }: RepeatedScenario<Harness>,
  harness: Harness,
  { end, undisturbed }: { readonly end: readonly string[]; readonly undisturbed: Harness },
): Promise<readonly [failure: readonly string[], cause?: unknown]> {
  try {
    await run(harness);
    if (harness.diedAfter === undefined) return [["The agent did not die: it made fewer calls than without a death."]];
    const difference = endDifference(end, await endOf(harness));
    const title = "The end states differ (- without the death, + with it):";
    const duplicates = duplicateInstances(harness.runtime.timeline);
    const regressions = newRegressions(undisturbed.statusRegressions(), harness.statusRegressions());
    const repeated = repeatedEventsOf(harness, 1);
    return [[...(difference.length > 0 ? [title, ...difference] : []), ...duplicates, ...regressions, ...repeated]];
  } catch (error) {
    return [[`The scenario fails: ${error instanceof Error ? error.message : error}`], error];
  }
}

/**
 * The regressions of statuses that happen only after the death. Some scenarios have others, too: a container that
 * becomes unready by its probe, or one that `RestartAllContainers` removes.
 */
function newRegressions(before: readonly string[], after: readonly string[]): readonly string[] {
  const known = new Set(before.map(ruleOf));
  return after.filter((line) => !known.has(ruleOf(line)));
}

const MAX_DIFFERENT_LINES = 20;

/** The lines that only one of two end states has, sorted. */
function endDifference(expected: readonly string[], found: readonly string[]): readonly string[] {
  const count = (lines: readonly string[], line: string) => lines.filter((each) => each === line).length;
  const lines = [...new Set([...expected, ...found])].toSorted().flatMap((line) => {
    const surplus = count(found, line) - count(expected, line);
    return Array.from({ length: Math.abs(surplus) }, () => `${surplus > 0 ? "+" : "-"} ${line}`);
  });
  const shown = lines.slice(0, MAX_DIFFERENT_LINES);
  return lines.length > shown.length ? [...shown, `… and ${lines.length - shown.length} more lines`] : shown;
}

interface DeathInput {
  readonly scenario: Pick<RepeatedScenario, "name" | "seed" | "eventSource">;
  readonly dieAfterCall: number;
  readonly failure: readonly string[];
  readonly harness: ScenarioHarness;
  readonly undisturbed: ScenarioHarness;
}

function describeDeath({ scenario, dieAfterCall, failure, harness, undisturbed }: DeathInput): string {
  const { name, seed, eventSource } = scenario;
  const file = `./${relative(join(import.meta.dirname, "..", "..", ".."), Bun.main)}`;
  // Any character matches itself, also those that the shell or a regular expression would interpret.
  const pattern = `${name.replaceAll(/[^\w ,:;-]/g, ".")}${eventSource === undefined ? "" : `, .* with ${eventSource}`}`;
  const environment = `DIE_AT=${dieAfterCall}${seed === undefined ? "" : ` BERTH_SEED=${seed.value}`}`;
  const indented = ({ course }: ScenarioHarness) =>
    course.map((line) => (line.startsWith("--> ") ? line : `    ${line}`)).join("\n");
  return [
    `"${name}" ends differently if the agent dies after call ${dieAfterCall}, ${harness.diedAfter ?? "which it did not make"}.`,
    `To repeat it: ${environment} npx bun test ${file} -t "${pattern}"`,
    "",
    ...failure,
    "",
    "Without the death:",
    indented(undisturbed),
    "",
    "With the death:",
    indented(harness),
  ].join("\n");
}
