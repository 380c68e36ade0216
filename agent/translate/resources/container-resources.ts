import type { HugepageLimit, LinuxContainerResources } from "../../../proto/cri/gen/api.ts";
import type { Container, Pod, PodQOSClass } from "../../../proto/kubernetes/gen/types.ts";
import { isCritical } from "../../../proto/kubernetes/priority.ts";
import { HUGE_PAGES_PREFIX, isHugePages } from "../../../proto/kubernetes/resource-list.ts";
import { parseQuantity, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import type { NodeFacts } from "../node-facts.ts";
import { amountsOf, int64, linuxResources, oomScoreAdj } from "./linux-resources.ts";

/** All limits that the kernel enforces on a container, with the kubelet's numbers. */
export function containerResources(
  pod: Pod,
  container: Container,
  qosClass: PodQOSClass,
  facts: NodeFacts,
): LinuxContainerResources {
  const resources = linuxResources(amountsOf(container.resources), facts);
  const swapBytes = swapLimit(pod, container, qosClass, facts);
  return {
    ...resources,
    oomScoreAdj: BigInt(oomScoreAdj(pod, container, qosClass, facts)),
    hugepageLimits: hugePageLimits(container, facts),
    // cgroup v1 limits memory and swap together. A container without a memory limit gets neither.
    memorySwapLimitInBytes: facts.limitsSwap && !facts.hasCgroupV2 ? resources.memoryLimitInBytes : 0n,
    unified: {
      ...resources.unified,
      ...(facts.limitsSwap && facts.hasCgroupV2 && { "memory.swap.max": String(swapBytes) }),
      ...pidsLimit(facts),
    },
  };
}

/** One limit for each huge page size of the kernel; 0 unless the container sets one. */
function hugePageLimits({ resources }: Container, { hugePageSizes }: NodeFacts): HugepageLimit[] {
  const limits = new Map(
    Object.entries(resources?.limits ?? {})
      .filter(([name]) => isHugePages(name))
      .map(([name, amount]) => [toNumber(parseQuantity(name.slice(HUGE_PAGES_PREFIX.length))), amount]),
  );
  return hugePageSizes.map((pageBytes) => ({
    pageSize: hugePageName(pageBytes),
    limit: int64(toNumber(parseQuantity(limits.get(pageBytes) ?? "0"))),
  }));
}

/** Formats a page size as the kernel names its hugetlb files: `2MB`, `1GB`. */
function hugePageName(pageBytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  const power = units.findLastIndex((_, index) => pageBytes % 1024 ** index === 0);
  return `${pageBytes / 1024 ** power}${units[power]}`;
}

/**
 * The swap limit in bytes under `LimitedSwap`: the same share of the node's swap as the container requests of the
 * node's memory. It is 0 for containers that request no memory or request exactly their limit, and for pods that are
 * critical or not Burstable.
 * https://kubernetes.io/docs/concepts/cluster-administration/swap-memory-management/
 */
function swapLimit(pod: Pod, { resources }: Container, qosClass: PodQOSClass, facts: NodeFacts): number {
  const { memoryRequest = 0, memoryLimit = 0 } = amountsOf(resources);
  const mayUseSwap = facts.swapBehavior === "LimitedSwap" && qosClass === "Burstable" && !isCritical(pod);
  if (!mayUseSwap || memoryRequest === memoryLimit || memoryRequest > facts.memoryCapacityBytes) return 0;
  return Math.trunc((memoryRequest / facts.memoryCapacityBytes) * facts.swapCapacityBytes);
}

/** PID_MAX_LIMIT of a 64-bit kernel, which rejects a larger `pids.max`. */
const MAX_PIDS = 4_194_304;

/** The pod has no cgroup of its own yet, so each of its containers gets the pod's limit. */
function pidsLimit({ hasCgroupV2, podPidsLimit }: NodeFacts): { readonly "pids.max"?: string } {
  if (!hasCgroupV2 || podPidsLimit <= 0 || podPidsLimit >= MAX_PIDS) return {};
  return { "pids.max": String(podPidsLimit) };
}
