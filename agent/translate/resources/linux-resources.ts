import { LinuxContainerResources } from "../../../proto/cri/gen/api.ts";
import { isSidecar, sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, PodQOSClass, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { isNodeCritical } from "../../../proto/kubernetes/priority.ts";
import { parseQuantity, toMilli, toNumber } from "../../../proto/kubernetes/quantity.ts";
import type { NodeFacts } from "../node-facts.ts";

/*
 * From milli-CPUs and bytes to what the kernel wants, with the kubelet's numbers: 1024 shares a CPU, at least 2, at most
 * 262144; a quota of at least 1 ms a period. The runtime turns shares into the weight of cgroup v2.
 */
const SHARES_PER_CPU = 1024;
const MIN_SHARES = 2;
const MAX_SHARES = 262_144;
const MIN_QUOTA_US = 1000;

/** CPU and memory of one container or of a whole pod: milli-CPUs and bytes; undefined where nothing is said. */
export interface Amounts {
  readonly cpuRequest: number | undefined;
  readonly cpuLimit: number | undefined;
  readonly memoryRequest: number | undefined;
  readonly memoryLimit: number | undefined;
}

/** Reads the quantities. Throws `QuantityError` for what is none, which validation has kept away. */
export function amountsOf(resources: ResourceRequirements | undefined): Amounts {
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
 * What the pod needs at its worst moment: all containers at once, or one of its init containers beside the sidecars before it. A limit
 * counts only when every container has one.
 * https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
 */
export function podAmounts({ spec }: Pod): Amounts {
  const { initContainers = [], containers } = spec;
  const moments = initContainers.map((container, index) => [
    ...initContainers.slice(0, index).filter(isSidecar),
    container,
  ]);
  const sums = [...moments, [...sidecarsOf(spec), ...containers]].map(sumOf);
  const most = (read: (sum: Amounts) => number | undefined) => {
    const values = sums.map(read);
    return values.includes(undefined) ? undefined : Math.max(...values.map((value) => value ?? 0));
  };
  return {
    cpuRequest: most(({ cpuRequest }) => cpuRequest),
    cpuLimit: most(({ cpuLimit }) => cpuLimit),
    memoryRequest: most(({ memoryRequest }) => memoryRequest),
    memoryLimit: most(({ memoryLimit }) => memoryLimit),
  };
}

function sumOf(containers: readonly Container[]): Amounts {
  const all = containers.map(({ resources }) => amountsOf(resources));
  const sum = (values: readonly (number | undefined)[]) =>
    values.reduce<number>((total, value) => total + (value ?? 0), 0);
  const whole = (values: readonly (number | undefined)[]) => (values.includes(undefined) ? undefined : sum(values));
  return {
    cpuRequest: sum(all.map(({ cpuRequest, cpuLimit }) => cpuRequest ?? cpuLimit)),
    cpuLimit: whole(all.map(({ cpuLimit }) => cpuLimit)),
    memoryRequest: sum(all.map(({ memoryRequest, memoryLimit }) => memoryRequest ?? memoryLimit)),
    memoryLimit: whole(all.map(({ memoryLimit }) => memoryLimit)),
  };
}

/** Resources for the kernel, without the OOM score. */
export function linuxResources(amounts: Amounts, facts: NodeFacts): LinuxContainerResources {
  const { cpuRequest, cpuLimit, memoryLimit } = amounts;
  const periodUs = Math.round(facts.cpuCFSQuotaPeriodMs * 1000);
  const hasQuota = facts.cpuCFSQuota && cpuLimit !== undefined && cpuLimit > 0;
  return LinuxContainerResources.fromPartial({
    cpuShares: BigInt(cpuShares(cpuRequest ?? cpuLimit ?? 0)),
    cpuPeriod: facts.cpuCFSQuota ? BigInt(periodUs) : 0n,
    cpuQuota: hasQuota ? int64(Math.max(Math.floor((cpuLimit * periodUs) / 1000), MIN_QUOTA_US)) : 0n,
    memoryLimitInBytes: int64(memoryLimit ?? 0),
    // Files of cgroup v2: a container that has lost one of its processes to the OOM killer is not left to go on with the others.
    unified: facts.hasCgroupV2 && !facts.singleProcessOOMKill ? { "memory.oom.group": "1" } : {},
  });
}

/** As far as the message can carry it: a quantity may be larger than any number of 64 bits. */
export function int64(value: number): bigint {
  return value >= 2 ** 63 ? 2n ** 63n - 1n : BigInt(value);
}

function cpuShares(milliCpu: number): number {
  return Math.min(Math.max(Math.floor((milliCpu * SHARES_PER_CPU) / 1000), MIN_SHARES), MAX_SHARES);
}

const GUARANTEED_SCORE = -997;
const BEST_EFFORT_SCORE = 1000;

/**
 * Whom the kernel kills first when memory runs out: BestEffort pods, then Burstable containers by how little of the node's
 * memory they asked for, never before the node's own daemons.
 * A sidecar is killed no sooner than the containers it is there for.
 * https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#node-out-of-memory-behavior
 */
export function oomScoreAdj(pod: Pod, container: Container, qosClass: PodQOSClass, facts: NodeFacts): number {
  if (isNodeCritical(pod) || qosClass === "Guaranteed") return GUARANTEED_SCORE;
  if (qosClass === "BestEffort") return BEST_EFFORT_SCORE;
  const memoryRequest = isSidecar(container)
    ? Math.max(memoryRequestOf(container), Math.min(...pod.spec.containers.map(memoryRequestOf)))
    : memoryRequestOf(container);
  const score = BEST_EFFORT_SCORE - Math.floor((BEST_EFFORT_SCORE * memoryRequest) / facts.memoryCapacityBytes);
  return Math.min(Math.max(score, BEST_EFFORT_SCORE + GUARANTEED_SCORE), BEST_EFFORT_SCORE - 1);
}

function memoryRequestOf({ resources }: Container): number {
  return amountsOf(resources).memoryRequest ?? 0;
}
