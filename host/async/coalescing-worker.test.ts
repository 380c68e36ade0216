import { expect, test } from "bun:test";
import { settlePromises } from "../../test/fakes/clock.ts";
import { createCoalescingWorker, createKeyedCoalescingWorker } from "./coalescing-worker.ts";

test("wakes that come while the work runs lead to one more run", async () => {
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let runs = 0;
  const worker = createCoalescingWorker(async () => {
    await gates[runs++]?.promise;
  });
  worker.wake();
  await settlePromises();
  worker.wake();
  worker.wake();
  expect(runs).toBe(1);
  for (const gate of gates) gate.resolve();
  await worker.settled();
  expect(runs).toBe(2);
});

test("wake returns before the work starts, and a wake during the work leads to one more run", async () => {
  const steps: string[] = [];
  const worker = createCoalescingWorker(async () => {
    steps.push("work");
    if (steps.length === 2) worker.wake();
  });
  worker.wake();
  steps.push("after wake");
  await worker.settled();
  expect(steps).toEqual(["after wake", "work", "work"]);
});

test("a worker that has settled runs again at the next wake", async () => {
  let runs = 0;
  const worker = createCoalescingWorker(async () => void runs++);
  for (const expected of [1, 2]) {
    worker.wake();
    await worker.settled();
    expect(runs).toBe(expected);
  }
  await worker.settled();
});

test("the work of one key runs once at a time, and beside that of other keys", async () => {
  const gates = new Map(["a", "b"].map((key) => [key, Promise.withResolvers<void>()]));
  const steps: string[] = [];
  const worker = createKeyedCoalescingWorker(async (key: string) => {
    steps.push(`${key} begins`);
    await gates.get(key)?.promise;
    steps.push(`${key} ends`);
  });
  for (const key of ["a", "b", "a"]) worker.wake(key);
  gates.get("b")?.resolve();
  await worker.settled("b");
  expect(steps).toEqual(["a begins", "b begins", "b ends"]);
  worker.wake("a");
  gates.get("a")?.resolve();
  await worker.settled();
  expect(steps.slice(3)).toEqual(["a ends", "a begins", "a ends"]);
});
