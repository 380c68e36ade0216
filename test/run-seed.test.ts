import { expect, test } from "bun:test";
import { selectSeed } from "./run-seed.ts";

test.each<[env: Readonly<Record<string, string>>, commit: string, seed: string]>([
  [{}, "00000fffffffffffffffffffffffffffffffffff", "4095"],
  [{}, "ffffffff00000000000000000000000000000000", "294967295"],
  [{ BERTH_SEED: "7" }, "00000fffffffffffffffffffffffffffffffffff", "7"],
])("with %j and the commit %s the seed of a run is %s", async (env, commit, seed) => {
  expect(await selectSeed(env, async () => commit)).toBe(seed);
});

test("outside a clone each run has another seed", async () => {
  const [first, second] = [await selectSeed({}, async () => undefined), await selectSeed({}, async () => undefined)];
  expect(first).toMatch(/^\d{1,9}$/);
  expect(second).not.toBe(first);
});
