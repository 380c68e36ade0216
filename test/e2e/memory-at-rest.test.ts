import { expect, test } from "bun:test";
import { expectSameMemory } from "./memory-at-rest.ts";

/** Compares 400 pods with 200, twenty at once. Returns after how many pods the memory was read, and the failure if it is too large. */
async function compare(sizes: readonly number[]) {
  const left = [...sizes];
  const reads: number[] = [];
  let pods = 0;
  const read = async () => {
    reads.push(pods);
    const size = left.shift();
    if (size === undefined) throw new Error(`the memory is read after ${reads.join(", ")} pods`);
    return size;
  };
  const churn = async (last: number) => {
    pods = last;
  };
  const failure = await expectSameMemory({ pods: 400, base: 200, atOnce: 20, read, churn }).catch((error) => error);
  return { reads, failure: failure instanceof Error ? failure.message : undefined };
}

test.each<[text: string, sizes: readonly number[], reads: readonly number[]]>([
  ["the same memory", [30, 30, 30], [200, 220, 400]],
  ["a tenth more", [30, 30, 33], [200, 220, 400]],
  ["a collection that comes one round late", [30, 30, 40, 32], [200, 220, 400, 420]],
  ["a collection that comes two rounds late", [30, 30, 40, 38, 31], [200, 220, 400, 420, 440]],
])("%s passes", async (_, sizes, reads) => {
  expect(await compare(sizes)).toEqual({ reads: [...reads], failure: undefined });
});

test.each<[text: string, sizes: readonly number[]]>([
  ["more than a tenth that stays", [30, 30, 34, 34, 34]],
  ["a leak that grows", [30, 31, 40, 41, 42]],
  ["a base that is large by chance", [40, 30, 34, 34, 34]],
  ["a size soon after the base that is large by chance", [30, 40, 34, 34, 34]],
])("%s fails", async (_, sizes) => {
  const { reads, failure } = await compare(sizes);
  expect(reads).toEqual([200, 220, 400, 420, 440]);
  expect(failure).toContain("toBeLessThanOrEqual");
});
