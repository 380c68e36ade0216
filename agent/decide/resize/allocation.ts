import type { ResizableLimits } from "../../../proto/cgroup/limits.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import { isJsonEqual } from "../../../proto/json-equal.ts";
import type { ContainerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import { isSidecar } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, PodSpec, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { parseResourceList, type ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import { compareQuantities } from "../../../proto/kubernetes/values/quantity.ts";

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
  readonly sandboxLimits?: ResizableLimits;
}

/** What one instance of a container runs with, by the last update that the runtime has accepted. */
export interface ActuatedInstance {
  readonly id: ContainerId;
  readonly amounts: ContainerAmounts;
}

/**
 * The durable record of a pod's resources. It outlives the agent: neither the API server nor the runtime knows which
 * resize was accepted. An agent that dies before it is saved decides again, and repeats an update.
 */
export interface PodAllocation {
  readonly allocated: ResizableResources;
  /**
   * By the name of the container: its instance that was updated, or that another agent has created. Any other instance
   * carries what it was created with (`amountsAnnotation`).
   */
  readonly actuated: Readonly<Record<string, ActuatedInstance>>;
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
    const isSame = resources === container.resources || (container.resources === undefined && isEmpty(resources));
    return isSame ? container : { ...container, ...(resources && { resources }) };
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

const isEmpty = (value: object | undefined) => Object.keys(value ?? {}).length === 0;

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
  if (isJsonEqual(one, other)) return true;
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
