import { expect, test } from "bun:test";
import { expectSameMemory } from "./memory-at-rest.ts";

/** Compares 400 pods with 200, twenty at once; the agent's memory is read after 200, 220 and 400, and after up to 40 more. */
async function compare(sizes: readonly number[]): Promise<number> {
  const left = [...sizes];
  const read = async () => left.shift() ?? Number.NaN;
  await expectSameMemory({ pods: 400, base: 200, atOnce: 20, read, churn: async () => {} });
  return sizes.length - left.length;
}

test.each<[text: string, sizes: readonly number[], reads: number]>([
  ["the same memory", [30, 30, 30], 3],
  ["a tenth more", [30, 30, 33], 3],
  ["a collection that comes one round late", [30, 30, 40, 32], 4],
  ["a collection that comes two rounds late", [30, 30, 40, 38, 31], 5],
])("%s passes", async (_, sizes, reads) => {
  expect(await compare(sizes)).toBe(reads);
});

test.each<[text: string, sizes: readonly number[]]>([
  ["more than a tenth that stays", [30, 30, 34, 34, 34]],
  ["a leak that grows", [30, 31, 40, 41, 42]],
  ["a first size that is large by chance", [40, 30, 34, 34, 34]],
  ["a second size that is large by chance", [30, 40, 34, 34, 34]],
])("%s fails", async (_, sizes) => {
  await expect(compare(sizes)).rejects.toThrow("toBeLessThanOrEqual");
});
