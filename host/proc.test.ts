import { expect, test } from "bun:test";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createProc, meminfoBytes, memoryAvailabilityOf, taskAvailabilityOf, thermalThrottlePathsIn } from "./proc.ts";

const meminfo = "MemTotal:       24617532 kB\nMemFree:         1024 kB\nHugePages_Total:       3\nMemTotalX:  1 kB\n";
const rows: readonly [key: string, bytes: number][] = [
  ["MemTotal", 24_617_532 * 1024],
  ["MemFree", 1_048_576],
  ["HugePages_Total", 0],
  ["Total", 0],
  ["Absent", 0],
];
for (const [key, bytes] of rows)
  test(`${key} is ${bytes} bytes`, () => {
    expect(meminfoBytes(meminfo, key)).toBe(bytes);
  });

test("this machine has plausible values", () => {
  const proc = createProc();
  expect(proc.availableParallelism()).toBeGreaterThanOrEqual(1);
  expect(proc.hostname()).not.toBe("");
  expect(proc.memoryAvailability()?.capacity).toBeGreaterThan(2 ** 26);
  expect(proc.memoryAvailability()?.available).toBeWithin(2 ** 20, proc.memoryAvailability()?.capacity ?? 0);
  expect(proc.taskAvailability()?.available).toBeWithin(1, (proc.taskAvailability()?.capacity ?? 0) + 1);
});

test("the thermal_throttle folders are listed in the order of the CPUs", async () => {
  const cpus = await mkdtemp(join(tmpdir(), "berth-cpus-"));
  for (const path of ["cpu10", "cpu0", "cpu2", "cpufreq"])
    await mkdir(join(cpus, path, "thermal_throttle"), { recursive: true });
  await mkdir(join(cpus, "cpu1"));
  expect(thermalThrottlePathsIn(cpus)).toEqual(
    ["cpu0", "cpu2", "cpu10"].map((cpu) => `${cpus}/${cpu}/thermal_throttle`),
  );
  await rm(cpus, { recursive: true });
  expect(thermalThrottlePathsIn(cpus)).toEqual([]);
});

test("available memory is the capacity without the working set", () => {
  const lines = (figures: Readonly<Record<string, number>>) =>
    Object.entries(figures)
      .map(([key, kibibytes]) => `${key}:   ${kibibytes} kB\n`)
      .join("");
  const figures = {
    MemTotal: 1000,
    MemFree: 300,
    MemAvailable: 1,
    AnonPages: 200,
    Buffers: 10,
    Cached: 380,
    SwapCached: 5,
  };
  const supply = (more: Readonly<Record<string, number>>) => memoryAvailabilityOf(lines({ ...figures, ...more }));
  expect(supply({ "Active(file)": 100, "Inactive(file)": 250 })).toEqual({
    capacity: 1_024_000,
    available: 655 * 1024,
  });
  expect(supply({ "Inactive(file)": 5000 })).toEqual({ capacity: 1_024_000, available: 1_024_000 });
  expect(supply({ AnonPages: 5000 })).toEqual({ capacity: 1_024_000, available: 0 });
  expect(memoryAvailabilityOf("")).toBeUndefined();
});

test("available tasks are limited by the smaller of the kernel's two limits", () => {
  const loadavg = "1.36 3.49 4.53 2/3518 3715089\n";
  expect(taskAvailabilityOf(loadavg, ["4194304\n", "191000\n"])).toEqual({ capacity: 191_000, available: 187_482 });
  expect(taskAvailabilityOf(loadavg, ["", "100\n"])).toEqual({ capacity: 100, available: 0 });
  expect(taskAvailabilityOf(loadavg, ["", "max\n"])).toBeUndefined();
  expect(taskAvailabilityOf("", ["4194304\n"])).toBeUndefined();
});
