import { expect, test } from "bun:test";
import { objectTtlAnnotation } from "../../../proto/kubernetes/well-known-names.ts";
import { cacheTtlMs, isRecent, resyncDelayMs } from "./object-age.ts";

const ttls: readonly [annotation: string | undefined, ttlMs: number][] = [
  [undefined, 60_000],
  ["0", 0],
  ["15", 15_000],
  ["+300", 300_000],
  ["-1", -1_000],
  ["", 60_000],
  ["1.5", 60_000],
  ["1m", 60_000],
  [" 15", 60_000],
];
for (const [annotation, ttlMs] of ttls)
  test(`the node's annotation ${JSON.stringify(annotation)} lets it cache objects for ${ttlMs} ms`, () => {
    const annotations = annotation === undefined ? {} : { [objectTtlAnnotation]: annotation };
    expect(cacheTtlMs(annotations)).toBe(ttlMs);
  });

test("without a Node object the time is a minute", () => {
  expect(cacheTtlMs(undefined)).toBe(60_000);
});

const ages: readonly [sentence: string, isPresent: boolean, ttlMs: number, ageMs: number, expected: boolean][] = [
  ["an object serves until its time is over", true, 60_000, 59_999, true],
  ["and no longer", true, 60_000, 60_000, false],
  ["without a time it serves the steps of one start", true, 0, 1_999, true],
  ["and no later start", true, 0, 2_000, false],
  ["a negative time counts as none", true, -5_000, 1_999, true],
  ["that an object is missing is asked for at each start", false, 60_000, 2_000, false],
  ["and not at each step of it", false, 60_000, 1_999, true],
];
for (const [sentence, isPresent, ttlMs, ageMs, expected] of ages)
  test(sentence, () => {
    expect(isRecent({ readAtMs: 1_000, isPresent }, ttlMs, 1_000 + ageMs)).toBe(expected);
  });

test("the objects of a running pod are read again after syncFrequency, and up to half of it later", () => {
  expect([resyncDelayMs(60_000, 0), resyncDelayMs(60_000, 0.5)]).toEqual([60_000, 75_000]);
  expect(resyncDelayMs(60_000, 0.999_999)).toBeLessThan(90_000);
});
