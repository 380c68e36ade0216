import { expect, test } from "bun:test";
import type { PodUid } from "../../proto/ids.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createStartLimiter } from "./start-limiter.ts";

/**
 * Runs the steps (`acquire web 5`, `release web`, `wait 9s`) in order. Returns the result of each `acquire`, and
 * each wake.
 */
async function runSteps(slots: number, steps: readonly string[]): Promise<readonly string[]> {
  const clock = new FakeClock();
  const report: string[] = [];
  const limiter = createStartLimiter(slots, clock, (uid) => report.push(`wake ${uid}`));
  for (const step of steps) {
    const [verb, uid = "", priority = "0"] = step.split(" ");
    if (verb === "wait") await clock.advance(Number.parseInt(uid, 10) * 1000);
    else if (verb === "acquire")
      report.push(`${uid} ${limiter.acquire(uid as PodUid, Number(priority)) ? "starts" : "waits"}`);
    else limiter.release(uid as PodUid);
  }
  return report;
}

const rows: readonly [sentence: string, slots: number, steps: readonly string[], report: readonly string[]][] = [
  [
    "as many pods start as there are slots",
    2,
    ["acquire a", "acquire b", "acquire c"],
    ["a starts", "b starts", "c waits"],
  ],
  [
    "a pod that holds a slot keeps it",
    1,
    ["acquire a", "acquire a", "acquire b", "acquire a"],
    ["a starts", "a starts", "b waits", "a starts"],
  ],
  [
    "a released slot goes to the pod that waited longest, which is woken",
    1,
    ["acquire a", "acquire b", "acquire c", "release a", "acquire b", "acquire c"],
    ["a starts", "b waits", "c waits", "wake b", "b starts", "c waits"],
  ],
  [
    "a pod with a higher priority goes first, regardless of its arrival",
    1,
    ["acquire a", "acquire low 1", "acquire high 9", "acquire middle 5", "release a", "release high", "release middle"],
    ["a starts", "low waits", "high waits", "middle waits", "wake high", "wake middle", "wake low"],
  ],
  [
    "among equal priorities the first to arrive goes first",
    1,
    ["acquire a", "acquire b 5", "acquire c 0", "acquire d 5", "release a", "release b", "release d"],
    ["a starts", "b waits", "c waits", "d waits", "wake b", "wake d", "wake c"],
  ],
  [
    "a negative priority is lower than zero",
    1,
    ["acquire a", "acquire b -1", "acquire c", "release a"],
    ["a starts", "b waits", "c waits", "wake c"],
  ],
  [
    "a pod that asks twice is queued once",
    1,
    ["acquire a", "acquire b", "acquire b", "release a", "release b", "acquire c"],
    ["a starts", "b waits", "b waits", "wake b", "c starts"],
  ],
  [
    "a pod that leaves the queue is not woken",
    1,
    ["acquire a", "acquire b", "acquire c", "release b", "release a"],
    ["a starts", "b waits", "c waits", "wake c"],
  ],
  [
    "a release without a slot frees nothing",
    1,
    ["release a", "acquire b", "release a", "acquire c"],
    ["b starts", "c waits"],
  ],
  [
    "a pod that does not ask again for ten seconds loses its slot and must wait for the next one",
    1,
    ["acquire a", "acquire b", "wait 9s", "acquire c", "wait 1s", "acquire a"],
    ["a starts", "b waits", "c waits", "wake b", "a waits"],
  ],
  [
    "a pod that asks again gets ten more seconds",
    1,
    ["acquire a", "acquire b", "wait 9s", "acquire a", "wait 9s", "acquire a", "wait 10s"],
    ["a starts", "b waits", "a starts", "a starts", "wake b"],
  ],
  [
    "a pod that was woken and does not ask loses its slot, too",
    1,
    ["acquire a", "acquire b", "acquire c", "release a", "wait 10s"],
    ["a starts", "b waits", "c waits", "wake b", "wake c"],
  ],
  [
    "a pod that releases its slot and gets another has the full ten seconds",
    1,
    ["acquire a", "wait 9s", "release a", "acquire a", "acquire b", "wait 9s", "acquire a"],
    ["a starts", "a starts", "b waits", "a starts"],
  ],
];
for (const [sentence, slots, steps, report] of rows)
  test(sentence, async () => {
    expect(await runSteps(slots, steps)).toEqual(report);
  });
