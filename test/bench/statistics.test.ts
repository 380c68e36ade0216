import { describe, expect, test } from "bun:test";
import { median, medianOf, percentile, percentileOf } from "./statistics.ts";

describe("percentile", () => {
  test.each([
    { samples: [7], share: 0.5, gives: 7 },
    { samples: [3, 1, 2, 4], share: 0.5, gives: 2 },
    { samples: [3, 1, 2, 4], share: 0.99, gives: 4 },
    { samples: [3, 1, 2, 4], share: 0, gives: 1 },
    { samples: Array.from({ length: 200 }, (_, index) => 200 - index), share: 0.99, gives: 198 },
  ])("the percentile of $share of the samples is one of them: $gives", ({ samples, share, gives }) => {
    expect(percentile(samples, share)).toBe(gives);
  });
});

test("the median of an even number of rounds is the mean of the two in the middle", () => {
  expect([median([9, 1, 5]), median([9, 1, 5, 6])]).toEqual([5, 5.5]);
});

test("a measured value keeps its lowest and highest sample and the order of all", () => {
  expect(medianOf([3, 1, 2])).toEqual({ value: 2, low: 1, high: 3, samples: [3, 1, 2] });
  expect(percentileOf([3, 1, 2], 0.99)).toEqual({ value: 3, low: 1, high: 3, samples: [3, 1, 2] });
});
