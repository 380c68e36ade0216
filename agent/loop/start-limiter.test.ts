import { expect, test } from "bun:test";
import type { PodUid } from "../../proto/ids.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createStarts } from "./start-limiter.ts";

/** `take web 5`, `release web` and `wait 9s`, one after the other; the story is what each take said and who was called. */
async function play(places: number, steps: readonly string[]): Promise<readonly string[]> {
  const clock = new FakeClock();
  const story: string[] = [];
  const starts = createStarts(places, clock, (uid) => story.push(`call ${uid}`));
  for (const step of steps) {
    const [verb, uid = "", priority = "0"] = step.split(" ");
    if (verb === "wait") await clock.advance(Number.parseInt(uid, 10) * 1000);
    else if (verb === "take") story.push(`${uid} ${starts.take(uid as PodUid, Number(priority)) ? "starts" : "waits"}`);
    else starts.release(uid as PodUid);
  }
  return story;
}

const rows: readonly [sentence: string, places: number, steps: readonly string[], story: readonly string[]][] = [
  ["as many start as there are places", 2, ["take a", "take b", "take c"], ["a starts", "b starts", "c waits"]],
  [
    "who has a place keeps it",
    1,
    ["take a", "take a", "take b", "take a"],
    ["a starts", "a starts", "b waits", "a starts"],
  ],
  [
    "a place that is given back goes to who came first, and it is called",
    1,
    ["take a", "take b", "take c", "release a", "take b", "take c"],
    ["a starts", "b waits", "c waits", "call b", "b starts", "c waits"],
  ],
  [
    "a higher priority goes before, whenever it came",
    1,
    ["take a", "take low 1", "take high 9", "take middle 5", "release a", "release high", "release middle"],
    ["a starts", "low waits", "high waits", "middle waits", "call high", "call middle", "call low"],
  ],
  [
    "among equals who came first goes first, whatever stands behind",
    1,
    ["take a", "take b 5", "take c 0", "take d 5", "release a", "release b", "release d"],
    ["a starts", "b waits", "c waits", "d waits", "call b", "call d", "call c"],
  ],
  [
    "below zero is below zero",
    1,
    ["take a", "take b -1", "take c", "release a"],
    ["a starts", "b waits", "c waits", "call c"],
  ],
  [
    "who asks twice waits once",
    1,
    ["take a", "take b", "take b", "release a", "release b", "take c"],
    ["a starts", "b waits", "b waits", "call b", "c starts"],
  ],
  [
    "who leaves the queue is not called",
    1,
    ["take a", "take b", "take c", "release b", "release a"],
    ["a starts", "b waits", "c waits", "call c"],
  ],
  ["who has nothing gives nothing back", 1, ["release a", "take b", "release a", "take c"], ["b starts", "c waits"]],
  [
    "who does not come again for ten seconds loses its place, and has to wait for the next one",
    1,
    ["take a", "take b", "wait 9s", "take c", "wait 1s", "take a"],
    ["a starts", "b waits", "c waits", "call b", "a waits"],
  ],
  [
    "who comes again has ten seconds more",
    1,
    ["take a", "take b", "wait 9s", "take a", "wait 9s", "take a", "wait 10s"],
    ["a starts", "b waits", "a starts", "a starts", "call b"],
  ],
  [
    "who was called and does not come loses its place too",
    1,
    ["take a", "take b", "take c", "release a", "wait 10s"],
    ["a starts", "b waits", "c waits", "call b", "call c"],
  ],
  [
    "who gave its place back and took another has its whole time",
    1,
    ["take a", "wait 9s", "release a", "take a", "take b", "wait 9s", "take a"],
    ["a starts", "a starts", "b waits", "a starts"],
  ],
];
for (const [sentence, places, steps, story] of rows)
  test(sentence, async () => {
    expect(await play(places, steps)).toEqual(story);
  });
