import { describe, expect, test } from "bun:test";
import {
  judge,
  judgeTotal,
  median,
  medianInterval,
  medianOf,
  mediansOfTurns,
  pairsOf,
  percentile,
  percentileOf,
  sumOf,
} from "./statistics.ts";

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

test("the interval of a median is the same in each run, and contains the median", () => {
  const samples = Array.from({ length: 60 }, (_, at) => (at * 37) % 60);
  const { median: middle, low, high, count } = medianInterval(samples);
  expect([middle, low, high, count]).toEqual([29.5, 23.5, 35.5, 60]);
  expect(medianInterval(samples)).toEqual({ median: middle, low, high, count });
});

test("more samples of the same kind narrow the interval", () => {
  const width = (count: number) => {
    const { low, high } = medianInterval(Array.from({ length: count }, (_, at) => (at * 37) % 101));
    return high - low;
  };
  expect(width(400)).toBeLessThan(width(40) / 2);
});

test("five pairs have the interval from the lowest to the highest", () => {
  expect(medianInterval([3, 1, 5, 2, 4])).toEqual({ median: 3, low: 1, high: 5, count: 5 });
});

test.each([
  { interval: [0.8, 0.9], count: 5, verdict: "reached" },
  { interval: [0.8, 0.91], count: 5, verdict: "not decided" },
  { interval: [0.9, 0.95], count: 60, verdict: "not decided" },
  { interval: [0.91, 0.95], count: 60, verdict: "missed" },
  { interval: [0.1, 0.1], count: 4, verdict: "not decided" },
] as const)("the goal 0.9 is $verdict with the interval $interval of $count pairs", ({ interval, count, verdict }) => {
  const [low, high] = interval;
  expect(judge({ median: (low + high) / 2, low, high, count }, 0.9)).toBe(verdict);
});

test.each([
  { value: 0, count: 5, fewest: undefined, verdict: "reached" },
  { value: 0, count: 4, fewest: undefined, verdict: "not decided" },
  { value: 0, count: 59, fewest: 60, verdict: "not decided" },
  { value: 0, count: 60, fewest: 60, verdict: "reached" },
  { value: 1, count: 1, fewest: undefined, verdict: "missed" },
] as const)("the total $value of $count samples has $verdict the goal 0", ({ value, count, fewest, verdict }) => {
  const samples = Array.from({ length: count }, () => value);
  expect(judgeTotal({ ...sumOf(samples), value }, 0, fewest)).toBe(verdict);
});

test("the samples of each turn have one median, and equally many belong to each turn", () => {
  expect(mediansOfTurns([1, 2, 9, 4, 4, 5], 2)).toEqual([2, 4]);
  expect(mediansOfTurns([3, 1], 2)).toEqual([3, 1]);
  expect(() => mediansOfTurns([1, 2, 3], 2)).toThrow("3 samples are not those of 2 turns");
});

test("each sample needs its partner", () => {
  expect(pairsOf([2, 9], [1, 3], (own, other) => own / other)).toEqual([2, 3]);
  expect(() => pairsOf([1, 2], [1], Math.max)).toThrow("2 samples have 1 partners");
});
