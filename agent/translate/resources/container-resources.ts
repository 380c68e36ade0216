import { hugePageBytes, hugePageName } from "../../../proto/cgroup/huge-pages.ts";
import type { MemoryQoS } from "../../../proto/cgroup/memory-qos.ts";
import { pidsMax } from "../../../proto/cgroup/pids-limit.ts";
import type { HugepageLimit, LinuxContainerResources } from "../../../proto/cri/gen/api.ts";
import type { Container, Pod, PodQOSClass } from "../../../proto/kubernetes/gen/types.ts";
import { parseResourceList } from "../../../proto/kubernetes/resource-list.ts";
import { mayUseSwap } from "../../../proto/kubernetes/swap.ts";
import type { NodeFacts } from "../node-facts.ts";
import { amountsOf, int64, type LinuxAmounts, linuxResources, oomScoreAdj } from "./linux-resources.ts";

/**
 * All limits that the kernel enforces on a container, with the kubelet's numbers. `pod` and `container` have the
 * resources that are allocated to them. Where the container has no limit, the pod's own is its limit.
 */
export function containerResources(
  pod: Pod,
  container: Container,
  qosClass: PodQOSClass,
  facts: NodeFacts,
): LinuxContainerResources {
  const resources = linuxResources(withPodLimits(amountsOf(container.resources), pod), facts);
  const swapBytes = swapLimit(pod, container, qosClass, facts);
  return {
    ...resources,
    oomScoreAdj: BigInt(oomScoreAdj(pod, container, qosClass, facts)),
    hugepageLimits: hugePageLimits(pod, container, facts),
    // cgroup v1 limits memory and swap together. A container without a memory limit gets neither.
    memorySwapLimitInBytes: facts.limitsSwap && !facts.hasCgroupV2 ? resources.memoryLimitInBytes : 0n,
    unified: {
      ...resources.unified,
      ...(facts.limitsSwap && facts.hasCgroupV2 && { "memory.swap.max": String(swapBytes) }),
      ...pidsLimit(facts),
      ...(facts.hasCgroupV2 && facts.memoryQoS && memoryFiles(container, qosClass, facts.memoryQoS, facts)),
    },
  };
}

/** A limit of 0 counts as absent. Rule: the kubelet's getCPULimit and getMemoryLimit (KEP-2837). */
function withPodLimits(own: LinuxAmounts, { spec }: Pod): LinuxAmounts {
  const { cpuLimit, memoryLimit } = amountsOf(spec.resources);
  return { ...own, cpuLimit: own.cpuLimit || cpuLimit, memoryLimit: own.memoryLimit || memoryLimit };
}

/** One limit for each huge page size of the kernel: the container's, else that of the pod itself, else 0. */
function hugePageLimits({ spec }: Pod, { resources }: Container, { hugePageSizes }: NodeFacts): HugepageLimit[] {
  const limits = new Map(
    [spec.resources, resources].flatMap((each) => [...hugePageBytes(parseResourceList(each?.limits))]),
  );
  return hugePageSizes.map((pageBytes) => ({
    pageSize: hugePageName(pageBytes),
    limit: int64(limits.get(pageBytes) ?? 0),
  }));
}

/**
 * The files of MemoryQoS. The kernel throttles the container (`memory.high`) when it uses the given part of what lies
 * between its request and its limit, or of what pods may use of the node if it has none; not where the two are equal. With
 * TieredReservation the kernel does not reclaim what it requests.
 * https://git.k8s.io/enhancements/keps/sig-node/2570-memory-qos
 */
function memoryFiles(
  { resources }: Container,
  qosClass: PodQOSClass,
  { throttlingFactor, reservationPolicy }: MemoryQoS,
  { allocatable, pageBytes }: NodeFacts,
): Readonly<Record<string, string>> {
  const { memoryRequest = 0, memoryLimit = 0 } = amountsOf(resources);
  const isReserved = memoryRequest !== 0 && reservationPolicy === "TieredReservation";
  const reserved = qosClass === "Guaranteed" ? "memory.min" : "memory.low";
  const ceiling = memoryLimit || Number(allocatable.get("memory") ?? 0n);
  const throttled = memoryRequest + (ceiling - memoryRequest) * throttlingFactor;
  const high = Math.floor(throttled / pageBytes) * pageBytes;
  const isThrottled = memoryRequest !== memoryLimit && ceiling > 0 && high > memoryRequest;
  return {
    ...(isReserved ? { [reserved]: String(memoryRequest) } : { "memory.min": "0", "memory.low": "0" }),
    ...(isThrottled && { "memory.high": String(high) }),
  };
}

/**
 * The swap limit in bytes under `LimitedSwap`: the same share of the node's swap as the container requests of the
 * node's memory. It is 0 for containers that request no memory or request exactly their limit, and for pods that are
 * critical or not Burstable.
 * https://kubernetes.io/docs/concepts/cluster-administration/swap-memory-management/
 */
function swapLimit(pod: Pod, container: Container, qosClass: PodQOSClass, facts: NodeFacts): number {
  const { memoryRequest = 0 } = amountsOf(container.resources);
  const { swapBehavior, memoryCapacityBytes, swapCapacityBytes } = facts;
  if (swapBehavior !== "LimitedSwap" || !mayUseSwap(pod, container, qosClass)) return 0;
  return memoryRequest > memoryCapacityBytes
    ? 0
    : Math.trunc((memoryRequest / memoryCapacityBytes) * swapCapacityBytes);
}

/** Without a cgroup of the pod, each of its containers gets the pod's limit. */
function pidsLimit({ hasCgroupV2, podPidsLimit, cgroupsPerQOS }: NodeFacts): { readonly "pids.max"?: string } {
  const limit = pidsMax(podPidsLimit);
  return hasCgroupV2 && !cgroupsPerQOS && limit !== "max" ? { "pids.max": String(limit) } : {};
}
