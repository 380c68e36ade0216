import { expect, test } from "bun:test";
import { createBoundedMap } from "./lru-map.ts";

test("what was neither asked for nor set in the longest time goes first", () => {
  const map = createBoundedMap<number>(3);
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
