import { expect, test } from "bun:test";
import { createLruMap } from "./lru-map.ts";

test("the least recently used entry is evicted first", () => {
  const map = createLruMap<number>(3);
  for (const [at, key] of ["a", "b", "c"].entries()) map.set(key, at);
  map.get("a");
  map.set("b", 9);
  map.set("d", 3);
  expect([...map.entries()]).toEqual([
    ["a", 0],
    ["b", 9],
    ["d", 3],
  ]);
});
