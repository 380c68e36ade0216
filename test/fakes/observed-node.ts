import type { NodeSettings } from "../../agent/decide/node/node-settings.ts";
import {
  noPressure,
  type ObservedMachine,
  type ObservedNode,
  type ObservedRuntime,
} from "../../agent/decide/node/observed-node.ts";

export const observedMachine: ObservedMachine = {
  cpuCount: 4,
  onlineCpus: "0-3",
  memoryBytes: 8 * 2 ** 30,
  swapBytes: 0,
  hugePages: [],
  storageBytes: 64 * 2 ** 30,
  machineID: "0123456789abcdef0123456789abcdef",
  systemUUID: "01234567-89ab-cdef-0123-456789abcdef",
  bootID: "11111111-2222-3333-4444-555555555555",
  kernelVersion: "6.1.0-44-amd64",
  osImage: "Debian GNU/Linux 12 (bookworm)",
  architecture: "amd64",
  hasAppArmor: true,
};

export const observedRuntime: ObservedRuntime = {
  name: "containerd",
  version: "1.6.20",
  conditions: [
    { type: "RuntimeReady", status: true, reason: "", message: "" },
    { type: "NetworkReady", status: true, reason: "", message: "" },
  ],
  handlers: [],
  supplementalGroupsPolicy: undefined,
  readyAt: Date.parse("2026-01-01T00:00:00Z"),
  isReady: true,
};

/** The base of tests that change one field: a ready node with four CPUs, 8 GiB of memory and 64 GiB of storage. */
export const observedNode: ObservedNode = {
  machine: observedMachine,
  runtime: observedRuntime,
  addresses: ["192.0.2.1"],
  images: [{ id: "sha256:1", digests: ["busybox@sha256:1"], tags: ["busybox:1"], sizeBytes: 2_000_000 }],
  pressure: noPressure,
  isShuttingDown: false,
};

/** The kubelet's defaults. */
export const nodeSettings: NodeSettings = {
  nodeName: "node-a",
  labels: {},
  registerWithTaints: [],
  providerID: "",
  enableControllerAttachDetach: true,
  isCloudExternal: false,
  nodeIPs: [],
  maxPods: 110,
  podsPerCore: 0,
  localStorageCapacityIsolation: true,
  systemReserved: {},
  kubeReserved: {},
  reservedSystemCPUs: "",
  cgroupsPerQOS: false,
  enforceNodeAllocatable: [],
  reservedCgroupPaths: { system: "", kube: "" },
  memoryReservationPolicy: undefined,
  evictionHard: {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
  },
  evictionSoft: {},
  evictionSoftGracePeriodMs: {},
  evictionMinimumReclaim: {},
  evictionPressureTransitionPeriodMs: 300_000,
  declaredFeatures: ["InPlacePodLevelResourcesVerticalScaling", "RestartAllContainersOnContainerExits"],
  nodeStatusMaxImages: 50,
  kubeletPort: 10250,
  kubeletVersion: "v1.36.3",
  nodeStatusUpdateFrequencyMs: 10_000,
  nodeStatusReportFrequencyMs: 300_000,
  nodeLeaseDurationSeconds: 40,
};

/**
 * A fake source of the eviction signals: `left` holds the available memory, tasks and disk space, which tests change.
 */
export function createSignalSource() {
  const space = { totalBytes: 100e9, freeBytes: 50e9, usedBytes: 50e9, totalInodes: 1e6, freeInodes: 5e5 };
  const resources = {
    memory: { capacity: 8 * 2 ** 30, available: 6 * 2 ** 30 },
    tasks: { capacity: 32_768, available: 30_000 },
    /** Awaited before statfs returns. */
    before: async (_path: string) => {},
    fileSystems: new Map([
      ["/var/lib/kubelet", space],
      ["/var/lib/fake/images", space],
    ]),
  };
  return {
    left: resources,
    proc: { memoryAvailability: () => resources.memory, taskAvailability: () => resources.tasks },
    files: {
      space: async (path: string) => {
        await resources.before(path);
        const found = resources.fileSystems.get(path);
        if (found === undefined) throw new Error(`${path} does not exist`);
        return found;
      },
    },
    rootDir: "/var/lib/kubelet",
  };
}
