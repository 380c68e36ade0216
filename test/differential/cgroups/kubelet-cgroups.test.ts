// What Berth computes for the cgroups of pods, against what the reference kubelet has written for the same pods.
import { describe, expect, test } from "bun:test";
import { kubepodsLimits } from "../../../agent/decide/cgroups/node-cgroups.ts";
import { podCgroupLimits } from "../../../agent/decide/cgroups/pod-cgroup.ts";
import { qosCgroupLimits, qosRequestsOf } from "../../../agent/decide/cgroups/qos-cgroups.ts";
import { qosClassOf } from "../../../agent/decide/status/qos.ts";
import type { NodeFacts } from "../../../agent/translate/node-facts.ts";
import { containerResources } from "../../../agent/translate/resources/container-resources.ts";
import type { CgroupLimits, Limit } from "../../../proto/cgroup/limits.ts";
import type { LinuxContainerResources } from "../../../proto/cri/gen/api.ts";
import { isSidecar, nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { parseQuantity, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import { nodeFacts } from "../../fakes/node-facts.ts";
import { nodeSettings } from "../../fakes/observed-node.ts";
import { unrecordedPods } from "./cgroup-cases.ts";
import { type CgroupRecording, type RecordedPod, readCgroupRecording, staleCases } from "./cgroup-recording.ts";
import type { CgroupFiles } from "./cgroup-tree.ts";

const PAGE_BYTES = 4096;

/** The values of the files of a cgroup in which nothing was written. A size of huge pages is `SIZE`. */
const untouched: CgroupFiles = {
  "cpu.weight": "100",
  "cpu.max": "max 100000",
  "cpuset.cpus": "",
  "memory.min": "0",
  "memory.low": "0",
  "memory.high": "max",
  "memory.max": "max",
  "memory.swap.max": "max",
  "memory.oom.group": "0",
  "pids.max": "max",
  "hugetlb.2MB.max": "max",
  "hugetlb.1GB.max": "max",
};

/** The kernel shows memory in whole pages. */
const memoryFile = (limit: Limit) => (limit === "max" ? limit : String(limit - (limit % PAGE_BYTES)));

/** The files of a cgroup once these limits are written. */
function filesOf(limits: CgroupLimits): CgroupFiles {
  const { cpuWeight, cpuMax, cpus, memoryMin, memoryLow, memoryMax, pidsMax, hugetlbMax = {} } = limits;
  return {
    ...untouched,
    ...(cpuWeight !== undefined && { "cpu.weight": String(cpuWeight) }),
    ...(cpuMax !== undefined && { "cpu.max": `${cpuMax.quotaUs} ${cpuMax.periodUs}` }),
    ...(cpus !== undefined && { "cpuset.cpus": cpus }),
    ...(memoryMin !== undefined && { "memory.min": memoryFile(memoryMin) }),
    ...(memoryLow !== undefined && { "memory.low": memoryFile(memoryLow) }),
    ...(memoryMax !== undefined && { "memory.max": memoryFile(memoryMax) }),
    ...(pidsMax !== undefined && { "pids.max": String(pidsMax) }),
    ...Object.fromEntries(
      Object.entries(hugetlbMax).map(([size, limit]) => [
        `hugetlb.${size}.max`,
        limit === "max" ? limit : BigInt(limit).toString(),
      ]),
    ),
  };
}

/**
 * The files of a container: runc of Debian 13 converts shares by the kubelet's own linear formula. Its huge pages and
 * processes are not compared: containerd leaves the huge pages to the pod's cgroup by default, and systemd gives every
 * scope a limit of processes.
 */
function filesOfContainer(resources: LinuxContainerResources): CgroupFiles {
  const { cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes, unified } = resources;
  return withoutRuntimeDefaults({
    ...untouched,
    "cpu.weight": String(1n + ((cpuShares - 2n) * 9999n) / 262_142n),
    "cpu.max": `${cpuQuota > 0n ? cpuQuota : "max"} ${cpuPeriod}`,
    "memory.max": memoryLimitInBytes > 0n ? memoryFile(Number(memoryLimitInBytes)) : "max",
    ...unified,
  });
}

const withoutRuntimeDefaults = (files: CgroupFiles | undefined): CgroupFiles =>
  Object.fromEntries(Object.entries(files ?? {}).filter(([file]) => !/^(hugetlb|pids)\./.test(file)));

/** Those of a cgroup's files that are limits. */
function limitsOf(files: CgroupFiles | undefined): CgroupFiles | undefined {
  return files && Object.fromEntries(Object.keys(untouched).map((file) => [file, files[file] ?? "no such file"]));
}

function factsOf({ node }: CgroupRecording): NodeFacts {
  const memoryBytes = toNumber(parseQuantity(node.capacity["memory"] ?? "0"));
  return {
    ...nodeFacts,
    cgroupsPerQOS: true,
    memoryCapacityBytes: memoryBytes,
    swapCapacityBytes: 0,
    hugePageSizes: node.hugePageSizes,
  };
}

const levels = { Guaranteed: "kubepods", Burstable: "kubepods/burstable", BestEffort: "kubepods/besteffort" } as const;
const podOf = ({ spec }: RecordedPod) => ({ metadata: {}, spec });
/** An init container has ended, and its cgroup is gone. */
const isRunning = (container: Container, { spec }: RecordedPod) =>
  isSidecar(container) || spec.containers.includes(container);

for (const driver of ["systemd"] as const)
  describe(`the kubelet with ${driver}`, async () => {
    const recording = await readCgroupRecording(driver);
    const pods = Object.entries(recording.pods);

    test("a pod that is changed, new or removed makes the recording stale", () => {
      expect(staleCases(recording)).toEqual(unrecordedPods);
      const [[first] = [""]] = pods;
      const changed = { ...recording.pods, [first]: { ...recording.pods[first]!, hash: "" } };
      expect(staleCases({ pods: changed }).filter((name) => !unrecordedPods.includes(name))).toEqual([first]);
      expect(staleCases({ pods: recording.pods }, [])).toHaveLength(pods.length);
    });

    test("the QoS classes of the pods are those of the API server", () => {
      const classes = (of: (pod: RecordedPod) => string) => pods.map(([name, pod]) => `${name} ${of(pod)}`);
      expect(classes((pod) => qosClassOf(podOf(pod)))).toEqual(classes(({ qosClass }) => qosClass));
    });

    test.each(pods)("the cgroup of the pod %s", (name, pod) => {
      const limits = podCgroupLimits(podOf(pod), pod.qosClass, factsOf(recording));
      expect(limitsOf(recording.cgroups[`${levels[pod.qosClass]}/${name}`])).toEqual(filesOf(limits));
    });

    test.each(pods)("the cgroups of the containers of %s", (name, pod) => {
      const containers = nonEphemeralContainers(pod.spec).filter((container) => isRunning(container, pod));
      const expected = containers.map((container) => [
        container.name,
        filesOfContainer(containerResources(podOf(pod), container, pod.qosClass, factsOf(recording))),
      ]);
      const recorded = containers.map((container) => [
        container.name,
        withoutRuntimeDefaults(limitsOf(recording.cgroups[`${levels[pod.qosClass]}/${name}/${container.name}`])),
      ]);
      expect(recorded).toEqual(expected);
    });

    test("the cgroups above the pods", () => {
      const { hugePageSizes, onlineCpus, capacity, pids } = recording.node;
      const qos = qosCgroupLimits(
        pods.map(([, pod]) => qosRequestsOf(podOf(pod))),
        { hugePageSizes, memoryReservationPolicy: undefined },
      );
      const input = { capacity: { ...capacity, pid: String(pids) }, onlineCpus, hugePageSizes, memoryQoS: false };
      const kubepods = kubepodsLimits(input, { ...nodeSettings, enforceNodeAllocatable: ["pods"] });
      expect(Object.values(levels).map((level) => limitsOf(recording.cgroups[level]))).toEqual([
        filesOf({ ...kubepods, ...qos.kubepods }),
        // Its weight is that of all pods that were there.
        {
          ...filesOf(qos.burstable),
          ...(unrecordedPods.length > 0 && { "cpu.weight": recording.cgroups[levels.Burstable]?.["cpu.weight"] ?? "" }),
        },
        filesOf(qos.besteffort),
      ]);
    });
  });
