import type { HugepageLimit, LinuxContainerResources } from "../../../proto/cri/gen/api.ts";
import type { Container, Pod, PodQOSClass } from "../../../proto/kubernetes/gen/types.ts";
import { isCritical } from "../../../proto/kubernetes/priority.ts";
import { parseQuantity, toNumber } from "../../../proto/kubernetes/quantity.ts";
import type { NodeFacts } from "../node-facts.ts";
import { amountsOf, int64, linuxResources, oomScoreAdj } from "./linux-resources.ts";

/** Everything that the kernel is to hold a container to, with the kubelet's numbers. */
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
    // In version 1 it is memory and swap together; a container without a limit of memory has none of these two.
    memorySwapLimitInBytes: facts.limitsSwap && !facts.hasCgroupV2 ? resources.memoryLimitInBytes : 0n,
    unified: {
      ...resources.unified,
      ...(facts.limitsSwap && facts.hasCgroupV2 && { "memory.swap.max": String(swapBytes) }),
      ...pidsLimit(facts),
    },
  };
}

/** Of every size of pages that the kernel has: nothing, unless the container says so. */
function hugePageLimits({ resources }: Container, { hugePageSizes }: NodeFacts): HugepageLimit[] {
  const prefix = "hugepages-";
  const limits = new Map(
    Object.entries(resources?.limits ?? {})
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, amount]) => [toNumber(parseQuantity(name.slice(prefix.length))), amount]),
  );
  return hugePageSizes.map((pageBytes) => ({
    pageSize: hugePageName(pageBytes),
    limit: int64(toNumber(parseQuantity(limits.get(pageBytes) ?? "0"))),
  }));
}

/** As the kernel names its files: `2MB`, `1GB`. */
function hugePageName(pageBytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  const power = units.findLastIndex((_, index) => pageBytes % 1024 ** index === 0);
  return `${pageBytes / 1024 ** power}${units[power]}`;
}

/**
 * How much swap a container may have, under `LimitedSwap`: its share of the node's, as large as that of memory that it asks for. Containers
 * that are to have all their memory at hand get none, and so do those that ask for none or for all that they may have.
 * https://kubernetes.io/docs/concepts/cluster-administration/swap-memory-management/
 */
function swapLimit(pod: Pod, { resources }: Container, qosClass: PodQOSClass, facts: NodeFacts): number {
  const { memoryRequest = 0, memoryLimit = 0 } = amountsOf(resources);
  const isForSwap = facts.swapBehavior === "LimitedSwap" && qosClass === "Burstable" && !isCritical(pod);
  if (!isForSwap || memoryRequest === memoryLimit || memoryRequest > facts.memoryCapacityBytes) return 0;
  return Math.trunc((memoryRequest / facts.memoryCapacityBytes) * facts.swapCapacityBytes);
}

/** Larger ones the kernel refuses: it has no more processes than these. */
const MOST_PIDS = 4_194_304;

/** The pod as a whole has no cgroup of its own yet, so that each of its containers is held to what it may have. */
function pidsLimit({ hasCgroupV2, podPidsLimit }: NodeFacts): { readonly "pids.max"?: string } {
  if (!hasCgroupV2 || podPidsLimit <= 0 || podPidsLimit >= MOST_PIDS) return {};
  return { "pids.max": String(podPidsLimit) };
}
