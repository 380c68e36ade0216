import { LinuxContainerResources } from "../../../proto/cri/gen/api.ts";
import { isSidecar } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, PodQOSClass, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { podLimits, podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { isNodeCritical } from "../../../proto/kubernetes/priority.ts";
import { toAmounts } from "../../../proto/kubernetes/resource-list.ts";
import { parseQuantity, toMilli, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import type { NodeFacts } from "../node-facts.ts";

/*
 * The kubelet's conversion to cgroup units: 1024 shares per CPU, between 2 and 262144; a quota of at least 1 ms per
 * period. The runtime converts shares to the `cpu.weight` of cgroup v2.
 */
const SHARES_PER_CPU = 1024;
const MIN_SHARES = 2;
const MAX_SHARES = 262_144;
const MIN_QUOTA_US = 1000;

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

/** Converts amounts to the CRI message, without the OOM score. */
export function linuxResources(amounts: LinuxAmounts, facts: NodeFacts): LinuxContainerResources {
  const { cpuRequest, cpuLimit, memoryLimit } = amounts;
  const periodUs = Math.round(facts.cpuCFSQuotaPeriodMs * 1000);
  const hasQuota = facts.cpuCFSQuota && cpuLimit !== undefined && cpuLimit > 0;
  return LinuxContainerResources.fromPartial({
    cpuShares: BigInt(cpuShares(cpuRequest ?? cpuLimit ?? 0)),
    cpuPeriod: facts.cpuCFSQuota ? BigInt(periodUs) : 0n,
    cpuQuota: hasQuota ? int64(Math.max(Math.floor((cpuLimit * periodUs) / 1000), MIN_QUOTA_US)) : 0n,
    memoryLimitInBytes: int64(memoryLimit ?? 0),
    // cgroup v2: when the OOM killer kills one process of a container, it kills all of them.
    unified: facts.hasCgroupV2 && !facts.singleProcessOOMKill ? { "memory.oom.group": "1" } : {},
  });
}

/** Clamps to the largest int64, since a quantity may exceed 64 bits. */
export function int64(value: number): bigint {
  return value >= 2 ** 63 ? 2n ** 63n - 1n : BigInt(value);
}

function cpuShares(milliCpu: number): number {
  return Math.min(Math.max(Math.floor((milliCpu * SHARES_PER_CPU) / 1000), MIN_SHARES), MAX_SHARES);
}

const GUARANTEED_OOM_SCORE = -997;
const BEST_EFFORT_OOM_SCORE = 1000;

/**
 * The order in which the OOM killer chooses containers: BestEffort first, then Burstable by the smallest memory request
 * relative to the node, Guaranteed and node-critical last, all before the node's own daemons. A sidecar is killed no
 * sooner than the main container with the smallest request.
 * https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#node-out-of-memory-behavior
 */
export function oomScoreAdj(pod: Pod, container: Container, qosClass: PodQOSClass, facts: NodeFacts): number {
  if (isNodeCritical(pod) || qosClass === "Guaranteed") return GUARANTEED_OOM_SCORE;
  if (qosClass === "BestEffort") return BEST_EFFORT_OOM_SCORE;
  const memoryRequest = isSidecar(container)
    ? Math.max(memoryRequestOf(container), Math.min(...pod.spec.containers.map(memoryRequestOf)))
    : memoryRequestOf(container);
  const score = BEST_EFFORT_OOM_SCORE - Math.floor((BEST_EFFORT_OOM_SCORE * memoryRequest) / facts.memoryCapacityBytes);
  return Math.min(Math.max(score, BEST_EFFORT_OOM_SCORE + GUARANTEED_OOM_SCORE), BEST_EFFORT_OOM_SCORE - 1);
}

function memoryRequestOf({ resources }: Container): number {
  return amountsOf(resources).memoryRequest ?? 0;
}
