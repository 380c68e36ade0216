import { expect, test } from "bun:test";
import { nodeSettings } from "../../../test/fakes/observed-node.ts";
import type { Supplies } from "./observed-node.ts";
import {
  decidePressure,
  emptyPressureMemory,
  type PressureMemory,
  type PressureSettings,
  signalsOf,
} from "./pressure.ts";

const plenty: Supplies = {
  "memory.available": { capacity: 2 ** 33, available: 2 ** 32 },
  "nodefs.available": { capacity: 100, available: 100 },
  "nodefs.inodesFree": { capacity: 100, available: 100 },
  "imagefs.available": { capacity: 100, available: 100 },
  "imagefs.inodesFree": { capacity: 100, available: 100 },
  "pid.available": { capacity: 1000, available: 900 },
};
const hundred = (available: number) => ({ capacity: 100, available });
const memory = (available: number) => ({ capacity: 2 ** 33, available });

function feltOf(supplies: Supplies, settings: Partial<PressureSettings> = {}): string {
  const { pressure, shortages } = decidePressure(supplies, emptyPressureMemory, { ...nodeSettings, ...settings }, 0);
  const felt = Object.entries(pressure).flatMap(([name, isFelt]) => (isFelt ? [name] : []));
  return `${felt.join(" ") || "none"}: ${shortages.map((text) => text.split(" ")[0]).join(" ")}`;
}

const rows: readonly [name: string, supplies: Supplies, felt: string, settings?: Partial<PressureSettings>][] = [
  ["plenty of everything", plenty, "none: "],
  ["memory at its threshold", { ...plenty, "memory.available": memory(100 * 2 ** 20) }, "none: "],
  ["a byte less", { ...plenty, "memory.available": memory(100 * 2 ** 20 - 1) }, "memory: memory.available"],
  ["a disk of pods that is nearly full", { ...plenty, "nodefs.available": hundred(9) }, "disk: nodefs.available"],
  ["a disk of images that is nearly full", { ...plenty, "imagefs.available": hundred(14) }, "disk: imagefs.available"],
  [
    "few inodes on both",
    { ...plenty, "nodefs.inodesFree": hundred(4), "imagefs.inodesFree": hundred(1) },
    "disk: nodefs.inodesFree imagefs.inodesFree",
  ],
  ["few processes, and no threshold for them", { ...plenty, "pid.available": hundred(0) }, "none: "],
  [
    "few processes, below a threshold",
    { ...plenty, "pid.available": hundred(4) },
    "pid: pid.available",
    { evictionHard: { "pid.available": "5%" } },
  ],
  ["nothing that could be measured", {}, "none: "],
  [
    "thresholds that are none",
    { "memory.available": memory(0), "nodefs.available": hundred(0) },
    "none: ",
    { evictionHard: { "memory.available": "0%", "nodefs.available": "100%" } },
  ],
  [
    "a soft threshold, whose grace has not passed",
    plenty,
    "memory: memory.available",
    { evictionSoft: { "memory.available": "5Gi" }, evictionSoftGracePeriodMs: { "memory.available": 90_000 } },
  ],
  ["a signal that nobody measures", plenty, "none: ", { evictionHard: { "containerfs.available": "99%" } }],
];
for (const [name, supplies, felt, settings] of rows)
  test(`${name}: ${felt}`, () => {
    expect(feltOf(supplies, settings)).toBe(felt);
  });

test("a shortage is told with its figures", () => {
  const scarce = { ...plenty, "imagefs.available": hundred(14) };
  const { shortages } = decidePressure(scarce, emptyPressureMemory, nodeSettings, 0);
  expect(shortages).toEqual(["imagefs.available is 14 of 100, its hard threshold 15%"]);
});

/** Looks at the memory that is left, at so many seconds; tells when the pressure came and went. */
function story(
  settings: Partial<PressureSettings>,
  looks: readonly (readonly [second: number, available: number])[],
): string {
  let kept: PressureMemory = emptyPressureMemory;
  let was = false;
  const changes: string[] = [];
  for (const [second, available] of looks) {
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

test("a pressure lasts until it was not felt for its period", () => {
  expect(story({}, [...every10(0, 20, 0), ...every10(30, 600, 2 ** 32)])).toBe("on at 0, off at 320");
  expect(story({ evictionPressureTransitionPeriodMs: 30_000 }, [[0, 0], ...every10(10, 60, 2 ** 32)])).toBe(
    "on at 0, off at 30",
  );
  expect(story({}, [[0, 0], ...every10(10, 200, 2 ** 32), [210, 0], ...every10(220, 600, 2 ** 32)])).toBe(
    "on at 0, off at 510",
  );
});

test("where evictions are due, as much is wanted back as is to be reclaimed at least", () => {
  const settings = {
    evictionMinimumReclaim: { "memory.available": "50Mi" },
    evictionPressureTransitionPeriodMs: 1_000,
  };
  const mebi = 2 ** 20;
  expect(
    story(settings, [
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
    story(soft, [
      [0, 99 * mebi],
      [10, 149 * mebi],
    ]),
  ).toBe("on at 0, off at 10");
  expect(
    story(soft, [
      [0, 99 * mebi],
      [10, 99 * mebi],
      [20, 149 * mebi],
      [30, 151 * mebi],
    ]),
  ).toBe("on at 0, off at 30");
});

test("a clock that is set back by an hour makes no pressure last longer than its period", () => {
  const looks = [[3600, 0], ...every10(3610, 3700, 2 ** 32), ...every10(100, 500, 2 ** 32)] as const;
  expect(story({}, looks)).toBe("on at 3600, off at 400");
});

test("only what has a threshold has to be measured", () => {
  const evictionHard = { "memory.available": "100Mi", "nodefs.available": "0%" };
  expect([...signalsOf({ ...nodeSettings, evictionHard, evictionSoft: { "pid.available": "5%" } })]).toEqual([
    "memory.available",
    "pid.available",
  ]);
});
