import { describe, expect, test } from "bun:test";
import type { CgroupLimits } from "../proto/cgroup/limits.ts";
import { bytesText, type Controller, type ReadFile } from "./controller.ts";
import { cpu } from "./cpu.ts";
import { cpuset } from "./cpuset.ts";
import { CgroupError } from "./error.ts";
import { hugetlb } from "./hugetlb.ts";
import { io } from "./io.ts";
import { memory } from "./memory.ts";
import { pids } from "./pids.ts";
import { readPressure } from "./psi.ts";

const sizes = { pageBytes: 4096, hugePageSizes: [2 ** 21, 2 ** 30] };
const controllers: readonly Controller[] = [cpu, cpuset, memory, pids, hugetlb, io];
const reader =
  (files: Readonly<Record<string, string>>): ReadFile =>
  (file) =>
    files[file];

test("limits are the texts that the kernel shows, and are read back from them", () => {
  const limits: CgroupLimits = {
    cpuWeight: 39,
    cpuMax: { quotaUs: 50_000, periodUs: 100_000 },
    cpus: "8,0-1,2",
    memoryMin: 0,
    memoryLow: 4096,
    memoryHigh: "max",
    memoryMax: 4_097,
    memorySwapMax: 0,
    killsAsGroup: true,
    pidsMax: 1024,
    hugetlbMax: { "2MB": 2 ** 62, "1GB": 0 },
  };
  const files = controllers.flatMap((controller) => controller.limitFiles(limits, sizes));
  expect(Object.fromEntries(files.map(({ file, value }) => [file, value]))).toEqual({
    "cpu.max": "50000 100000",
    "cpu.weight": "39",
    "cpuset.cpus": "0-2,8",
    "memory.min": "0",
    "memory.low": "4096",
    "memory.high": "max",
    "memory.max": "4096",
    "memory.swap.max": "0",
    "memory.oom.group": "1",
    "pids.max": "1024",
    "hugetlb.2MB.max": "4611686018427387904",
    "hugetlb.2MB.rsvd.max": "4611686018427387904",
    "hugetlb.1GB.max": "0",
    "hugetlb.1GB.rsvd.max": "0",
  });
  const read = reader(Object.fromEntries(files.map(({ file, value }) => [file, value])));
  const back = Object.assign({}, ...controllers.map((controller) => controller.limits(read, sizes)));
  expect(back).toEqual({ ...limits, cpus: "0-2,8", memoryMax: 4096 });
});

test("a limit that is left out has no file, and a file that is missing no limit", () => {
  expect(controllers.flatMap((controller) => controller.limitFiles({}, sizes))).toEqual([]);
  expect(controllers.map((controller) => controller.limits(reader({}), sizes))).toEqual(controllers.map(() => ({})));
});

test("without swap in the kernel, no swap is in effect; a limit of it is not", () => {
  const isOptional = (memorySwapMax: number | "max") =>
    memory.limitFiles({ memorySwapMax }, sizes).map((each) => each.isOptional);
  expect([0, "max", 4096].map((limit) => isOptional(limit as number))).toEqual([[true], [true], [false]]);
});

test("bytes are rounded down to pages, and are no limit beyond what the kernel counts", () => {
  const rows = [
    [0, 4096],
    [4095, 4096],
    [8191.5, 4096],
    [10_000_001, 4096],
    [10_000_001, 16_384],
    [3 * 2 ** 20, 2 ** 21],
    [2 ** 62, 2 ** 30],
    [2 ** 53 + 2, 1],
    [2 ** 63 - 2048, 4096],
    [2 ** 63, 4096],
    [Number.POSITIVE_INFINITY, 4096],
    ["max", 4096],
  ] as const;
  expect(rows.map(([limit, unit]) => bytesText(limit, unit))).toEqual([
    "0",
    "0",
    "4096",
    "9998336",
    "9994240",
    "2097152",
    "4611686018427387904",
    "9007199254740994",
    "max",
    "max",
    "max",
    "max",
  ]);
});

describe("stats", () => {
  const files = {
    "cpu.stat":
      "usage_usec 300\nuser_usec 200\nsystem_usec 100\ncore_sched.force_idle_usec 0\nnr_periods 7\nnr_throttled 3\nthrottled_usec 5000\nnr_bursts 2\nburst_usec 80",
    "memory.current": "10000000",
    "memory.peak": "20000000",
    "memory.swap.current": "4096",
    "memory.stat":
      "anon 1\nfile 2\nkernel 3\nkernel_stack 4\nfile_mapped 5\nfile_dirty 6\ninactive_anon 7\nactive_anon 8\ninactive_file 9\nactive_file 10\npgfault 11\npgmajfault 12",
    "memory.events": "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6",
    "pids.current": "17",
    "hugetlb.2MB.current": "4194304",
    "io.stat":
      "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n7:0 8:16 rbytes=7 wbytes=8 rios=9 wios=10 dbytes=0 dios=0 cost.usage=1\n253:0",
  };
  const statsOf = (of: Readonly<Record<string, string>>) =>
    Object.assign({}, ...controllers.map((controller) => controller.stats(reader(of), sizes)));

  test("the figures of all controllers", () => {
    expect(statsOf(files)).toEqual({
      cpu: {
        ...{ usageUs: 300, userUs: 200, systemUs: 100, periods: 7, throttledPeriods: 3, throttledUs: 5000 },
        ...{ bursts: 2, burstUs: 80 },
      },
      memory: {
        currentBytes: 10_000_000,
        workingSetBytes: 9_999_991,
        peakBytes: 20_000_000,
        swapCurrentBytes: 4096,
        anonBytes: 1,
        fileBytes: 2,
        fileMappedBytes: 5,
        activeFileBytes: 10,
        inactiveFileBytes: 9,
        kernelBytes: 3,
        pageFaults: 11,
        majorPageFaults: 12,
        maxEvents: 3,
        oomKills: 5,
      },
      pids: { current: 17 },
      hugetlb: { "2MB": { currentBytes: 4_194_304 } },
      io: [
        { device: "8:0", readBytes: 1, writtenBytes: 2, reads: 3, writes: 4, discardedBytes: 5, discards: 6 },
        { device: "8:16", readBytes: 7, writtenBytes: 8, reads: 9, writes: 10, discardedBytes: 0, discards: 0 },
      ],
    });
  });

  test("a cgroup without controllers still has CPU time; what an older kernel lacks is absent", () => {
    expect(statsOf({ "cpu.stat": "usage_usec 300\nuser_usec 200\nsystem_usec 100" })).toEqual({
      cpu: { usageUs: 300, userUs: 200, systemUs: 100 },
    });
    const { "memory.peak": _, "memory.swap.current": __, "memory.events": ___, ...older } = files;
    expect(Object.keys(statsOf(older).memory)).not.toContain("peakBytes");
    expect(statsOf({})).toEqual({});
  });

  test("the working set is not negative while the kernel counts", () => {
    expect(statsOf({ ...files, "memory.current": "5" }).memory.workingSetBytes).toBe(0);
  });
});

describe("pressure", () => {
  const line = "avg10=0.50 avg60=1.25 avg300=99.00 total=123456";
  const share = { avg10: 0.5, avg60: 1.25, avg300: 99, totalUs: 123_456 };

  test("shares of the time, of some and of all processes", () => {
    const text = `some ${line}\nfull ${line}`;
    const psi = readPressure(reader({ "cpu.pressure": `some ${line}`, "memory.pressure": text, "io.pressure": text }));
    const both = { some: share, full: share };
    expect(psi).toEqual({ psi: { cpu: { some: share }, memory: both, io: both } });
  });

  test("a kernel without PSI, and one in which it is turned off, have none", () => {
    expect(readPressure(reader({}))).toEqual({});
    const off = (file: string): string => {
      throw new CgroupError("EOPNOTSUPP", file, undefined, "psi=0");
    };
    expect(readPressure(off)).toEqual({});
    const broken = (file: string): string => {
      throw new CgroupError("EIO", file, undefined, "broken");
    };
    expect(() => readPressure(broken)).toThrow("broken");
  });
});

test("a file that holds what it should not is named with its text", () => {
  const broken: readonly (readonly [Controller, string, string])[] = [
    [cpu, "cpu.weight", "many"],
    [cpu, "cpu.max", "max"],
    [cpu, "cpu.max", "1 2 3"],
    [memory, "memory.max", ""],
    [pids, "pids.max", "1.5"],
    [hugetlb, "hugetlb.2MB.max", "-"],
  ];
  for (const [controller, file, text] of broken)
    expect(() => controller.limits(reader({ [file]: text }), sizes)).toThrow(
      expect.objectContaining({ name: "CgroupError", code: "EPARSE", file, value: text }),
    );
  expect(() => io.stats(reader({ "io.stat": "rbytes=1" }), sizes)).toThrow(
    'io.stat of a cgroup holds "rbytes=1", which is not a line that begins with a device',
  );
  expect(() => readPressure(reader({ "io.pressure": "nothing" }))).toThrow("io.pressure");
});
