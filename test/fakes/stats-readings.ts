import type { PodReading, StatsReadings, UsageReading } from "../../agent/decide/stats/readings.ts";

const AT_MS = Date.UTC(2026, 0, 2, 12, 0, 0, 250);
const share = { avg10: 1.5, avg60: 0.5, avg300: 0, totalUs: 2_000_000 };
const pressure = { some: share, full: { ...share, totalUs: 1_000_000 } };

/** The usage of a cgroup with every figure that the kernel has. */
export const exampleUsage: UsageReading = {
  atMs: AT_MS,
  startedAtMs: AT_MS - 90_000,
  cpu: {
    ...{ usageNs: 3.5e9, nanoCores: 20_000_000, userNs: 2.5e9, systemNs: 1e9 },
    ...{ periods: 10, throttledPeriods: 2, throttledNs: 5e8, burstPeriods: 1, burstNs: 1e6 },
  },
  memory: {
    ...{ usageBytes: 10_000_000, workingSetBytes: 8_000_000, availableBytes: 59_108_864, rssBytes: 5_000_000 },
    ...{ pageFaults: 700, majorPageFaults: 7, cacheBytes: 4_000_000, mappedFileBytes: 300_000, kernelBytes: 200_000 },
    ...{
      maxUsageBytes: 12_000_000,
      activeFileBytes: 1_000_000,
      inactiveFileBytes: 2_000_000,
      limitHits: 3,
      oomKills: 1,
    },
  },
  swap: { usageBytes: 4096, availableBytes: 0 },
  psi: { cpu: pressure, memory: pressure, io: pressure },
  io: [{ device: "8:0", readBytes: 4096, writtenBytes: 8192, reads: 1, writes: 2, discardedBytes: 0, discards: 0 }],
  limits: {
    cpuWeight: 79,
    cpuMax: { quotaUs: 20_000, periodUs: 100_000 },
    memoryMin: 0,
    memoryMax: 67_108_864,
    memorySwapMax: 0,
    pidsMax: "max",
  },
  processes: { count: 2, threads: 5, descriptors: 11, sockets: 3, openFilesLimit: 1024 },
};

const eth0 = {
  ...{ name: "eth0", rxBytes: 1000, rxPackets: 10, rxErrors: 1, rxDropped: 2 },
  ...{ txBytes: 2000, txPackets: 20, txErrors: 3, txDropped: 4 },
};
const fileSystem = { atMs: AT_MS, capacityBytes: 1e9, availableBytes: 6e8, inodes: 1000, inodesFree: 900 };

const POD_PATH = "/kubepods.slice/kubepods-pod1234.slice";

export const examplePod: PodReading = {
  ...{ name: "web", namespace: "shop", uid: "1234" },
  startedAtMs: AT_MS - 100_000,
  cgroup: POD_PATH,
  usage: exampleUsage,
  sandbox: {
    id: "5a",
    image: "",
    createdAtMs: AT_MS - 100_000,
    cgroup: `${POD_PATH}/cri-containerd-5a.scope`,
    usage: exampleUsage,
  },
  containers: [
    {
      ...{ id: "c1", name: "main", image: "docker.io/library/nginx:1", createdAtMs: AT_MS - 90_500 },
      cgroup: `${POD_PATH}/cri-containerd-c1.scope`,
      usage: exampleUsage,
      rootfs: { usage: { atMs: AT_MS, usedBytes: 28_672, inodesUsed: 10 }, fileSystem },
      logs: { atMs: AT_MS, usedBytes: 4096, inodesUsed: 1 },
    },
  ],
  interfaces: [{ ...eth0, name: "net1" }, eth0],
  volumes: [
    { ...volume("claimed", 1e6, false), kind: "persistentVolumeClaim", claim: "data" },
    volume("scratch", 8192, true),
    { atMs: AT_MS, name: "host", kind: "hostPath", isEphemeral: false },
  ],
  otherFiles: { atMs: AT_MS + 1000, usedBytes: 100, inodesUsed: 1 },
};

function volume(name: string, usedBytes: number, isEphemeral: boolean) {
  return {
    ...{ atMs: AT_MS, name, kind: "emptyDir", isEphemeral, usedBytes },
    ...{ availableBytes: 5e8, capacityBytes: 1e9, inodes: 100, inodesFree: 90, inodesUsed: 10 },
  };
}

/** A node with one pod, read from cgroups. */
export const exampleReadings: StatsReadings = {
  node: {
    usage: exampleUsage,
    interfaces: [eth0],
    fs: { ...fileSystem, usedBytes: 3e8 },
    imageFs: { usage: { atMs: AT_MS, usedBytes: 5e7, inodesUsed: 50 }, fileSystem },
    containerFs: { usage: { atMs: AT_MS, usedBytes: 6e7, inodesUsed: 60 }, fileSystem },
    tasks: { atMs: AT_MS, max: 32_768, current: 300 },
    systemContainers: [
      { name: "kubelet", path: "/system.slice/kubelet.service", usage: exampleUsage },
      { name: "pods", path: "/kubepods.slice", usage: exampleUsage },
    ],
    cgroups: [{ path: "/kubepods.slice", usage: exampleUsage }],
  },
  pods: [examplePod],
};
