import { expect, test } from "bun:test";
import { settlePromises } from "../../test/fakes/clock.ts";
import { mapConcurrently } from "./map-concurrently.ts";

/** Work on numbers that ends when the test says so. */
function createFixture(items: readonly number[], limit: number) {
  const running = new Map<number, PromiseWithResolvers<string>>();
  const results = mapConcurrently(items, limit, (item) => {
    const work = Promise.withResolvers<string>();
    running.set(item, work);
    return work.promise.finally(() => running.delete(item));
  });
  return { running, results };
}

test("at most `limit` items are worked on at once, and the results have the order of the items", async () => {
  const { running, results } = createFixture([1, 2, 3, 4], 2);
  expect([...running.keys()]).toEqual([1, 2]);
  running.get(2)?.resolve("b");
  await settlePromises();
  expect([...running.keys()]).toEqual([1, 3]);
  running.get(3)?.resolve("c");
  await settlePromises();
  running.get(4)?.resolve("d");
  running.get(1)?.resolve("a");
  expect(await results).toEqual(["a", "b", "c", "d"]);
});

test("after a failure no further item is started", async () => {
  const { running, results } = createFixture([1, 2, 3, 4], 2);
  running.get(1)?.reject(new Error("no"));
  expect(await results.catch(String)).toBe("Error: no");
  running.get(2)?.resolve("b");
  await settlePromises();
  expect([...running.keys()]).toEqual([]);
});

test("no items need no work", async () => {
  expect(await createFixture([], 2).results).toEqual([]);
});
