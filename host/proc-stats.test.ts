import { describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createBlockDeviceNames } from "./block-devices.ts";
import { createProcStats, parseCpuTopology, parseNetDev, parseNodeUsage } from "./proc-stats.ts";

const STAT = "cpu  100 10 50 9000 5 3 2 0 0 0\ncpu0 100 10 50 9000 5 3 2 0 0 0\n";
const MEMINFO = `MemTotal:       1000 kB
Buffers:          10 kB
Cached:          200 kB
Active(file):     80 kB
Inactive(file):   60 kB
AnonPages:       300 kB
Mapped:           40 kB
Slab:             20 kB
KernelStack:       5 kB
PageTables:        5 kB
SwapTotal:       500 kB
SwapFree:        400 kB
`;
const NET_DEV = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 999 9 0 0 0 0 0 0 999 9 0 0 0 0 0 0
  eth0: 1000 10 1 2 0 0 0 0 2000 20 3 4 0 0 0 0
veth12: 5 5 5 5 0 0 0 0 5 5 5 5 0 0 0 0
wlan0:7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0
`;

test("the node's CPU time is that of all CPUs without idling and waiting", () => {
  const usage = parseNodeUsage(STAT, MEMINFO, "pgfault 12\npgmajfault 3\n");
  expect(usage?.cpu).toEqual({ usageNs: 1.65e9, userNs: 1.1e9, systemNs: 0.55e9 });
  expect(usage?.memory).toEqual({
    totalBytes: 1_024_000,
    anonBytes: 307_200,
    cacheBytes: 215_040,
    activeFileBytes: 81_920,
    inactiveFileBytes: 61_440,
    mappedFileBytes: 40_960,
    kernelBytes: 30_720,
    pageFaults: 12,
    majorPageFaults: 3,
  });
  expect(usage?.swap).toEqual({ totalBytes: 512_000, freeBytes: 409_600 });
});

test("a node without these files, or with other contents, has no figures", () => {
  expect(parseNodeUsage("", MEMINFO, "")).toBeUndefined();
  expect(parseNodeUsage("cpu  many\n", MEMINFO, "")).toBeUndefined();
  expect(parseNodeUsage(STAT, "nonsense", "")).toBeUndefined();
});

test("interfaces are those that lead out, as cAdvisor has them", () => {
  expect(parseNetDev(NET_DEV)).toEqual([
    {
      ...{ name: "eth0", rxBytes: 1000, rxPackets: 10, rxErrors: 1, rxDropped: 2 },
      ...{ txBytes: 2000, txPackets: 20, txErrors: 3, txDropped: 4 },
    },
    {
      ...{ name: "wlan0", rxBytes: 7, rxPackets: 1, rxErrors: 0, rxDropped: 0 },
      ...{ txBytes: 8, txPackets: 1, txErrors: 0, txDropped: 0 },
    },
  ]);
  expect(parseNetDev("eth0: 1 2 3\nnonsense\n\0: x")).toEqual([]);
});

describe("cores and sockets", () => {
  const cpu = (processor: number, socket?: number, core?: number) =>
    [
      `processor\t: ${processor}`,
      ...(socket === undefined ? [] : [`physical id\t: ${socket}`, `core id\t\t: ${core}`]),
    ].join("\n");
  const rows: readonly (readonly [what: string, cpuinfo: string, cores: number, sockets: number])[] = [
    ["two threads of one core", [cpu(0, 0, 0), cpu(1, 0, 0)].join("\n\n"), 1, 1],
    ["two sockets with a core each", [cpu(0, 0, 0), cpu(1, 1, 0)].join("\n\n"), 2, 2],
    ["a board that does not say it", [cpu(0), cpu(1), cpu(2), "Hardware\t: BCM2835"].join("\n\n"), 3, 1],
    ["nothing", "", 0, 0],
  ];
  for (const [what, cpuinfo, cores, sockets] of rows)
    test(what, () => {
      expect(parseCpuTopology(cpuinfo)).toEqual({ cores, sockets });
    });
});

test("this process has files, sockets or not, a limit, interfaces and an uptime", async () => {
  const proc = createProcStats();
  const open = (await readdir("/proc/self/fd")).length;
  expect(proc.openFiles(process.pid, 10_000)?.descriptors).toBeWithin(open - 5, open + 5);
  expect(proc.openFilesLimit(process.pid)).not.toBeUndefined();
  expect(proc.interfaces(process.pid)).toBeArray();
  expect(proc.uptimeSeconds()).toBeGreaterThan(0);
});

test("sockets are counted among the first descriptors, which may be fewer than all", async () => {
  const proc = createProcStats();
  const servers = Array.from({ length: 20 }, () =>
    Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } }),
  );
  try {
    expect(proc.openFiles(process.pid, 10_000)?.sockets).toBeGreaterThanOrEqual(20);
    const open = (await readdir("/proc/self/fd")).length;
    for (const limit of [0, 2]) {
      const { descriptors, sockets } = proc.openFiles(process.pid, limit) ?? { descriptors: 0, sockets: Infinity };
      expect(descriptors).toBeWithin(open - 5, open + 5);
      expect(sockets).toBeLessThanOrEqual(limit);
    }
  } finally {
    for (const server of servers) server.stop();
  }
});

test("a process that has ended has no figures", () => {
  const proc = createProcStats();
  const ended = 4_000_000;
  expect(proc.openFiles(ended, 1)).toBeUndefined();
  expect(proc.openFilesLimit(ended)).toBeUndefined();
  expect(proc.interfaces(ended)).toBeUndefined();
});

test("block devices have the names of /dev", async () => {
  const sys = await mkdtemp(join(tmpdir(), "berth-sys-"));
  try {
    await mkdir(join(sys, "dev/block"), { recursive: true });
    await symlink("../../devices/pci0/block/sda/sda1", join(sys, "dev/block/8:1"));
    await writeFile(join(sys, "dev/block/9:9"), "");
    const nameOf = createBlockDeviceNames(sys);
    expect(["8:1", "9:9", "1:1", "../8:1", ""].map(nameOf)).toEqual(["/dev/sda1", "", "", "", ""]);
  } finally {
    await rm(sys, { recursive: true });
  }
});
