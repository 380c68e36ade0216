import { expect, test } from "bun:test";
import type { Happening } from "../fakes/runtime.ts";
import { createStage, type Stage, type StageOptions } from "./harness.ts";

/** What happens to a node: told once as a story, and played once more for every call after which the agent may die. */
export interface Play {
  readonly options?: StageOptions;
  /** The node before the agent starts. */
  readonly before?: (stage: Stage) => Promise<void> | void;
  /** From the start of the agent to a node at rest. */
  readonly run: (stage: Stage) => Promise<void>;
}

/** Registers the two tests of a play. `expectStory` compares the story with the text beside it. */
export function scenario(name: string, play: Play, expectStory: (story: string) => void): void {
  const every = Number(process.env["DIE_EVERY"] ?? 1);
  test(name, async () => {
    const stage = await perform(play);
    expectStory(stage.told());
    expectNothingTwice(stage.runtime.timeline);
  });

  // The quick check leaves out some of the deaths; whoever runs this file alone sees all of them.
  test(`${name}, whatever call the agent dies after`, async () => {
    const whole = await perform(play);
    const scene = await sceneOf(whole);
    for (let dieAfterCall = 0; dieAfterCall < whole.calls; dieAfterCall += every) {
      const stage = await perform(play, { dieAfterCall });
      const from = `died after call ${dieAfterCall}`;
      expect({ from, deaths: stage.deaths }).toEqual({ from, deaths: 1 });
      expect({ from, scene: await sceneOf(stage) }).toEqual({ from, scene });
      expectNothingTwice(stage.runtime.timeline);
    }
  }, 60_000);
}

/** The node at rest, and what the API server shows of it. */
async function sceneOf(stage: Stage): Promise<readonly string[]> {
  return [...stage.scene(), ...(await stage.shown()).map((line) => `shown ${line}`)];
}

/** The lines of a story that match, where the others tell nothing that other plays do not. */
export function linesOf(story: string, pattern: RegExp): string {
  const lines = story.split("\n");
  return lines.filter((line) => pattern.test(line)).join("\n");
}

async function perform(play: Play, options: StageOptions = {}): Promise<Stage> {
  const stage = await createStage({ ...play.options, ...options });
  await play.before?.(stage);
  await stage.start();
  await play.run(stage);
  return stage;
}

/** Of one pod there is never more than one live sandbox, of one container never more than one live instance. */
export function expectNothingTwice(timeline: readonly Happening[]): void {
  const live = new Map<string, Set<string>>();
  for (const { what, change, id, role } of timeline) {
    const key = `${what} ${role}`;
    const ids = live.get(key) ?? new Set();
    live.set(key, ids);
    if (change === "created") ids.add(id);
    if (change === "stopped" || change === "deleted") ids.delete(id);
    expect({ key, live: ids.size > 1 ? [...ids] : [] }).toEqual({ key, live: [] });
  }
}
