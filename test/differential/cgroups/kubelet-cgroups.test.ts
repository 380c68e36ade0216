// What Berth computes for the cgroups of pods and shows in their statuses, against the reference kubelet for the same pods.
import { describe, expect, test } from "bun:test";
import { kubepodsLimits } from "../../../agent/decide/cgroups/node-cgroups.ts";
import { podCgroupLimits } from "../../../agent/decide/cgroups/pod-cgroup.ts";
import { qosCgroupLimits, qosRequestsOf } from "../../../agent/decide/cgroups/qos-cgroups.ts";
import { resourcesOfInstance } from "../../../agent/decide/status/container-resources.ts";
import { qosClassOf } from "../../../agent/decide/status/qos.ts";
import { toObservedContainer } from "../../../agent/observed/pods/from-cri.ts";
import type { NodeFacts } from "../../../agent/translate/node-facts.ts";
import { containerResources } from "../../../agent/translate/resources/container-resources.ts";
import { systemdLimits } from "../../../cgroups/systemd/unit-properties.ts";
import type { CgroupLimits, Limit } from "../../../proto/cgroup/limits.ts";
import { ContainerState, ContainerStatus, type LinuxContainerResources } from "../../../proto/cri/gen/api.ts";
import type { SandboxId } from "../../../proto/ids.ts";
import { containerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import { isSidecar, nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { parseQuantity, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import { amountsAnnotation } from "../../../proto/kubernetes/well-known-names.ts";
import { nodeFacts } from "../../fakes/node-facts.ts";
import { nodeSettings } from "../../fakes/observed-node.ts";
import type { CgroupDriver } from "../../vm/node/system-files.ts";
import { cgroupBatches, cgroupPods } from "./cgroup-cases.ts";
import { type RecordedBatch, type RecordedPod, readCgroupRecording, staleBatches } from "./cgroup-recording.ts";
import type { CgroupFiles } from "./cgroup-tree.ts";
import { resizePods } from "./resize-cases.ts";

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

/**
 * Those of a cgroup's files that are limits. runc turns on the cpuset controller for the levels above a container; before the
 * first one they have no limit of CPUs and no such file.
 */
function limitsOf(files: CgroupFiles | undefined): CgroupFiles | undefined {
  if (files === undefined) return undefined;
  const { "cpuset.cpus": cpus = "" } = files;
  const known: CgroupFiles = { ...files, "cpuset.cpus": cpus };
  return Object.fromEntries(Object.keys(untouched).map((file) => [file, known[file] ?? "no such file"]));
}

function factsOf({ node }: RecordedBatch): NodeFacts {
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

/** What the agent observes of a running container: the runtime reports the resources that it was given. */
function observe(container: Container, pod: RecordedPod, batch: RecordedBatch) {
  const linux = containerResources(podOf(pod), container, pod.qosClass, factsOf(batch));
  const amounts = containerAmounts(container.resources, pod.spec.resources);
  const status = ContainerStatus.fromPartial({
    state: ContainerState.CONTAINER_RUNNING,
    resources: { linux },
    annotations: { [amountsAnnotation]: JSON.stringify(amounts) },
  });
  return toObservedContainer(status, "sandbox" as SandboxId);
}

test("every pod belongs to a batch", () => {
  const names = (pods: readonly Pod[]) => pods.map(({ metadata }) => metadata.name ?? "").toSorted();
  expect(names(Object.values(cgroupBatches).flat())).toEqual(names([...cgroupPods, ...resizePods]));
});

for (const driver of ["systemd", "cgroupfs"] as const)
  describe(`the kubelet with ${driver}`, async () => {
    const recording = await readCgroupRecording(driver);

    test("a batch whose pods are changed, new or removed is stale", () => {
      const { none = [], ...others } = cgroupBatches;
      expect(staleBatches(recording)).toEqual([]);
      const [[name, [first, ...rest]] = ["", []]] = Object.entries(others);
      const changed = { ...first!, spec: { ...first!.spec, hostNetwork: false } };
      for (const pods of [[changed, ...rest], rest, [first!, first!, ...rest]])
        expect(staleBatches(recording, { none, ...others, [name]: pods })).toEqual([name]);
      expect(staleBatches(recording, others)).toEqual(["none"]);
    });

    for (const [name, batch] of Object.entries(recording.batches)) describe(name, () => compareBatch(batch, driver));
  });

/** What Berth computes for the pods of a batch and for the levels above them. */
function compareBatch(batch: RecordedBatch, driver: CgroupDriver): void {
  const possible = (limits: CgroupLimits) => (driver === "systemd" ? systemdLimits(limits) : limits);
  const pods = Object.entries(batch.pods);
  if (pods.length > 0) {
    test("the QoS classes of the pods are those of the API server", () => {
      const classes = (of: (pod: RecordedPod) => string) => pods.map(([name, pod]) => `${name} ${of(pod)}`);
      expect(classes((pod) => qosClassOf(podOf(pod)))).toEqual(classes(({ qosClass }) => qosClass));
    });

    test.each(pods)("the cgroup of the pod %s", (name, pod) => {
      const limits = podCgroupLimits(podOf(pod), pod.qosClass, factsOf(batch));
      expect(limitsOf(batch.cgroups[`${levels[pod.qosClass]}/${name}`])).toEqual(filesOf(possible(limits)));
    });

    test.each(pods)("the cgroups of the containers of %s", (name, pod) => {
      const containers = nonEphemeralContainers(pod.spec).filter((container) => isRunning(container, pod));
      const expected = containers.map((container) => [
        container.name,
        filesOfContainer(containerResources(podOf(pod), container, pod.qosClass, factsOf(batch))),
      ]);
      const recorded = containers.map((container) => [
        container.name,
        withoutRuntimeDefaults(limitsOf(batch.cgroups[`${levels[pod.qosClass]}/${name}/${container.name}`])),
      ]);
      expect(recorded).toEqual(expected);
    });

    test.each(pods)("the resources in the status of %s", (_, pod) => {
      const containers = nonEphemeralContainers(pod.spec).filter((container) => isRunning(container, pod));
      const shown = containers.map((container) => [
        container.name,
        resourcesOfInstance(container, observe(container, pod, batch)),
      ]);
      const recorded = Object.entries(pod.status.containers).map(([container, { restartCount: _, ...resources }]) => [
        container,
        resources,
      ]);
      expect(Object.fromEntries(shown)).toEqual(Object.fromEntries(recorded));
    });
  }

  test("the cgroups above the pods", () => {
    const { hugePageSizes, onlineCpus, capacity, pids } = batch.node;
    const qos = qosCgroupLimits(
      pods.map(([, pod]) => qosRequestsOf(podOf(pod))),
      { hugePageSizes, memoryReservationPolicy: undefined },
    );
    const input = { capacity: { ...capacity, pid: String(pids) }, onlineCpus, hugePageSizes, memoryQoS: false };
    const kubepods = kubepodsLimits(input, { ...nodeSettings, enforceNodeAllocatable: ["pods"] });
    expect(Object.values(levels).map((level) => limitsOf(batch.cgroups[level]))).toEqual([
      filesOf({ ...kubepods, ...qos.kubepods }),
      filesOf(qos.burstable),
      filesOf(qos.besteffort),
    ]);
  });
}
