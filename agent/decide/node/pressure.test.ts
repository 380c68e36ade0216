import { expect, test } from "bun:test";
import { nodeSettings } from "../../../test/fakes/observed-node.ts";
import type { SignalObservations } from "./observed-node.ts";
import {
  decidePressure,
  emptyPressureMemory,
  type PressureMemory,
  type PressureSettings,
  signalsOf,
} from "./pressure.ts";

const plenty: SignalObservations = {
  "memory.available": { capacity: 2 ** 33, available: 2 ** 32 },
  "nodefs.available": { capacity: 100, available: 100 },
  "nodefs.inodesFree": { capacity: 100, available: 100 },
  "imagefs.available": { capacity: 100, available: 100 },
  "imagefs.inodesFree": { capacity: 100, available: 100 },
  "pid.available": { capacity: 1000, available: 900 },
};
const hundred = (available: number) => ({ capacity: 100, available });
const memory = (available: number) => ({ capacity: 2 ** 33, available });

function pressureOf(supplies: SignalObservations, settings: Partial<PressureSettings> = {}): string {
  const { pressure, thresholdsMet } = decidePressure(
    supplies,
    emptyPressureMemory,
    { ...nodeSettings, ...settings },
    0,
  );
  const active = Object.entries(pressure).flatMap(([name, isActive]) => (isActive ? [name] : []));
  return `${active.join(" ") || "none"}: ${thresholdsMet.map((text) => text.split(" ")[0]).join(" ")}`;
}

const rows: readonly [
  name: string,
  supplies: SignalObservations,
  pressure: string,
  settings?: Partial<PressureSettings>,
][] = [
  ["no resource is short", plenty, "none: "],
  ["memory is exactly at its threshold", { ...plenty, "memory.available": memory(100 * 2 ** 20) }, "none: "],
  [
    "memory is one byte below its threshold",
    { ...plenty, "memory.available": memory(100 * 2 ** 20 - 1) },
    "memory: memory.available",
  ],
  ["nodefs is nearly full", { ...plenty, "nodefs.available": hundred(9) }, "disk: nodefs.available"],
  ["imagefs is nearly full", { ...plenty, "imagefs.available": hundred(14) }, "disk: imagefs.available"],
  [
    "both file systems are short of inodes",
    { ...plenty, "nodefs.inodesFree": hundred(4), "imagefs.inodesFree": hundred(1) },
    "disk: nodefs.inodesFree imagefs.inodesFree",
  ],
  ["processes are short, without a threshold", { ...plenty, "pid.available": hundred(0) }, "none: "],
  [
    "processes are short, below a threshold",
    { ...plenty, "pid.available": hundred(4) },
    "pid: pid.available",
    { evictionHard: { "pid.available": "5%" } },
  ],
  ["no signal could be measured", {}, "none: "],
  [
    "thresholds are disabled",
    { "memory.available": memory(0), "nodefs.available": hundred(0) },
    "none: ",
    { evictionHard: { "memory.available": "0%", "nodefs.available": "100%" } },
  ],
  [
    "a soft threshold is met within its grace period",
    plenty,
    "memory: memory.available",
    { evictionSoft: { "memory.available": "5Gi" }, evictionSoftGracePeriodMs: { "memory.available": 90_000 } },
  ],
  ["a threshold has an unknown signal", plenty, "none: ", { evictionHard: { "containerfs.available": "99%" } }],
];
for (const [name, supplies, active, settings] of rows)
  test(`${name}: ${active}`, () => {
    expect(pressureOf(supplies, settings)).toBe(active);
  });

test("a met threshold is described with its figures", () => {
  const scarce = { ...plenty, "imagefs.available": hundred(14) };
  const { thresholdsMet } = decidePressure(scarce, emptyPressureMemory, nodeSettings, 0);
  expect(thresholdsMet).toEqual(["imagefs.available is 14 of 100, its hard threshold 15%"]);
});

/** Observes the available memory at the given seconds; returns when the pressure started and ended. */
function report(
  settings: Partial<PressureSettings>,
  observations: readonly (readonly [second: number, available: number])[],
): string {
  let kept: PressureMemory = emptyPressureMemory;
  let was = false;
  const changes: string[] = [];
  for (const [second, available] of observations) {
    const decided = decidePressure(
      { "memory.available": memory(available) },
      kept,
      { ...nodeSettings, ...settings },
      second * 1000,
    );
    kept = decided.memory;
    if (decided.pressure.memory !== was) changes.push(`${decided.pressure.memory ? "on" : "off"} at ${second}`);
    was = decided.pressure.memory;
  }
  return changes.join(", ");
}

const every10 = (from: number, to: number, available: number) =>
  Array.from({ length: (to - from) / 10 + 1 }, (_, n) => [from + 10 * n, available] as const);

test("a pressure lasts until it was not observed for its period", () => {
  expect(report({}, [...every10(0, 20, 0), ...every10(30, 600, 2 ** 32)])).toBe("on at 0, off at 320");
  expect(report({ evictionPressureTransitionPeriodMs: 30_000 }, [[0, 0], ...every10(10, 60, 2 ** 32)])).toBe(
    "on at 0, off at 30",
  );
  expect(report({}, [[0, 0], ...every10(10, 200, 2 ** 32), [210, 0], ...every10(220, 600, 2 ** 32)])).toBe(
    "on at 0, off at 510",
  );
});

test("once evictions are due, the pressure lasts until the minimum reclaim is reached", () => {
  const settings = {
    evictionMinimumReclaim: { "memory.available": "50Mi" },
    evictionPressureTransitionPeriodMs: 1_000,
  };
  const mebi = 2 ** 20;
  expect(
    report(settings, [
      [0, 120 * mebi],
      [10, 99 * mebi],
      [20, 149 * mebi],
      [30, 150 * mebi],
    ]),
  ).toBe("on at 10, off at 30");
  const soft = {
    ...settings,
    evictionHard: {},
    evictionSoft: { "memory.available": "100Mi" },
    evictionSoftGracePeriodMs: { "memory.available": 15_000 },
  };
  expect(
    report(soft, [
      [0, 99 * mebi],
      [10, 149 * mebi],
    ]),
  ).toBe("on at 0, off at 10");
  expect(
    report(soft, [
      [0, 99 * mebi],
      [10, 99 * mebi],
      [20, 149 * mebi],
      [30, 151 * mebi],
    ]),
  ).toBe("on at 0, off at 30");
});

test("a clock that is set back by an hour makes no pressure last longer than its period", () => {
  const observations = [[3600, 0], ...every10(3610, 3700, 2 ** 32), ...every10(100, 500, 2 ** 32)] as const;
  expect(report({}, observations)).toBe("on at 3600, off at 400");
});

test("only signals with a threshold have to be measured", () => {
  const evictionHard = { "memory.available": "100Mi", "nodefs.available": "0%" };
  expect([...signalsOf({ ...nodeSettings, evictionHard, evictionSoft: { "pid.available": "5%" } })]).toEqual([
    "memory.available",
    "pid.available",
  ]);
});
