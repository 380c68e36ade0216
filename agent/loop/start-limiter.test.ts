import { expect, test } from "bun:test";
import type { PodUid } from "../../proto/ids.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createStartLimiter } from "./start-limiter.ts";

/**
 * Runs the steps (`take web 5`, `release web`, `wait 9s`) in order. Returns the result of each `take`, and each call.
 */
async function runSteps(places: number, steps: readonly string[]): Promise<readonly string[]> {
  const clock = new FakeClock();
  const report: string[] = [];
  const limiter = createStartLimiter(places, clock, (uid) => report.push(`call ${uid}`));
  for (const step of steps) {
    const [verb, uid = "", priority = "0"] = step.split(" ");
    if (verb === "wait") await clock.advance(Number.parseInt(uid, 10) * 1000);
    else if (verb === "take")
      report.push(`${uid} ${limiter.acquire(uid as PodUid, Number(priority)) ? "starts" : "waits"}`);
    else limiter.release(uid as PodUid);
  }
  return report;
}

const rows: readonly [sentence: string, places: number, steps: readonly string[], report: readonly string[]][] = [
  ["as many pods start as there are slots", 2, ["take a", "take b", "take c"], ["a starts", "b starts", "c waits"]],
  [
    "a pod that holds a slot keeps it",
    1,
    ["take a", "take a", "take b", "take a"],
    ["a starts", "a starts", "b waits", "a starts"],
  ],
  [
    "a released slot goes to the pod that waited longest, which is called",
    1,
    ["take a", "take b", "take c", "release a", "take b", "take c"],
    ["a starts", "b waits", "c waits", "call b", "b starts", "c waits"],
  ],
  [
    "a pod with a higher priority goes first, regardless of its arrival",
    1,
    ["take a", "take low 1", "take high 9", "take middle 5", "release a", "release high", "release middle"],
    ["a starts", "low waits", "high waits", "middle waits", "call high", "call middle", "call low"],
  ],
  [
    "among equal priorities the first to arrive goes first",
    1,
    ["take a", "take b 5", "take c 0", "take d 5", "release a", "release b", "release d"],
    ["a starts", "b waits", "c waits", "d waits", "call b", "call d", "call c"],
  ],
  [
    "a negative priority is lower than zero",
    1,
    ["take a", "take b -1", "take c", "release a"],
    ["a starts", "b waits", "c waits", "call c"],
  ],
  [
    "a pod that asks twice is queued once",
    1,
    ["take a", "take b", "take b", "release a", "release b", "take c"],
    ["a starts", "b waits", "b waits", "call b", "c starts"],
  ],
  [
    "a pod that leaves the queue is not called",
    1,
    ["take a", "take b", "take c", "release b", "release a"],
    ["a starts", "b waits", "c waits", "call c"],
  ],
  [
    "a release without a slot frees nothing",
    1,
    ["release a", "take b", "release a", "take c"],
    ["b starts", "c waits"],
  ],
  [
    "a pod that does not ask again for ten seconds loses its slot and must wait for the next one",
    1,
    ["take a", "take b", "wait 9s", "take c", "wait 1s", "take a"],
    ["a starts", "b waits", "c waits", "call b", "a waits"],
  ],
  [
    "a pod that asks again gets ten more seconds",
    1,
    ["take a", "take b", "wait 9s", "take a", "wait 9s", "take a", "wait 10s"],
    ["a starts", "b waits", "a starts", "a starts", "call b"],
  ],
  [
    "a pod that was called and does not ask loses its slot, too",
    1,
    ["take a", "take b", "take c", "release a", "wait 10s"],
    ["a starts", "b waits", "c waits", "call b", "call c"],
  ],
  [
    "a pod that releases its slot and gets another has the full ten seconds",
    1,
    ["take a", "wait 9s", "release a", "take a", "take b", "wait 9s", "take a"],
    ["a starts", "a starts", "b waits", "a starts"],
  ],
];
for (const [sentence, places, steps, report] of rows)
  test(sentence, async () => {
    expect(await runSteps(places, steps)).toEqual(report);
  });
