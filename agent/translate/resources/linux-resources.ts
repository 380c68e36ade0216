import { cpuQuotaUs, cpuShares } from "../../../proto/cgroup/cpu-units.ts";
import { LinuxContainerResources } from "../../../proto/cri/gen/api.ts";
import { isSidecar, nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, PodQOSClass, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { podLimits, podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { isNodeCritical } from "../../../proto/kubernetes/priority.ts";
import { toAmounts } from "../../../proto/kubernetes/resource-list.ts";
import { parseQuantity, toMilli, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import type { NodeFacts } from "../node-facts.ts";

/** CPU in milli-CPUs and memory in bytes, of one container or a whole pod; undefined where unset. */
export interface LinuxAmounts {
  readonly cpuRequest: number | undefined;
  readonly cpuLimit: number | undefined;
  readonly memoryRequest: number | undefined;
  readonly memoryLimit: number | undefined;
}

/** Parses the quantities. Throws `QuantityError` for an invalid one, which validation has excluded. */
export function amountsOf(resources: ResourceRequirements | undefined): LinuxAmounts {
  const milli = (text: string | undefined) => (text === undefined ? undefined : toMilli(parseQuantity(text)));
  const bytes = (text: string | undefined) => (text === undefined ? undefined : toNumber(parseQuantity(text)));
  return {
    cpuRequest: milli(resources?.requests?.["cpu"]),
    cpuLimit: milli(resources?.limits?.["cpu"]),
    memoryRequest: bytes(resources?.requests?.["memory"]),
    memoryLimit: bytes(resources?.limits?.["memory"]),
  };
}

/**
 * The resources of a pod for its sandbox, by which a runtime may size a virtual machine: the sums of what its containers
 * have set, even if some have no limit. CRI carries the overhead in a field of its own. Rule: the kubelet's
 * calculateSandboxResources.
 */
export function podAmounts({ spec }: Pod): LinuxAmounts {
  const requests = toAmounts(podRequests(spec, { excludesOverhead: true }));
  const limits = toAmounts(podLimits(spec, { excludesOverhead: true }));
  const numberOf = (amount: bigint | undefined) => (amount === undefined ? undefined : Number(amount));
  return {
    cpuRequest: numberOf(requests.get("cpu")),
    cpuLimit: numberOf(limits.get("cpu")),
    memoryRequest: numberOf(requests.get("memory")),
    memoryLimit: numberOf(limits.get("memory")),
  };
}

/**
 * Converts amounts to the CRI message, without the OOM score. The runtime converts the shares to the `cpu.weight` of
 * cgroup v2.
 */
export function linuxResources(amounts: LinuxAmounts, facts: NodeFacts): LinuxContainerResources {
  const { cpuRequest, cpuLimit, memoryLimit } = amounts;
  const periodUs = Math.round(facts.cpuCFSQuotaPeriodMs * 1000);
  const hasQuota = facts.cpuCFSQuota && cpuLimit !== undefined && cpuLimit > 0;
  return LinuxContainerResources.fromPartial({
    cpuShares: BigInt(cpuShares(cpuRequest ?? cpuLimit ?? 0)),
    cpuPeriod: facts.cpuCFSQuota ? BigInt(periodUs) : 0n,
    cpuQuota: hasQuota ? int64(cpuQuotaUs(cpuLimit, periodUs)) : 0n,
    memoryLimitInBytes: int64(memoryLimit ?? 0),
    // cgroup v2: when the OOM killer kills one process of a container, it kills all of them.
    unified: facts.hasCgroupV2 && !facts.singleProcessOOMKill ? { "memory.oom.group": "1" } : {},
  });
}

/** Clamps to the largest int64, since a quantity may exceed 64 bits. */
export function int64(value: number): bigint {
  return value >= 2 ** 63 ? 2n ** 63n - 1n : BigInt(value);
}

const GUARANTEED_OOM_SCORE = -997;
const BEST_EFFORT_OOM_SCORE = 1000;

/**
 * The order in which the OOM killer chooses containers: BestEffort first, then Burstable by the smallest memory request
 * relative to the node, Guaranteed and node-critical last, all before the node's own daemons. A sidecar is killed no
 * sooner than the main container with the smallest request. What the pod itself requests beyond its containers counts
 * for all of them in equal parts. `pod` and `container` have the resources that are allocated to them.
 * https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#node-out-of-memory-behavior
 */
export function oomScoreAdj(
  pod: Pod,
  container: Container,
  qosClass: PodQOSClass,
  { memoryCapacityBytes }: Pick<NodeFacts, "memoryCapacityBytes">,
): number {
  if (isNodeCritical(pod) || qosClass === "Guaranteed") return GUARANTEED_OOM_SCORE;
  if (qosClass === "BestEffort") return BEST_EFFORT_OOM_SCORE;
  const ownRequest = isSidecar(container)
    ? Math.max(memoryRequestOf(container), Math.min(...pod.spec.containers.map(memoryRequestOf)))
    : memoryRequestOf(container);
  const memoryRequest = ownRequest + spareRequestOf(pod);
  const score = BEST_EFFORT_OOM_SCORE - Math.floor((BEST_EFFORT_OOM_SCORE * memoryRequest) / memoryCapacityBytes);
  return Math.min(Math.max(score, BEST_EFFORT_OOM_SCORE + GUARANTEED_OOM_SCORE), BEST_EFFORT_OOM_SCORE - 1);
}

function memoryRequestOf({ resources }: Container): number {
  return amountsOf(resources).memoryRequest ?? 0;
}

/**
 * Each container's share, in bytes, of what the pod itself requests beyond the most that its containers request together.
 * Rule: KEP-2837, "OOM score adjustment".
 */
function spareRequestOf({ spec }: Pod): number {
  const { memoryRequest = 0 } = amountsOf(spec.resources);
  if (memoryRequest === 0) return 0;
  const ofContainers =
    toAmounts(podRequests(spec, { skipsPodLevel: true, excludesOverhead: true })).get("memory") ?? 0n;
  return Math.trunc((memoryRequest - Number(ofContainers)) / nonEphemeralContainers(spec).length);
}
