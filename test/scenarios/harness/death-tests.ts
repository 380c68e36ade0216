import { test } from "bun:test";
import type { RuntimeEventSource } from "../../../cri/runtime.ts";
import { seededRandom } from "../../random.ts";
import type { AgentHarness, HarnessOptions } from "../harness.ts";
import { dieAnywhere, type Environment, type RepeatedScenario, type ScenarioHarness } from "./die-anywhere.ts";

/** What the repetitions of a scenario differ in: the death of the agent, and how the runtime reports exits. */
export type NodeOptions = Pick<HarnessOptions, "dieAfterCall" | "eventSource" | "exitLagMs">;

/** A scenario as it is registered: its nodes differ, and one seed selects all that is random. */
export interface DeathTest<Harness extends ScenarioHarness = AgentHarness>
  extends Omit<RepeatedScenario<Harness>, "create" | "seed" | "eventSource"> {
  readonly create: (options: NodeOptions) => Promise<Harness>;
  /** Added to the seed, so that scenarios that are alike try different calls. */
  readonly offset?: number;
  /** Checks the end, which is the same after each death. */
  readonly expectEnd?: (end: readonly string[]) => void;
}

const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));

const SOURCES = ["containerd-events", "cri-events"] as const satisfies readonly RuntimeEventSource[];
let registered = 0;

/**
 * Registers a test for each source of the runtime's events: the agent dies after each call of the scenario (die
 * anywhere), and the runtime's status lags behind each exit by a random time. The quick check (DIE_EVERY) takes one
 * source for each scenario, by turns. The seed selects the lags and the first call; BERTH_SEED repeats them.
 */
export function testDeaths<Harness extends ScenarioHarness = AgentHarness>(scenario: DeathTest<Harness>): void {
  const { create, expectEnd, offset = 0, ...repeated } = scenario;
  for (const eventSource of selectSources(process.env, seed + registered++)) {
    const title = `${scenario.name}, whatever call the agent dies after, with ${eventSource} (BERTH_SEED=${seed})`;
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
        { ...repeated, run: runToEnd, create: createNode, eventSource, seed: { value: seed, offset } },
        process.env,
      );
      expectEnd?.(end);
    };
    test(title, run, 120_000);
  }
}

/** Both sources, or one of them by turns if only some calls are tried. */
export function selectSources({ DIE_EVERY, DIE_AT }: Environment, turn: number): readonly RuntimeEventSource[] {
  const triesAll = DIE_AT !== undefined || Number(DIE_EVERY ?? "1") === 1;
  return triesAll ? SOURCES : SOURCES.filter((_, index) => index === turn % SOURCES.length);
}

/** Most statuses lag by less than 100 ms, as those of containerd; on a busy machine it may be more. */
export function exitLags(random: () => number): () => number {
  return () => {
    const kind = random();
    return Math.ceil(random() * (kind < 0.7 ? 100 : kind < 0.95 ? 900 : 3000));
  };
}
