import { expect, test } from "bun:test";
import type { CgroupLimits } from "../../proto/cgroup/limits.ts";
import { propertiesText, sliceProperties, systemdLimits, systemdProperties } from "./unit-properties.ts";

const rows: readonly (readonly [limits: CgroupLimits, text: string])[] = [
  [{}, ""],
  [{ cpuWeight: 39 }, "CPUWeight=39"],
  [{ cpuMax: { quotaUs: 50_000, periodUs: 100_000 } }, "CPUQuotaPeriodUSec=100000 CPUQuotaPerSecUSec=500000"],
  [
    { cpuMax: { quotaUs: 17_592_186_044_000, periodUs: 100_000 } },
    "CPUQuotaPeriodUSec=100000 CPUQuotaPerSecUSec=175921860440000",
  ],
  [{ cpuMax: { quotaUs: "max", periodUs: 100_000 } }, "CPUQuotaPeriodUSec=infinity CPUQuotaPerSecUSec=infinity"],
  [{ cpuMax: { quotaUs: 1_500, periodUs: 100_000 } }, "CPUQuotaPeriodUSec=100000 CPUQuotaPerSecUSec=20000"],
  [{ cpuMax: { quotaUs: 5_000, periodUs: 10_000 } }, "CPUQuotaPeriodUSec=10000 CPUQuotaPerSecUSec=500000"],
  [{ memoryMax: 2 ** 62, memoryMin: 0 }, "MemoryMin=0 MemoryMax=4611686018427387904"],
  [{ memoryLow: 1, memoryHigh: "max", memorySwapMax: 0 }, "MemoryLow=1 MemoryHigh=infinity MemorySwapMax=0"],
  [{ pidsMax: "max" }, "TasksMax=infinity"],
  [{ pidsMax: 1024 }, "TasksMax=1024"],
  [{ cpus: "0-2,9" }, "AllowedCPUs=0-2,9"],
  [{ hugetlbMax: { "2MB": 0 }, killsAsGroup: true }, ""],
];

for (const [limits, text] of rows)
  test(`${JSON.stringify(limits)} is ${text === "" ? "no property" : text}`, () => {
    expect(propertiesText(systemdProperties(limits))).toBe(text);
  });

test("the types are systemd's", () => {
  const properties = systemdProperties({ cpuWeight: 1, cpus: "0-2,9", pidsMax: "max" });
  expect(properties).toEqual([
    { name: "CPUWeight", signature: "t", value: 1n },
    { name: "TasksMax", signature: "t", value: 2n ** 64n - 1n },
    { name: "AllowedCPUs", signature: "ay", value: [0b111, 0b10] },
  ]);
});

test("a quota is rounded up to whole percents of a CPU, as systemd writes it", () => {
  const quotas = [1_000, 1_001, 1_500, 50_000, 99_999, 100_000, 150_000].map(
    (quotaUs) => systemdLimits({ cpuMax: { quotaUs, periodUs: 100_000 } }).cpuMax?.quotaUs,
  );
  expect(quotas).toEqual([1_000, 2_000, 2_000, 50_000, 100_000, 100_000, 150_000]);
  expect(systemdLimits({ cpuMax: { quotaUs: 1_000, periodUs: 30_000 } }).cpuMax).toEqual({
    quotaUs: 1_200,
    periodUs: 30_000,
  });
  const largest = [17_592_186_044_000, 17_592_186_044_001].map((quotaUs) =>
    systemdLimits({ cpuMax: { quotaUs, periodUs: 100_000 } }),
  );
  expect(largest.map(({ cpuMax }) => cpuMax?.quotaUs)).toEqual([17_592_186_044_000, "max"]);
  const unlimited: CgroupLimits = { cpuMax: { quotaUs: "max", periodUs: 100_000 }, memoryMax: 1 };
  expect([unlimited, {}].map(systemdLimits)).toEqual([unlimited, {}]);
});

test("a slice has accounting, the slice above it, and no dependencies of a shutdown", () => {
  expect(propertiesText(sliceProperties("kubepods-burstable.slice", "kubepods.slice"))).toBe(
    "Description=Kubernetes cgroup kubepods-burstable.slice Wants=kubepods.slice CPUAccounting=true " +
      "MemoryAccounting=true IOAccounting=true TasksAccounting=true DefaultDependencies=false",
  );
  expect(propertiesText(sliceProperties("kubepods.slice", undefined))).not.toContain("Wants");
});
