import { cpuWeight, MIN_CPU_WEIGHT } from "../../../proto/cgroup/cpu-units.ts";
import { unlimitedHugePages } from "../../../proto/cgroup/huge-pages.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { MemoryReservationPolicy } from "../../../proto/kubelet/config.ts";
import type { Pod, PodQOSClass } from "../../../proto/kubernetes/gen/types.ts";
import { podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { toAmounts } from "../../../proto/kubernetes/resource-list.ts";
import { qosClassOf } from "../status/qos.ts";

/** The QoS class and the requests of one active pod; CPU in milli-CPUs. */
export interface QosRequests {
  readonly qosClass: PodQOSClass;
  readonly milliCpu: number;
  readonly memoryBytes: number;
}

/** The limits that change with the pods of the node. */
export interface QosCgroups {
  /** Of the kubepods cgroup, beside those of `kubepodsLimits`; empty without MemoryQoS. */
  readonly kubepods: Pick<CgroupLimits, "memoryMin">;
  readonly burstable: CgroupLimits;
  readonly besteffort: CgroupLimits;
}

interface QosCgroupSettings {
  /** The kernel's huge page sizes, in bytes. */
  readonly hugePageSizes: readonly number[];
  /** Undefined while the feature gate `MemoryQoS` is off. */
  readonly memoryReservationPolicy: MemoryReservationPolicy | undefined;
}

/**
 * What a pod's spec requests, accepted or not, as the kubelet's GetActivePods has it. An unreadable quantity counts as
 * zero.
 */
export function qosRequestsOf(pod: Pod): QosRequests {
  const requests = toAmounts(podRequests(pod.spec));
  return {
    qosClass: qosClassOf(pod),
    milliCpu: Number(requests.get("cpu") ?? 0n),
    memoryBytes: Number(requests.get("memory") ?? 0n),
  };
}

/**
 * The limits of the cgroups of the QoS classes: burstable has the weight of what its active pods request together,
 * besteffort the smallest. Neither has another limit: no file of memory and processes is written, and huge pages are
 * unlimited. Guaranteed pods have no cgroup in common, so kubepods protects the memory of all pods: a parent's protection
 * has to cover that of its children. Rule: the kubelet's setCPUCgroupConfig, setHugePagesConfig and setMemoryQoS.
 */
export function qosCgroupLimits(
  requestsOfPods: Iterable<QosRequests>,
  { hugePageSizes, memoryReservationPolicy }: QosCgroupSettings,
): QosCgroups {
  const burstable = { milliCpu: 0, memoryBytes: 0 };
  let guaranteedBytes = 0;
  for (const { qosClass, milliCpu, memoryBytes } of requestsOfPods) {
    if (qosClass === "Guaranteed") guaranteedBytes += memoryBytes;
    if (qosClass !== "Burstable") continue;
    burstable.milliCpu += milliCpu;
    burstable.memoryBytes += memoryBytes;
  }
  const hugetlbMax = unlimitedHugePages(hugePageSizes);
  const isTiered = memoryReservationPolicy === "TieredReservation";
  const protectsMemory = memoryReservationPolicy !== undefined;
  return {
    kubepods: protectsMemory ? { memoryMin: isTiered ? guaranteedBytes + burstable.memoryBytes : 0 } : {},
    burstable: {
      cpuWeight: cpuWeight(burstable.milliCpu),
      ...(protectsMemory && { memoryLow: isTiered ? burstable.memoryBytes : 0 }),
      hugetlbMax,
    },
    besteffort: { cpuWeight: MIN_CPU_WEIGHT, hugetlbMax },
  };
}
