import { expect, test } from "bun:test";
import { setTimeout as pause } from "node:timers/promises";
import { pollUntil, startStopwatch, timeoutSignal } from "./poll-until.ts";

/** Polls what never comes for 30 ms, while processes wait for a processor in this share of the time; returns the time it took. */
async function giveUp(stallShare: number): Promise<number> {
  const startedMs = performance.now();
  const waitedMs = () => performance.now() - startedMs;
  const never = pollUntil(
    "a word",
    30,
    () => false,
    1,
    () => stallShare * waitedMs(),
  );
  await expect(never).rejects.toThrow(/^gave up after \d+ ms waiting for: a word$/);
  return waitedMs();
}

test("the result is the first one that is neither false nor undefined, 0 and the empty string included", async () => {
  const results = [false, undefined, 0, 1] as const;
  let calls = 0;
  expect(await pollUntil("a number", 10_000, () => results[calls++])).toBe(0);
  expect(await pollUntil("a text", 10_000, async () => "")).toBe("");
  expect(calls).toBe(3);
});

test("gives up after its time, and later while processes wait for a processor", async () => {
  expect(await giveUp(0)).toBeGreaterThan(30);
  expect(await giveUp(0.75)).toBeGreaterThan(60);
  expect(await giveUp(1)).toBeGreaterThan(90);
});

test("a stopwatch counts a third of the time in which processes wait for a processor", async () => {
  let stalledMs = 1000;
  const [countedMs, startedMs] = [startStopwatch({ cpuStallMs: () => stalledMs }), performance.now()];
  await pollUntil("some time", 1000, () => performance.now() - startedMs > 30);
  expect(countedMs()).toBeGreaterThan(30);
  stalledMs += 3000;
  expect(countedMs()).toBeWithin(-1970, performance.now() - startedMs - 1999);
});

test("a stopwatch counts all of the time that a timer takes", async () => {
  let stalledMs = 1000;
  const [countedMs, startedMs] = [startStopwatch({ afterMs: 20, cpuStallMs: () => stalledMs }), performance.now()];
  stalledMs += 3000;
  expect(countedMs()).toBeGreaterThanOrEqual(0);
  // A later timer fires after that of the stopwatch, however busy the machine is.
  await pause(50);
  expect(countedMs()).toBeGreaterThan(49);
  stalledMs += 3000;
  expect(countedMs()).toBeLessThan(performance.now() - startedMs - 1999);
});

test("a time limit ends later while processes wait for a processor", async () => {
  const startedMs = performance.now();
  const waitedMs = () => performance.now() - startedMs;
  const abortedMs = async (stallShare: number) => {
    const signal = timeoutSignal(200, () => stallShare * waitedMs());
    await pollUntil("the signal", 10_000, () => signal.aborted);
    expect(signal.reason).toMatchObject({ name: "TimeoutError" });
    return waitedMs();
  };
  const [idle, busy] = await Promise.all([abortedMs(0), abortedMs(1)]);
  expect(idle).toBeGreaterThanOrEqual(199);
  expect(busy).toBeGreaterThanOrEqual(599);
});

test("what the condition throws ends the polling", async () => {
  const failing = pollUntil("a word", 10_000, () => Promise.reject(new Error("no such pod")));
  await expect(failing).rejects.toThrow("no such pod");
});
