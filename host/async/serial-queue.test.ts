import { expect, test } from "bun:test";
import { settlePromises } from "../../test/fakes/clock.ts";
import { createKeyedSerialQueue, createSerialQueue } from "./serial-queue.ts";

test("work runs one after the other in the order of the calls, also after a failure", async () => {
  const run = createSerialQueue();
  const steps: string[] = [];
  const first = Promise.withResolvers<void>();
  const results = Promise.allSettled([
    run(async () => {
      steps.push("first begins");
      await first.promise;
      steps.push("first ends");
      throw new Error("first failed");
    }),
    run(async () => void steps.push("second")),
  ]);
  await settlePromises();
  expect(steps).toEqual(["first begins"]);
  first.resolve();
  expect((await results).map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
  expect(steps).toEqual(["first begins", "first ends", "second"]);
});

test("work of different keys runs side by side, work of one key does not", async () => {
  const run = createKeyedSerialQueue<string>();
  const steps: string[] = [];
  const first = Promise.withResolvers<void>();
  const all = [
    run("a", () => first.promise.then(() => steps.push("a1"))),
    run("a", async () => steps.push("a2")),
    run("b", async () => steps.push("b1")),
  ];
  await all[2];
  first.resolve();
  await Promise.all(all);
  expect(steps).toEqual(["b1", "a1", "a2"]);
});
