import { expect, test } from "bun:test";
import { createStage, type Stage } from "./stage.ts";

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
 * Tells how it ends, and that it ends so whatever call the agent dies after. Of plays that are much alike each tries only some of the
 * calls: every `apart`-th from `first` on.
 */
export function apiScenario(
  name: string,
  run: (stage: Stage) => Promise<void>,
  check: (end: Ending, stage: Stage) => Promise<void>,
  { first = 0, apart = 1 } = {},
): void {
  const every = apart * Number(process.env["DIE_EVERY"] ?? 1);
  test(name, async () => {
    const stage = await play(run);
    await check(await endOf(stage), stage);
  });
  test(`${name}, whatever call the agent dies after`, async () => {
    const whole = await play(run);
    const end = await endOf(whole);
    for (let call = first; call < whole.calls; call += every) {
      const stage = await play(run, call);
      const from = `died after call ${call}`;
      expect({ from, deaths: stage.deaths, ...(await endOf(stage)) }).toEqual({ from, deaths: 1, ...end });
    }
  }, 60_000);
}
