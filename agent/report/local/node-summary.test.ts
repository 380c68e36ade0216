import { expect, test } from "bun:test";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { createNodeStory } from "./node-summary.ts";

function createScene() {
  const clock = new FakeClock();
  const story = createNodeStory(clock);
  let changes = 0;
  const unsubscribe = story.subscribe(() => changes++);
  const changed = () => {
    const count = changes;
    changes = 0;
    return count;
  };
  return { clock, story, changed, unsubscribe };
}

const start = "2026-01-01T00:00:00Z";

test("before the runtime has answered it is being connected to, and then it is ready", () => {
  const { story, changed } = createScene();
  expect(story.report()).toEqual({ refused: [], runtime: { state: "connecting", since: start } });
  story.runtimeReady();
  expect([story.report().runtime, changed()]).toEqual([{ state: "ready" }, 1]);
});

test("a runtime is away since it was lost, with the latest reason, until it is listed again", async () => {
  const { clock, story, changed } = createScene();
  story.runtimeReady();
  story.runtimeAway("connection refused");
  await clock.advance(60_000);
  story.runtimeAway("connect ENOENT");
  expect(story.report().runtime).toEqual({ state: "away", since: start, message: "connect ENOENT" });
  story.runtimeReady();
  story.runtimeAway("connection refused");
  expect(story.report().runtime).toMatchObject({ state: "away", since: "2026-01-01T00:01:00Z" });
  expect(changed()).toBe(5);
});

test("what is refused is told when it changes, not as often as it is said", () => {
  const { story, changed, unsubscribe } = createScene();
  const refused = [{ file: "/m/a.yaml", problem: "it is empty" }];
  for (let time = 0; time < 3; time++) story.refused([...refused]);
  expect([story.report().refused, changed()]).toEqual([refused, 1]);
  unsubscribe();
  story.refused([]);
  expect([story.report().refused, changed()]).toEqual([[], 0]);
});
