import { expect, test } from "bun:test";
import { createStage, type Stage } from "./harness.ts";
import { expectNothingTwice } from "./scenario.ts";

const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));

export const inCluster = { isInCluster: true } as const;

/** What is left on the node, and what the API server shows. */
export interface Ending {
  readonly node: readonly string[];
  readonly api: readonly string[];
}

/** A node of a cluster, and what happens to it. */
export async function play(run: (stage: Stage) => Promise<void>, dieAfterCall?: number): Promise<Stage> {
  const stage = await createStage({ ...inCluster, ...(dieAfterCall === undefined ? {} : { dieAfterCall }) });
  await stage.start();
  await run(stage);
  return stage;
}

export const endOf = async (stage: Stage): Promise<Ending> => ({ node: stage.scene(), api: await stage.shown() });

/**
 * Tells how it ends, and that it ends so whatever call the agent dies after. Of plays that are much alike each tries only every
 * `apart`-th of the calls, and the quick check fewer yet; with which one it begins follows from the seed, so that in time all have
 * their turn.
 */
export function apiScenario(
  name: string,
  run: (stage: Stage) => Promise<void>,
  check: (end: Ending, stage: Stage) => Promise<void>,
  { apart = 1, shift = 0 } = {},
): void {
  const every = apart * Number(process.env["DIE_EVERY"] ?? 1);
  const first = (seed + shift) % every;
  const some = every === 1 ? "" : ` (BERTH_SEED=${seed})`;
  test(name, async () => {
    const stage = await play(run);
    await check(await endOf(stage), stage);
    expectNothingTwice(stage.runtime.timeline);
  });
  test(`${name}, whatever call the agent dies after${some}`, async () => {
    const whole = await play(run);
    const end = await endOf(whole);
    for (let call = first; call < whole.calls; call += every) {
      const stage = await play(run, call);
      const from = `died after call ${call}`;
      expect({ from, deaths: stage.deaths, ...(await endOf(stage)) }).toEqual({ from, deaths: 1, ...end });
      expectNothingTwice(stage.runtime.timeline);
    }
  }, 60_000);
}
