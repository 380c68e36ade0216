import { expect, test } from "bun:test";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import { describeLimits, missingLimits } from "./limit-differences.ts";

type Row = readonly [sentence: string, current: CgroupLimits, wanted: CgroupLimits];

test("what a cgroup lacks of the limits that it should have", () => {
  const full: CgroupLimits = {
    cpuWeight: 59,
    cpuMax: { quotaUs: 50_000, periodUs: 100_000 },
    memoryMax: 128 * 2 ** 20,
    pidsMax: "max",
    hugetlbMax: { "2MB": 0, "1GB": 0 },
  };
  const rows: readonly Row[] = [
    ["it has all", full, full],
    ["another program has changed two files", { ...full, cpuWeight: 100, memoryMax: "max" }, full],
    ["another quota", { ...full, cpuMax: { quotaUs: "max", periodUs: 100_000 } }, full],
    ["another period", { ...full, cpuMax: { quotaUs: 50_000, periodUs: 50_000 } }, full],
    [
      "systemd has rounded 50.5 % up",
      { cpuMax: { quotaUs: 51_000, periodUs: 100_000 } },
      { cpuMax: { quotaUs: 50_500, periodUs: 100_000 } },
    ],
    [
      "a percent more",
      { cpuMax: { quotaUs: 51_500, periodUs: 100_000 } },
      { cpuMax: { quotaUs: 50_500, periodUs: 100_000 } },
    ],
    [
      "a quota that systemd would round up beyond the largest",
      { cpuMax: { quotaUs: "max", periodUs: 100_000 } },
      { cpuMax: { quotaUs: 17_592_186_044_400, periodUs: 100_000 } },
    ],
    ["one huge page size", { ...full, hugetlbMax: { "2MB": 4_194_304, "1GB": 0 } }, full],
    [
      "another program has turned the controller of processes off; the kernel has none of huge pages",
      { cpuWeight: 59, cpuMax: full.cpuMax!, memoryMax: 128 * 2 ** 20 },
      full,
    ],
    ["the kernel has rounded the memory down to its pages", { memoryMax: 998_244_352 }, { memoryMax: 998_244_999 }],
    ["a page more than it should", { memoryMax: 8192 }, { memoryMax: 4096 }],
    ["a limit instead of none", { memoryMax: 2 ** 40 }, { memoryMax: "max" }],
    ["none instead of a limit", { pidsMax: "max" }, { pidsMax: 100 }],
    ["the CPUs", { cpus: "0-1" }, { cpus: "0-3" }],
    ["nothing is wanted", full, {}],
  ];
  const text = rows.map(([sentence, current, wanted]) => {
    const missing = missingLimits(current, wanted);
    return `${sentence}: ${missing === undefined ? "-" : describeLimits(missing)}`;
  });
  expect(`\n${text.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    it has all: -
    another program has changed two files: memory.max 134217728, cpu.weight 59
    another quota: cpu.max 50000 100000
    another period: cpu.max 50000 100000
    systemd has rounded 50.5 % up: -
    a percent more: cpu.max 50500 100000
    a quota that systemd would round up beyond the largest: -
    one huge page size: hugetlb.2MB.max 0
    another program has turned the controller of processes off; the kernel has none of huge pages: pids.max max
    the kernel has rounded the memory down to its pages: -
    a page more than it should: memory.max 4096
    a limit instead of none: memory.max max
    none instead of a limit: pids.max 100
    the CPUs: cpuset.cpus 0-3
    nothing is wanted: -
    "
  `);
});
