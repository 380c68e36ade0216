import { expect, test } from "bun:test";
import { oldestUnreportedAges, sampleTimes } from "./status-latency.ts";

const changes = [
  { pod: "a", at: 0 },
  { pod: "b", at: 10 },
  { pod: "a", at: 20 },
  { pod: "a", at: 30 },
];

test("a change waits until the API shows it or a later one of its pod", () => {
  const sightings = [
    { pod: "a", number: 1, at: 5 },
    { pod: "b", number: 1, at: 15 },
    { pod: "a", number: 3, at: 42 },
  ];
  expect(oldestUnreportedAges(changes, sightings, [4, 5, 12, 15, 25, 40, 50])).toEqual([4, 0, 2, 0, 5, 20, 0]);
});

test("a change that the API never shows keeps growing older", () => {
  expect(oldestUnreportedAges(changes, [], [10, 20, 30])).toEqual([10, 20, 30]);
});

test("samples in equal steps from the first change to the last", () => {
  expect(sampleTimes(changes, 10)).toEqual([10, 20, 30]);
});
