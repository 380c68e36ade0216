import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCgroupFiles } from "./files.ts";
import { createCgroupUsageReader } from "./usage.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-cgroup-usage-"));
});
afterEach(() => rm(root, { recursive: true }));

const pressure = (total: number) =>
  `some avg10=1.50 avg60=0.00 avg300=0.00 total=${total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n`;
const FILES: Readonly<Record<string, string>> = {
  "cpu.stat":
    "usage_usec 300\nuser_usec 200\nsystem_usec 100\nnr_periods 7\nnr_throttled 2\nthrottled_usec 40\nnr_bursts 1\nburst_usec 5\n",
  "cpu.max": "20000 100000\n",
  "cpu.weight": "79\n",
  "cpu.pressure": pressure(11),
  "memory.current": "1000000\n",
  "memory.stat": "anon 400000\nfile 500000\ninactive_file 250000\nactive_file 250000\npgfault 9\npgmajfault 1\n",
  "memory.max": "2000000\n",
  "memory.min": "0\n",
  "memory.swap.current": "0\n",
  "memory.swap.max": "max\n",
  "memory.peak": "1500000\n",
  "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n",
  "memory.pressure": pressure(22),
  "io.stat": "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n",
  "io.pressure": pressure(33),
  "pids.current": "4\n",
  "pids.max": "100\n",
  "cgroup.procs": "10\n20\n0\n",
};

async function makeCgroup(path: string, files: Readonly<Record<string, string>> = FILES): Promise<void> {
  await mkdir(join(root, path), { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(join(root, path, name), text);
}

function countingReader() {
  const files = createCgroupFiles();
  const names: string[] = [];
  const read = (file: string) => {
    names.push(file.slice(file.lastIndexOf("/") + 1));
    return files.read(file);
  };
  return { names, cgroups: createCgroupUsageReader(root, { read, folders: files.folders }) };
}

test("each level of detail reads only its files", async () => {
  await makeCgroup("/a");
  const readsOf = (detail: "resources" | "cpu-and-memory" | "summary" | "all") => {
    const { cgroups, names } = countingReader();
    cgroups.read("/a", detail);
    return new Set(names);
  };
  expect([...readsOf("resources")].toSorted()).toEqual(
    ["cpu.stat", "memory.current", "memory.max", "memory.stat", "memory.swap.current", "memory.swap.max"].toSorted(),
  );
  expect(readsOf("cpu-and-memory").size).toBe(8);
  expect(readsOf("summary").has("io.pressure")).toBe(true);
  expect(readsOf("summary").has("io.stat")).toBe(false);
  expect(readsOf("all").size).toBe(Object.keys(FILES).length - 1);
});

test("everything has the figures of all files", async () => {
  await makeCgroup("/a");
  const { cgroups } = countingReader();
  expect(cgroups.read("/a", "all")).toMatchObject({
    stats: {
      cpu: { usageUs: 300, periods: 7, throttledPeriods: 2, throttledUs: 40, bursts: 1, burstUs: 5 },
      memory: {
        currentBytes: 1_000_000,
        workingSetBytes: 750_000,
        anonBytes: 400_000,
        peakBytes: 1_500_000,
        oomKills: 1,
      },
      pids: { current: 4 },
      io: [{ device: "8:0", readBytes: 4096, writes: 2 }],
      psi: { cpu: { some: { totalUs: 11, avg10: 1.5 } }, io: { some: { totalUs: 33 } } },
    },
    limits: {
      cpuMax: { quotaUs: 20_000, periodUs: 100_000 },
      memoryMax: 2_000_000,
      memorySwapMax: "max",
      pidsMax: 100,
    },
  });
  expect(cgroups.processes("/a")).toEqual([10, 20, 0]);
  expect(cgroups.madeAtMs("/a")).toBeWithin(Date.now() - 60_000, Date.now() + 1000);
});

test("what is absent is undefined, and a cgroup without controllers has CPU time alone", async () => {
  await makeCgroup("/bare", { "cpu.stat": "usage_usec 5\nuser_usec 3\nsystem_usec 2\n" });
  const { cgroups } = countingReader();
  expect(cgroups.read("/none", "all")).toBeUndefined();
  expect(cgroups.below("/none")).toEqual([]);
  expect(cgroups.processes("/none")).toEqual([]);
  expect(cgroups.madeAtMs("/none")).toBeUndefined();
  expect(cgroups.read("/bare", "all")).toEqual({
    stats: { cpu: { usageUs: 5, userUs: 3, systemUs: 2 } },
    limits: {},
  });
  expect(cgroups.below("/")).toEqual(["bare"]);
});

test("a file that holds nonsense is an error with its name", async () => {
  await makeCgroup("/a", { ...FILES, "memory.current": "much\n" });
  const { cgroups } = countingReader();
  expect(() => cgroups.read("/a", "resources")).toThrow('memory.current of a cgroup holds "much"');
});

test("a file that is larger than a page of the kernel is read to its end", async () => {
  const pids = Array.from({ length: 20_000 }, (_, index) => index + 1);
  await makeCgroup("/a", { ...FILES, "cgroup.procs": `${pids.join("\n")}\n` });
  expect(countingReader().cgroups.processes("/a")).toEqual(pids);
});
