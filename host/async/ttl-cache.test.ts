import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createTtlCache } from "./ttl-cache.ts";

test("a value is there until its time is over", async () => {
  const clock = new FakeClock();
  const cache = createTtlCache<number>({ maxEntries: 10, clock });
  cache.set("a", 1, 1_000);
  cache.set("b", 2, Number.POSITIVE_INFINITY);
  cache.set("c", 3, 0);
  await clock.advance(999);
  expect([cache.get("a"), cache.get("b"), cache.get("c")]).toEqual([1, 2, undefined]);
  await clock.advance(1);
  expect([cache.get("a"), cache.get("b")]).toEqual([undefined, 2]);
});

test("the least recently used entry goes when there is one too many", () => {
  const cache = createTtlCache<number>({ maxEntries: 2, clock: new FakeClock() });
  cache.set("a", 1, 1_000);
  cache.set("b", 2, 1_000);
  cache.get("a");
  cache.set("c", 3, 1_000);
  expect(["a", "b", "c"].map((key) => cache.get(key))).toEqual([1, undefined, 3]);
});

test("a clock that is set back keeps no value for longer", () => {
  let now = 10_000;
  const cache = createTtlCache<number>({ maxEntries: 2, clock: { now: () => now } });
  cache.set("a", 1, 1_000);
  cache.set("b", 2, Number.POSITIVE_INFINITY);
  now = 5_000;
  expect([cache.get("a"), cache.get("b")]).toEqual([undefined, 2]);
});

test("delete and clear remove entries", () => {
  const cache = createTtlCache<number>({ maxEntries: 5, clock: new FakeClock() });
  for (const key of ["a", "b", "c"]) cache.set(key, 1, 1_000);
  cache.delete("a");
  expect([cache.get("a"), cache.get("b")]).toEqual([undefined, 1]);
  cache.clear();
  expect(cache.get("b")).toBeUndefined();
});
