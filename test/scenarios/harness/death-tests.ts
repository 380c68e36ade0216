import { expect, test } from "bun:test";
import type { RuntimeEventSource } from "../../../cri/runtime.ts";
import { seededRandom } from "../../random.ts";
import type { AgentHarness } from "../harness.ts";
import {
  callsPerDeath,
  dieAnywhere,
  type Environment,
  type RepeatedScenario,
  type ScenarioHarness,
} from "./die-anywhere.ts";
import { exitLags, seed } from "./exit-lags.ts";
import type { HarnessOptions } from "./harness-options.ts";

/** What the repetitions of a scenario differ in: the death of the agent, and how the runtime reports exits. */
export type NodeOptions = Pick<HarnessOptions, "dieAfterCall" | "eventSource" | "exitLagMs" | "waitsForExits">;

/** A scenario as it is registered: its nodes differ, and one seed selects all that is random. */
export interface DeathTest<Harness extends ScenarioHarness = AgentHarness>
  extends Omit<RepeatedScenario<Harness>, "create" | "seed" | "eventSource"> {
  readonly create: (options: NodeOptions) => Promise<Harness>;
  /** Added to the seed, so that scenarios that are alike try different calls. */
  readonly offset?: number;
  /** Checks the end, which is the same after each death. */
  readonly expectEnd?: (end: readonly string[]) => void;
}

/** Every how many calls a scenario at most tries a death: beyond that, a scenario is to be made smaller. */
const MAX_STRIDE = 5;
/** `npm test` runs these tests with the lowest priority, beside suites that may keep all processors busy for minutes. */
const TIMEOUT_MS = 10 * 60_000;
/** For every call of a scenario that has hundreds. */
const LONG_TIMEOUT_MS = 30 * 60_000;

const SOURCES = ["containerd-events", "cri-events"] as const satisfies readonly RuntimeEventSource[];
let registered = 0;
let repeated = 0;

/**
 * Registers a test with one source of the runtime's events, with DIE_BOTH=1 one with each: the agent dies after every
 * `stride`-th call of the scenario (die anywhere), with DIE_BOTH=1 after every call, and the runtime's status lags behind
 * each exit by a random time. The seed selects the lags, the source (the other one for the next scenario), and the first
 * call; BERTH_SEED repeats them. The quick check leaves most scenarios out (REPEAT_EVERY). Throws if the stride is larger than five.
 */
export function testDeaths<Harness extends ScenarioHarness = AgentHarness>(scenario: DeathTest<Harness>): void {
  const { create, expectEnd, offset = 0, stride = 1, ...repeated } = scenario;
  if (stride > MAX_STRIDE)
    throw new Error(
      `"${scenario.name}" tries every ${stride}th call; make it smaller, its stride is at most ${MAX_STRIDE}`,
    );
  const turn = seed + registered++;
  if (!isItsTurn(turn)) return;
  for (const eventSource of selectSources(process.env, Math.floor(turn / repeatEvery))) {
    const title = `${scenario.name}, ${describeDeaths(stride, process.env)}, with ${eventSource} (BERTH_SEED=${seed})`;
    const createNode = (dieAfterCall?: number) =>
      create({
        eventSource,
        // Each repetition has the same lags, so that the agent makes the same calls until its death.
        exitLagMs: exitLags(seededRandom(seed)),
        ...(dieAfterCall === undefined ? {} : { dieAfterCall }),
      });
    const runToEnd = async (harness: Harness) => {
      await scenario.run(harness);
      await harness.showExits();
    };
    const run = async () => {
      const end = await dieAnywhere(
        {
          ...repeated,
          stride,
          run: runToEnd,
          create: createNode,
          eventSource,
          seed: { value: seed, offset },
        },
        process.env,
      );
      expectEnd?.(end);
    };
    test(title, run, process.env["DIE_BOTH"] === "1" ? LONG_TIMEOUT_MS : TIMEOUT_MS);
  }
}

/**
 * Of so many scenarios one is repeated with deaths, and one with late exits: the seed selects them. The quick check sets
 * REPEAT_EVERY.
 */
const repeatEvery = Number(process.env["REPEAT_EVERY"] ?? "1");
const isItsTurn = (turn: number) => turn % repeatEvery === 0;

/**
 * Repeats a scenario on a runtime whose status lags behind each exit by a random time, once with each source of its
 * events, and expects the same end. The seed selects the lags. The quick check leaves most scenarios out (REPEAT_EVERY),
 * and tries one source of the others.
 */
export async function expectEndWithLateExits(
  end: readonly string[],
  { create, run, endOf }: Pick<DeathTest, "create" | "run" | "endOf">,
): Promise<void> {
  const turn = seed + repeated++;
  if (!isItsTurn(turn)) return;
  const sources = repeatEvery === 1 ? SOURCES : selectSources({}, Math.floor(turn / repeatEvery));
  for (const eventSource of sources) {
    const harness = await create({ eventSource, exitLagMs: exitLags(seededRandom(seed)), waitsForExits: true });
    await run(harness);
    await harness.showExits();
    expect(await endOf(harness), `with ${eventSource} and late exits, BERTH_SEED=${seed}`).toEqual(end);
  }
}

/** The deaths of a scenario, for the title of its test. */
export function describeDeaths(stride: number, env: Environment): string {
  if (env["DIE_AT"] !== undefined) return `if the agent dies after call ${env["DIE_AT"]}`;
  const every = callsPerDeath(stride, env);
  return every === 1 ? "whatever call the agent dies after" : `if the agent dies after one of ${every} calls`;
}

/** The source whose turn it is; both where all deaths are tried, or one is repeated. */
export function selectSources({ DIE_AT, DIE_BOTH }: Environment, turn: number): readonly RuntimeEventSource[] {
  const first = turn % SOURCES.length;
  const inTurn = [...SOURCES.slice(first), ...SOURCES.slice(0, first)];
  return DIE_AT !== undefined || DIE_BOTH === "1" ? inTurn : inTurn.slice(0, 1);
}
