import { expect, test } from "bun:test";
import type { Figure } from "./figures.ts";
import { medianOf, percentileOf, sumOf } from "./statistics.ts";
import { markdownTable, textTable } from "./table.ts";

const peer = medianOf([200, 190, 210, 195, 205]);
const floor = medianOf([100, 100, 100, 100, 100]);
const ratio = (berth: readonly number[]): Figure => ({
  ...{ what: "a pod", unit: "ms", floor, peer, berth: medianOf(berth) },
  goal: { kind: "ratio", to: "kubelet", atMost: 0.8 },
});
const row = (figure: Figure, part: "floor" | "kubelet" = "kubelet") => markdownTable([figure], part).split("\n")[2];

test("a row of the kubelet's table shows the median of the pairs' ratios with its interval, and the floor", () => {
  expect(markdownTable([ratio([150, 150, 150, 150, 150])], "kubelet").split("\n")).toEqual([
    "| what | floor | kubelet | berth | against the kubelet | n | goal |  |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
    "| a pod | 100 ms | 200 ms | 150 ms | 0.75 (0.71–0.79) × | 5 | ≤ 0.80 × the kubelet's | reached |",
  ]);
});

test("an interval that contains the goal decides nothing, and one above it misses the goal", () => {
  expect(row(ratio([150, 150, 170, 150, 170]))).toEndWith(
    "| 0.79 (0.75–0.83) × | 5 | ≤ 0.80 × the kubelet's | not decided |",
  );
  expect(row(ratio([180, 180, 180, 180, 180]))).toEndWith(
    "| 0.90 (0.86–0.95) × | 5 | ≤ 0.80 × the kubelet's | missed |",
  );
});

test("four pairs have no ratio and decide nothing", () => {
  const few = { ...ratio([100, 100, 100, 100]), floor: undefined, peer: medianOf([200, 200, 200, 200]) };
  expect(row({ ...few, floor })).toEndWith(
    "| 200 ms | 100 ms |  | 4 (floor: 5) | ≤ 0.80 × the kubelet's | not decided |",
  );
});

test("a goal over the floor, a limit and a goal of the floor's table name the interval beside the verdict", () => {
  const one: Figure = { what: "a pod", unit: "ms", floor, berth: medianOf([108, 109, 107, 120, 101]) };
  expect(row({ ...one, goal: { kind: "overFloor", atMost: 10 } }, "floor")).toBe(
    "| a pod | 100 ms | 108 ms | 1.08 (1.01–1.20) × | 5 | ≤ floor + 10 ms | not decided: 8 (1–20) ms |",
  );
  expect(row({ ...one, goal: { kind: "limit", atMost: 120 } }, "floor")).toEndWith(
    "| ≤ 120 ms | reached: 108 (101–120) ms |",
  );
  expect(row({ ...one, goal: { kind: "ratio", to: "floor", atMost: 1 } }, "floor")).toEndWith(
    "| ≤ 1.00 × the floor | missed: 1.08 (1.01–1.20) × |",
  );
});

test("a counted number is judged as it is, and has neither pairs nor a ratio to 0", () => {
  const count: Figure = { what: "requests", unit: "", peer: medianOf([0]), berth: medianOf([1]) };
  expect(row({ ...count, goal: { kind: "total", atMost: 0 } })).toBe("| requests |  | 0 | 1 |  | 1 | ≤ 0 | missed |");
});

test("nothing counted reaches a goal in five periods, or of sixty pods, and not in fewer", () => {
  const none = (count: number) => sumOf(Array.from({ length: count }, () => 0));
  const count = (periods: number): Figure => ({
    ...{ what: "requests", unit: "", isCount: true, peer: sumOf([2, 2, 2, 2, 2]), berth: none(periods) },
    goal: { kind: "total", atMost: 0 },
  });
  expect(row(count(5))).toBe("| requests |  | 10 | 0 | 0.00 × | 5 | ≤ 0 | reached |");
  expect(row(count(4))).toBe("| requests |  | 10 | 0 |  | 4 (kubelet: 5) | ≤ 0 | not decided |");
  expect(row({ ...count(59), isSingle: true })).toEndWith("| 59 (kubelet: 5) | ≤ 0 | not decided |");
  expect(row({ ...count(60), isSingle: true })).toEndWith("| 60 (kubelet: 5) | ≤ 0 | reached |");
});

test("one sample of each side has no ratio, and neither have four that were counted", () => {
  const of = (count: number): Figure => ({
    ...{ what: "idle", unit: "%", peer: medianOf(Array.from({ length: count }, () => 4)) },
    berth: medianOf(Array.from({ length: count }, () => 1)),
  });
  expect(row(of(1))).toBe("| idle |  | 4.00 % | 1.00 % |  | 1 |  |  |");
  for (const count of [1, 4])
    expect(row({ ...of(count), isCount: true })).toBe(`| idle |  | 4.00 % | 1.00 % |  | ${count} |  |  |`);
  expect(row({ ...of(5), isCount: true })).toBe("| idle |  | 4.00 % | 1.00 % | 0.25 × | 5 |  |  |");
});

test("a pair without a positive number to compare with has no ratio, and does not help to reach a goal", () => {
  const goal = { kind: "ratio", to: "kubelet", atMost: 0.8 } as const;
  const cost: Figure = { what: "cost", unit: "%", peer: medianOf([1, 1, -1, 0, 1]), berth: medianOf([0, 0, 0, 0, 0]) };
  expect(row({ ...cost, goal })).toBe("| cost |  | 1.00 % | 0.00 % |  | 5 | ≤ 0.80 × the kubelet's | not decided |");
});

test("of single pods sixty reach a goal, and fewer do not; five may miss it", () => {
  const of = (count: number): Figure => ({
    ...{ what: "a pod", unit: "ms", berth: medianOf(Array.from({ length: count }, () => 10)) },
    ...{ isSingle: true, goal: { kind: "limit", atMost: 20 } },
  });
  expect(row(of(59), "floor")).toEndWith("| 59 | ≤ 20 ms | not decided: 10 (10–10) ms |");
  expect(row(of(60), "floor")).toEndWith("| 60 | ≤ 20 ms | reached: 10 (10–10) ms |");
  expect(row({ ...of(5), goal: { kind: "limit", atMost: 9 } }, "floor")).toEndWith(
    "| ≤ 9 ms | missed: 10 (10–10) ms |",
  );
});

test("a figure is judged as it was measured, and shown with the digits that show why", () => {
  const one: Figure = { what: "a pod", unit: "ms", berth: medianOf([9, 9.5, 10, 10.4, 10.4]) };
  expect(row({ ...one, goal: { kind: "limit", atMost: 10 } })).toEndWith("| not decided: 10.0 (9.0–10.4) ms |");
  expect(row(ratio([152, 152, 159.2, 152, 152]))).toEndWith(
    "| 0.76 (0.74–0.80) × | 5 | ≤ 0.80 × the kubelet's | reached |",
  );
  expect(row(ratio([152, 152, 168.5, 152, 152]))).toEndWith(
    "| 0.779 (0.741–0.802) × | 5 | ≤ 0.80 × the kubelet's | not decided |",
  );
  const bytes: Figure = { what: "to disk", unit: "B", berth: medianOf([0.4]), goal: { kind: "total", atMost: 0 } };
  expect(row(bytes)).toEndWith("| 0 B |  | 1 | ≤ 0 B | missed: 0.4 B |");
});

test("a cost below zero could not be measured, so only the upper end of its ratio is shown", () => {
  const cost: Figure = {
    what: "cost",
    unit: "%",
    peer: medianOf([1, 1, 1, 1, 1]),
    berth: medianOf([-0.1, -0.1, 0.2, -0.2, -0.1]),
  };
  expect(row({ ...cost, goal: { kind: "ratio", to: "kubelet", atMost: 0.5 } })).toBe(
    "| cost |  | 1.00 % | below what can be measured | at most 0.20 × | 5 | ≤ 0.50 × the kubelet's | reached |",
  );
});

test("several samples of a turn are compared with the other side's one by their median", () => {
  const turns = [100, 110, 100, 110, 120, 100].flatMap((ms) => [ms - 50, ms, ms + 1]);
  const peers = [200, 200, 200, 200, 200, 200];
  expect(row({ what: "a pod", unit: "ms", peer: medianOf(peers), berth: medianOf(turns) })).toEndWith(
    "| 0.53 (0.50–0.55) × | 18 (kubelet: 6) |  |  |",
  );
});

test("a tail is compared by its values", () => {
  const tail = { isTail: true, peer: percentileOf([1, 2, 3, 3, 3], 0.9), berth: percentileOf([1, 2, 2, 2, 2], 0.9) };
  expect(row({ what: "p90", unit: "ms", ...tail })).toBe("| p90 |  | 3 ms | 2 ms | 0.67 × | 5 |  |  |");
  const few = { ...tail, peer: percentileOf([1, 2, 3], 0.9) };
  expect(row({ what: "p90", unit: "ms", ...few })).toBe("| p90 |  | 3 ms | 2 ms |  | 5 (kubelet: 3) |  |  |");
});

test("the terminal table shows the lowest and the highest of several samples after the value", () => {
  expect(textTable([ratio([150, 150, 150, 150, 150])], "kubelet")).toContain("200 ms (190–210)");
});
