import type { CgroupLimits, Limit, ResizableLimits } from "../../../proto/cgroup/limits.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import { type ContainerAmounts, containerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { describeLimits } from "../cgroups/limit-differences.ts";
import { type PodAllocation, resizableContainers } from "./allocation.ts";
import { restartsFor } from "./resize-verdict.ts";

/*
 * How the allocated resources of a running pod are carried out, memory before CPU. Of each:
 *
 *   pod limit up → pod request up → containers: decreases, then increases → pod request down → pod limit down
 *
 * So the pod's cgroup never has less than its containers, and its request is never above its limit. The list is computed
 * again after each step from what is left to be done; the first step of it is the next one. An agent that dies between two
 * steps goes on with the same list. Rule: the kubelet's computePodResizeAction and doPodResizeAction.
 */

/** One outside call of a resize. */
export type ResizeStep =
  /** Ends a container whose `resizePolicy` wants a restart. Its next instance is created with what is allocated. */
  | { readonly kind: "stopContainer"; readonly name: string; readonly id: ContainerId; readonly why: string }
  /** Informs the runtime, which may refuse, of what the pod's cgroup is about to limit. */
  | { readonly kind: "updatePodSandboxResources"; readonly limits: ResizableLimits }
  | { readonly kind: "writePodCgroup"; readonly limits: CgroupLimits }
  | {
      readonly kind: "updateContainerResources";
      readonly name: string;
      readonly id: ContainerId;
      /** All that the runtime limits it to after the step. */
      readonly amounts: ContainerAmounts;
    };

type Resource = "memory" | "cpu";

export interface ResizeStepsInput {
  /** With the resources that are allocated to it. */
  readonly pod: Pod;
  readonly allocation: PodAllocation;
  /** The running instances of its containers. Others get what is allocated when they are created. */
  readonly running: readonly RunningInstance[];
  /** What the pod's cgroup has and shall have; undefined if the pod has no cgroup of its own. */
  readonly podCgroup: { readonly current: ResizableLimits; readonly target: ResizableLimits } | undefined;
  /** How many bytes of memory are in use; absent where it could not be read. */
  readonly memoryUsage: { readonly pod?: number; readonly containers: Readonly<Record<string, number>> };
}

export interface RunningInstance {
  readonly name: string;
  readonly id: ContainerId;
  /** What it runs with. */
  readonly amounts: ContainerAmounts;
}

/** The steps in their order, none if nothing is left to be done; or why no step is taken at present. */
export type ResizePlan = { readonly steps: readonly ResizeStep[] } | { readonly problem: string };

/** A running container whose resources are not those that are allocated to it. */
interface ContainerChange {
  readonly name: string;
  readonly id: ContainerId;
  readonly current: ContainerAmounts;
  readonly desired: ContainerAmounts;
}

/**
 * Plans a resize. Before a memory limit is lowered, its cgroup must use less: the kernel would kill a process to reach the
 * limit. This is checked before the first step, so that a resize is not left half done, but after the stops of containers
 * that restart, which free their memory. Before these stops the pod's cgroup grows; the rest follows after them. A pod whose resources are all
 * carried out has no steps, even if another program has changed its cgroup: that is repaired elsewhere.
 */
export function planResize(input: ResizeStepsInput): ResizePlan {
  const { allocation, podCgroup } = input;
  const { restarts, updates } = changesOf(input);
  if (restarts.length + updates.length === 0 && allocation.started === undefined) return { steps: [] };
  const problem = restarts.length > 0 ? undefined : memoryProblem(input, updates);
  if (problem !== undefined) return { problem };
  const pod = podCgroup && createPodSteps(podCgroup.current, podCgroup.target, allocation.started?.sandboxLimits);
  // The next instance of a container that restarts starts in the pod's cgroup.
  if (restarts.length > 0)
    return { steps: [...(pod?.raise("memory") ?? []), ...(pod?.raise("cpu") ?? []), ...restarts] };
  const containers = new Map(updates.map((each) => [each.name, each.current]));
  const steps = (["memory", "cpu"] as const).flatMap((resource) => [
    ...(pod?.raise(resource) ?? []),
    ...containerSteps(resource, updates, containers),
    ...(pod?.lower(resource) ?? []),
  ]);
  return { steps };
}

/** The record after a step has succeeded. */
export function withStep(allocation: PodAllocation, step: ResizeStep): PodAllocation {
  const { actuated, started } = allocation;
  switch (step.kind) {
    case "updateContainerResources":
      return { ...allocation, actuated: { ...actuated, [step.name]: { id: step.id, amounts: step.amounts } } };
    case "updatePodSandboxResources":
      return started === undefined
        ? allocation
        : { ...allocation, started: { ...started, sandboxLimits: step.limits } };
    case "stopContainer":
    case "writePodCgroup":
      return allocation;
  }
}

/** The sentence of a step. */
export function describeStep(step: ResizeStep): string {
  switch (step.kind) {
    case "stopContainer":
      return `stop container ${step.name}: ${step.why}`;
    case "updatePodSandboxResources":
      return `update pod sandbox resources: ${describeLimits(step.limits)}`;
    case "writePodCgroup":
      return `write the pod's cgroup: ${describeLimits(step.limits)}`;
    case "updateContainerResources":
      return `update container ${step.name}: ${describeAmounts(step.amounts)}`;
  }
}

/** Request and limit of each resource; `-` for none. */
function describeAmounts({ cpuRequest, cpuLimit, memoryRequest, memoryLimit }: ContainerAmounts): string {
  const shown = (request: number, limit: number, unit = "") => {
    const [requested, limited] = [request, limit].map((amount) => (amount === 0 ? "-" : `${amount}${unit}`));
    return `request ${requested}, limit ${limited}`;
  };
  return `memory ${shown(memoryRequest, memoryLimit)}; cpu ${shown(cpuRequest, cpuLimit, "m")}`;
}

function changesOf({ pod: { spec }, running }: ResizeStepsInput): {
  readonly restarts: readonly ResizeStep[];
  readonly updates: readonly ContainerChange[];
} {
  const restarts: ResizeStep[] = [];
  const updates: ContainerChange[] = [];
  for (const container of resizableContainers(spec)) {
    const { name, resources } = container;
    const instance = running.find((each) => each.name === name);
    if (instance === undefined) continue;
    const { id, amounts: current } = instance;
    const desired = containerAmounts(resources, spec.resources);
    if (requiresRestart(container, current, desired))
      restarts.push({ kind: "stopContainer", name, id, why: `Container ${name} resize requires restart` });
    else if (differs("memory", current, desired) || differs("cpu", current, desired))
      updates.push({ name, id, current, desired });
  }
  return { restarts, updates };
}

const requestOf = (resource: Resource, amounts: ContainerAmounts) => amounts[`${resource}Request`];
const limitOf = (resource: Resource, amounts: ContainerAmounts) => amounts[`${resource}Limit`];
/** No limit is above all others. */
const orInfinite = (limit: number) => (limit === 0 ? Number.POSITIVE_INFINITY : limit);

function differs(resource: Resource, one: ContainerAmounts, other: ContainerAmounts): boolean {
  return requestOf(resource, one) !== requestOf(resource, other) || limitOf(resource, one) !== limitOf(resource, other);
}

/** Whether the container restarts to get other amounts. */
export function requiresRestart(container: Container, current: ContainerAmounts, desired: ContainerAmounts): boolean {
  return (["memory", "cpu"] as const).some(
    (resource) => differs(resource, current, desired) && restartsFor(container, resource),
  );
}

/**
 * The updates of one resource, which keep what the container has of the other: the decreases, the last container first,
 * then the increases, the first container first. The limit counts, or the request where the limit stays.
 */
function containerSteps(
  resource: Resource,
  updates: readonly ContainerChange[],
  containers: Map<string, ContainerAmounts>,
): readonly ResizeStep[] {
  const changed = updates.filter(({ current, desired }) => differs(resource, current, desired));
  const decreases = changed.filter((each) => isDecrease(resource, each)).toReversed();
  const increases = changed.filter((each) => !isDecrease(resource, each));
  return [...decreases, ...increases].map(({ name, id, current, desired }) => {
    const { memoryRequest, memoryLimit, cpuRequest, cpuLimit } = desired;
    const amounts = {
      ...(containers.get(name) ?? current),
      ...(resource === "memory" ? { memoryRequest, memoryLimit } : { cpuRequest, cpuLimit }),
    };
    containers.set(name, amounts);
    return { kind: "updateContainerResources", name, id, amounts };
  });
}

function isDecrease(resource: Resource, { current, desired }: ContainerChange): boolean {
  const [before, after] = [limitOf(resource, current), limitOf(resource, desired)];
  return before === after
    ? requestOf(resource, desired) < requestOf(resource, current)
    : orInfinite(after) < orInfinite(before);
}

/** The steps that write the pod's cgroup, one file each. The runtime gets the new limits before each write. */
function createPodSteps(current: ResizableLimits, target: ResizableLimits, sentLimits = current) {
  let [reached, sent] = [current, sentLimits];

  function write(limits: Partial<ResizableLimits>): readonly ResizeStep[] {
    reached = { ...reached, ...limits };
    const update: readonly ResizeStep[] = areSame(sent, reached)
      ? []
      : [{ kind: "updatePodSandboxResources", limits: reached }];
    sent = reached;
    return [...update, { kind: "writePodCgroup", limits }];
  }

  const { memoryMax, cpuMax, cpuWeight } = target;
  const memoryGrowth = Math.sign(amountOf(memoryMax) - amountOf(current.memoryMax)) || 0;
  const quotaGrowth = compareQuotas(cpuMax, current.cpuMax);
  const weightGrowth = Math.sign(cpuWeight - current.cpuWeight);
  return {
    raise: (resource: Resource): readonly ResizeStep[] =>
      resource === "memory"
        ? [...(memoryGrowth > 0 ? write({ memoryMax }) : [])]
        : [...(quotaGrowth > 0 ? write({ cpuMax }) : []), ...(weightGrowth > 0 ? write({ cpuWeight }) : [])],
    lower: (resource: Resource): readonly ResizeStep[] =>
      resource === "memory"
        ? [...(memoryGrowth < 0 ? write({ memoryMax }) : [])]
        : [...(weightGrowth < 0 ? write({ cpuWeight }) : []), ...(quotaGrowth < 0 ? write({ cpuMax }) : [])],
  };
}

const amountOf = (limit: Limit) => (limit === "max" ? Number.MAX_VALUE : limit);

/** By the share of a CPU. Another period with the same share counts as growth, so that it is written first. */
function compareQuotas(after: ResizableLimits["cpuMax"], before: ResizableLimits["cpuMax"]): number {
  const share = ({ quotaUs, periodUs }: ResizableLimits["cpuMax"]) => amountOf(quotaUs) / periodUs;
  if (after.quotaUs === "max" && before.quotaUs === "max") return 0;
  return Math.sign(share(after) - share(before)) || (after.periodUs === before.periodUs ? 0 : 1);
}

function areSame(one: ResizableLimits, other: ResizableLimits): boolean {
  return (
    one.cpuWeight === other.cpuWeight &&
    one.memoryMax === other.memoryMax &&
    one.cpuMax.quotaUs === other.cpuMax.quotaUs &&
    one.cpuMax.periodUs === other.cpuMax.periodUs
  );
}

/** Whether all running containers have what is allocated to the pod, which its spec has. */
export function areActuated({ spec }: Pod, running: readonly RunningInstance[]): boolean {
  const byName = new Map(running.map((each) => [each.name, each.amounts]));
  return resizableContainers(spec).every(({ name, resources }) => {
    const current = byName.get(name);
    if (current === undefined) return true;
    const desired = containerAmounts(resources, spec.resources);
    return !differs("memory", current, desired) && !differs("cpu", current, desired);
  });
}

/**
 * The running containers whose memory limit the resize to the pod's resources lowers without a restart. `pod` has the
 * resources that are allocated to it.
 */
export function loweredLimits({ spec }: Pod, running: readonly RunningInstance[]): readonly ContainerId[] {
  const byName = new Map(running.map((each) => [each.name, each]));
  return resizableContainers(spec).flatMap((container) => {
    const instance = byName.get(container.name);
    if (instance === undefined) return [];
    const desired = containerAmounts(container.resources, spec.resources);
    const isLowered = orInfinite(desired.memoryLimit) < orInfinite(instance.amounts.memoryLimit);
    return isLowered && !requiresRestart(container, instance.amounts, desired) ? [instance.id] : [];
  });
}

/** Why a memory limit cannot be lowered at present. Rule: the kubelet's validateMemoryResizeAction. */
function memoryProblem(
  { podCgroup, memoryUsage }: ResizeStepsInput,
  updates: readonly ContainerChange[],
): string | undefined {
  const lowered = updates.flatMap(({ name, current, desired }) =>
    orInfinite(desired.memoryLimit) < orInfinite(current.memoryLimit)
      ? [{ whose: `container "${name}"`, limit: desired.memoryLimit, usage: memoryUsage.containers[name] }]
      : [],
  );
  const { current, target } = podCgroup ?? {};
  const isPodLowered = current && target && amountOf(target.memoryMax) < amountOf(current.memoryMax);
  const all = [
    ...(isPodLowered ? [{ whose: "pod", limit: Number(target.memoryMax), usage: memoryUsage.pod }] : []),
    ...lowered,
  ];
  const problems = all.flatMap(({ whose, limit, usage }) => {
    if (usage === undefined) return [`missing ${whose} memory usage`];
    return usage < limit ? [] : [`attempting to set ${whose} memory limit (${limit}) below current usage (${usage})`];
  });
  if (problems.length === 0) return undefined;
  const [only, ...others] = problems;
  return `cannot decrease memory limits: ${others.length === 0 ? only : `[${problems.join(", ")}]`}`;
}
