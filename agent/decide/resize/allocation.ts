import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import { isSidecar } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, PodSpec, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { parseResourceList, type ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import {
  compareQuantities,
  type ParsedQuantity,
  toMilli,
  toNumber,
} from "../../../proto/kubernetes/values/quantity.ts";

/*
 * A resize changes the spec of a running pod. Three versions of its resources follow each other:
 *
 *   spec ──the node accepts──► allocated ──the runtime and the pod's cgroup carry it out──► actuated
 *
 * What is allocated counts on the node and is what the pod's containers are created with, whatever the spec says by then.
 */

/** The resources of a pod that a resize may change. */
export interface ResizableResources {
  /** `spec.resources`; absent if the pod has none of its own. */
  readonly pod?: ResourceRequirements;
  /** By the name of the init or app container. */
  readonly containers: Readonly<Record<string, ResourceRequirements>>;
}

/** Why the node has not accepted a resize; `Deferred`: it tries again. */
export interface PendingResize {
  readonly reason: "Deferred" | "Infeasible";
  readonly message: string;
  /** `metadata.generation` of the spec that requests it. */
  readonly generation: number;
  /** Since when it has this reason; epoch milliseconds. */
  readonly since: number;
}

/** A resize that the node has accepted, and has not carried out completely. */
export interface StartedResize {
  /** `metadata.generation` of the spec that was accepted. */
  readonly generation: number;
  /** Why it cannot be carried out at present. */
  readonly error?: string;
  /** Since when it is in progress, or has an error; epoch milliseconds. */
  readonly since: number;
  /** The pod's limits that the runtime accepted last (UpdatePodSandboxResources); absent before the first call. */
  readonly sandboxLimits?: PodCgroupValues;
}

/** The limits of a pod's cgroup that a resize changes. */
export type PodCgroupValues = Required<Pick<CgroupLimits, "cpuWeight" | "cpuMax" | "memoryMax">>;

/** CPU in milli-CPUs and memory in bytes; 0 for none. */
export interface ContainerAmounts {
  readonly cpuRequest: number;
  readonly cpuLimit: number;
  readonly memoryRequest: number;
  readonly memoryLimit: number;
}

/**
 * The durable record of a pod's resources, written before the first action that depends on it. It outlives the agent:
 * neither the API server nor the runtime knows which resize was accepted.
 */
export interface PodAllocation {
  readonly allocated: ResizableResources;
  /**
   * What the newest instance of each container runs with, by the container's name: recorded before it is created, and
   * after each update that the runtime has accepted.
   */
  readonly actuated: Readonly<Record<string, ContainerAmounts>>;
  readonly pending?: PendingResize;
  readonly started?: StartedResize;
}

/** The record of a pod that the node admits: it gets what its spec requests. */
export function allocationOf({ spec }: Pick<Pod, "spec">): PodAllocation {
  return { allocated: resourcesOf(spec), actuated: {} };
}

/** The resources that a spec requests. */
export function resourcesOf({ initContainers = [], containers, resources }: PodSpec): ResizableResources {
  const entries = [...initContainers, ...containers].map((each) => [each.name, each.resources ?? {}] as const);
  return { ...(resources && { pod: resources }), containers: Object.fromEntries(entries) };
}

/** The pod with the resources that are allocated to it instead of those that its spec requests. */
export function withAllocated(pod: Pod, { pod: podLevel, containers }: ResizableResources): Pod {
  const allocate = (container: Container): Container => {
    const resources = Object.hasOwn(containers, container.name) ? containers[container.name] : container.resources;
    return { ...container, ...(resources && { resources }) };
  };
  const { resources: _requested, ...spec } = pod.spec;
  return {
    ...pod,
    spec: {
      ...spec,
      ...(podLevel && { resources: podLevel }),
      ...(spec.initContainers && { initContainers: spec.initContainers.map(allocate) }),
      containers: spec.containers.map(allocate),
    },
  };
}

/** Whether two versions are the same, whatever their notation: `100m` and `0.1`. */
export function areSameResources(one: ResizableResources, other: ResizableResources): boolean {
  const names = new Set([...Object.keys(one.containers), ...Object.keys(other.containers)]);
  return (
    areSameRequirements(one.pod, other.pod) &&
    [...names].every((name) => areSameRequirements(one.containers[name], other.containers[name]))
  );
}

function areSameRequirements(one: ResourceRequirements = {}, other: ResourceRequirements = {}): boolean {
  return areSameAmounts(one.requests, other.requests) && areSameAmounts(one.limits, other.limits);
}

/** Whether two resource lists have the same amounts. */
export function areSameAmounts(one: ResourceList = {}, other: ResourceList = {}): boolean {
  const [a, b] = [parseResourceList(one), parseResourceList(other)];
  return (
    a.size === b.size &&
    [...a].every(([name, amount]) => {
      const known = b.get(name);
      return known !== undefined && compareQuantities(amount, known) === 0;
    })
  );
}

/**
 * The containers whose resources change while they run: app containers and sidecars. An init container gets what is
 * allocated to it when it starts. Rule: the kubelet's isResizableContainer.
 */
export function resizableContainers({ initContainers = [], containers }: PodSpec): readonly Container[] {
  return [...initContainers.filter(isSidecar), ...containers];
}

const NONE: ParsedQuantity = { mantissa: 0n, exponent: 0, format: "DecimalSI" };

/**
 * What the runtime limits a container to. Where it has no limit, the pod's own is its limit. Rule: the kubelet's
 * containerResourcesFromRequirements.
 */
export function containerAmounts(
  { requests, limits }: ResourceRequirements = {},
  podLevel?: ResourceRequirements,
): ContainerAmounts {
  const [own, limit, ofPod] = [requests, limits, podLevel?.limits].map(parseResourceList);
  const limitOf = (name: string, inUnit: (amount: ParsedQuantity) => number) =>
    inUnit(limit?.get(name) ?? NONE) || inUnit(ofPod?.get(name) ?? NONE);
  return {
    cpuRequest: toMilli(own?.get("cpu") ?? NONE),
    cpuLimit: limitOf("cpu", toMilli),
    memoryRequest: toNumber(own?.get("memory") ?? NONE),
    memoryLimit: limitOf("memory", toNumber),
  };
}
