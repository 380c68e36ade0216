import type { NodeFacts } from "../../agent/translate/node-facts.ts";

/** The base of tests that change one field: two CPUs, 8 GiB of memory, 2 GiB of swap and 64 GiB of storage. */
export const nodeFacts: NodeFacts = {
  nodeName: "node",
  hostIPs: ["192.0.2.1", "2001:db8::1"],
  memoryCapacityBytes: 8 * 2 ** 30,
  allocatable: new Map([
    ["cpu", 2000n],
    ["memory", 2n ** 33n],
    ["ephemeral-storage", 2n ** 36n],
  ]),
  swapCapacityBytes: 2 ** 31,
  hugePageSizes: [2 ** 21, 2 ** 30],
  pageBytes: 4096,
  hasCgroupV2: true,
  limitsSwap: true,
  hasSELinux: false,
  thermalThrottlePaths: [
    "/sys/devices/system/cpu/cpu0/thermal_throttle",
    "/sys/devices/system/cpu/cpu1/thermal_throttle",
  ],
  rootDir: "/root-dir",
  podLogsDir: "/logs",
  clusterDNS: ["192.0.2.10"],
  clusterDomain: "cluster.local",
  hostResolvConf: { nameservers: ["192.0.2.53"], searches: ["example.com"], options: ["rotate"] },
  cgroupsPerQOS: false,
  cpuCFSQuota: true,
  cpuCFSQuotaPeriodMs: 100,
  singleProcessOOMKill: false,
  swapBehavior: "",
  podPidsLimit: -1,
  seccompDefault: false,
  containerStopSignals: false,
};
