import { expect, test } from "bun:test";
import { runSeed } from "./commit-seed.ts";

test.each<[env: Readonly<Record<string, string>>, commit: string | undefined, seed: string | undefined]>([
  [{}, "00000fffffffffffffffffffffffffffffffffff", "4095"],
  [{}, "ffffffff00000000000000000000000000000000", "294967295"],
  [{ BERTH_SEED: "7" }, "00000fffffffffffffffffffffffffffffffffff", "7"],
  [{}, undefined, undefined],
])("with %j in a clone of %s the seed of a run is %s", async (env, commit, seed) => {
  expect(await runSeed(env, async () => commit)).toBe(seed);
});
