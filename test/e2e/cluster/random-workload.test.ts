import { expect, test } from "bun:test";
import { seededRandom } from "../../random.ts";
import { createRandomPods } from "./random-workload.ts";

test("random pods and their later changes are reproducible by their seed, independent of the count", () => {
  const podsOf = (count: number, seed: number) =>
    createRandomPods({ count, random: seededRandom(seed), folder: "/notes", remoteImage: "host/busybox:1" });
  expect(podsOf(40, 7)).toEqual(podsOf(40, 7));
  expect(podsOf(40, 7).slice(0, 20)).toEqual([...podsOf(20, 7)]);
  expect(podsOf(40, 8)).not.toEqual(podsOf(40, 7));
});
