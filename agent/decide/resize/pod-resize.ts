import type { ResizableLimits } from "../../../proto/cgroup/limits.ts";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import { nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { missingLimits } from "../cgroups/limit-differences.ts";
import { podCgroupLimits } from "../cgroups/pod-cgroup.ts";
import { isReplaced, isRestartedByResize } from "../container/replaced.ts";
import { type Action, failureKeyOf } from "../pod/action.ts";
import { type DesiredPod, gracePeriodOf } from "../pod/desired.ts";
import type { PodMemory } from "../pod/memory.ts";
import { newestInstanceOf, type ObservedPod, type ObservedSandbox } from "../pod/observed.ts";
import type { PlanBuilder } from "../pod/plan.ts";
import type { PodSettings } from "../settings.ts";
import type { PreviousStatus } from "../status/previous-status.ts";
import { qosClassOf } from "../status/qos.ts";
import { planStop } from "../termination/stop.ts";
import { type PodAllocation, resizableContainers } from "./allocation.ts";
import { withAdopted } from "./instances.ts";
import type { Actuation } from "./resize-progress.ts";
import {
  areActuated,
  loweredLimits,
  planResize,
  type ResizeStep,
  type ResizeStepsInput,
  type RunningInstance,
  withStep,
} from "./resize-steps.ts";

export interface PodResizeInput {
  /** With the resources that are allocated to it. */
  readonly pod: Pod;
  readonly allocation: PodAllocation;
  readonly previousStatus: PreviousStatus;
  readonly sandbox: ObservedSandbox;
  readonly observed: ObservedPod;
  readonly memory: PodMemory;
  readonly settings: Pick<PodSettings, "podCgroups">;
}

/** How soon a resize that cannot be carried out is tried again. Rule: the kubelet's backOffPeriod. */
const RETRY_MS = 10_000;

/**
 * The pod's record with the steps that have succeeded since the last decision, and with the running instances of another
 * agent; undefined for a pod without one.
 */
export function currentAllocation(
  { pod, allocation }: Pick<DesiredPod, "pod" | "allocation">,
  previousStatus: PreviousStatus,
  observed: ObservedPod,
  { resizeSteps }: Pick<PodMemory, "resizeSteps">,
): PodAllocation | undefined {
  return allocation && withAdopted(pod, resizeSteps.reduce(withStep, allocation), previousStatus, observed);
}

/**
 * Plans the next step of a resize: the stops of the containers that restart, all at once, or else one call. Returns how
 * far the allocated resources are carried out.
 */
export function planPodResize(plan: PlanBuilder, input: PodResizeInput, now: number): Actuation {
  const { pod, allocation, observed, memory, sandbox } = input;
  const running = runningInstances(pod, observed, sandbox.id);
  // Nearly always.
  if (allocation.started === undefined && areActuated(pod, running)) return { kind: "complete" };
  const podCgroup = podCgroupOf(input);
  if (!isMeasured(pod, observed, podCgroup)) {
    // The next observation reads it.
    plan.waitUntil(now);
    return { kind: "inProgress" };
  }
  const resize = planResize({
    pod,
    allocation,
    running,
    podCgroup,
    memoryUsage: { ...podUsageOf(observed), containers: usageByName(observed) },
  });
  if ("problem" in resize) {
    plan.waitUntil(now + RETRY_MS);
    return { kind: "error", message: resize.problem };
  }
  if (resize.steps[0]?.kind === "stopContainer") {
    const stops = resize.steps.filter((step) => step.kind === "stopContainer");
    for (const stop of stops) planStopForResize(plan, input, stop);
    return { kind: "inProgress" };
  }
  if (areRestarting(input)) return { kind: "inProgress" };
  const [step] = resize.steps;
  if (step === undefined) return { kind: "complete" };
  const action = actionOf(step, sandbox.id);
  if (action === undefined) return { kind: "inProgress" };
  plan.propose(action);
  const failure = memory.failures.get(failureKeyOf(action));
  // A failure of the resize before does not count for this one.
  const hasFailed = failure !== undefined && failure.at >= (allocation.started?.since ?? 0);
  return hasFailed && !failure.isOutage ? { kind: "error", message: failure.message } : { kind: "inProgress" };
}

/**
 * The limits of the pod's cgroup and those that it is to have; undefined for a pod without a cgroup. A limit that the
 * kernel or systemd has rounded counts as reached.
 */
function podCgroupOf({
  pod,
  observed: { cgroup },
  settings: { podCgroups },
}: PodResizeInput): ResizeStepsInput["podCgroup"] {
  if (cgroup === undefined || podCgroups === undefined) return undefined;
  const { cpuWeight, cpuMax, memoryMax } = podCgroupLimits(pod, qosClassOf(pod), podCgroups);
  const target = { cpuWeight, cpuMax, memoryMax };
  const missing = missingLimits(cgroup, target) ?? {};
  const isReached = (name: keyof ResizableLimits) => missing[name] === undefined;
  return {
    current: {
      cpuWeight: isReached("cpuWeight") ? cpuWeight : (cgroup.cpuWeight ?? cpuWeight),
      cpuMax: isReached("cpuMax") ? cpuMax : (cgroup.cpuMax ?? cpuMax),
      memoryMax: isReached("memoryMax") ? memoryMax : (cgroup.memoryMax ?? memoryMax),
    },
    target,
  };
}

function podUsageOf({ cgroupMemoryBytes: pod }: ObservedPod): { readonly pod?: number } {
  return pod === undefined ? {} : { pod };
}

/** The running containers whose memory limit a resize lowers: their usage has to be read before. */
export function containersToMeasure(pod: Pod, observed: ObservedPod): readonly ContainerId[] {
  const [sandbox] = observed.sandboxes;
  return sandbox === undefined ? [] : loweredLimits(pod, runningInstances(pod, observed, sandbox.id));
}

/**
 * Whether this observation has read the memory usage that the resize depends on. A resize that was accepted during the
 * observation is read by the next one.
 */
function isMeasured(pod: Pod, observed: ObservedPod, podCgroup: ResizeStepsInput["podCgroup"]): boolean {
  const isPodMeasured = "cgroupMemoryBytes" in observed || !lowersMemory(podCgroup);
  return isPodMeasured && containersToMeasure(pod, observed).every((id) => observed.memoryUsage?.has(id) === true);
}

function lowersMemory(podCgroup: ResizeStepsInput["podCgroup"]): boolean {
  if (podCgroup === undefined) return false;
  const [before, after] = [podCgroup.current.memoryMax, podCgroup.target.memoryMax];
  return after !== "max" && (before === "max" || after < before);
}

/** The containers that a resize may change now. One that runs in an earlier sandbox is about to be stopped. */
function runningInstances(pod: Pod, observed: ObservedPod, sandboxId: SandboxId): readonly RunningInstance[] {
  return resizableContainers(pod.spec).flatMap(({ name }) => {
    const newest = newestInstanceOf(observed, name);
    if (newest?.state !== "running" || newest.sandboxId !== sandboxId || newest.amounts === undefined) return [];
    return [{ name, id: newest.id, amounts: newest.amounts }];
  });
}

function usageByName({ containers, memoryUsage }: ObservedPod): Readonly<Record<string, number>> {
  return Object.fromEntries(
    containers.flatMap(({ id, name }) => {
      const bytes = memoryUsage?.get(id);
      return bytes === undefined ? [] : [[name, bytes] as const];
    }),
  );
}

/** Whether a container was stopped for a resize, and its next instance does not run yet. */
function areRestarting({ pod, previousStatus, observed }: PodResizeInput): boolean {
  return nonEphemeralContainers(pod.spec).some((container) => {
    const [newest, before] = observed.containers.filter(({ name }) => name === container.name);
    const stopped = newest?.state === "created" ? before : newest;
    if (stopped?.state !== "exited" || !isRestartedByResize(pod, container, stopped)) return false;
    return isReplaced(pod, previousStatus, container, stopped);
  });
}

function planStopForResize(
  plan: PlanBuilder,
  { pod, observed, memory: { preStopDone } }: PodResizeInput,
  { id, why }: Extract<ResizeStep, { kind: "stopContainer" }>,
): void {
  const container = observed.containers.find((each) => each.id === id);
  if (container === undefined) return;
  planStop(plan, container, { pod, gracePeriodSeconds: gracePeriodOf(pod), preStopDone, why, eventMessage: why });
}

/** The action of a step; undefined for the stop of a container, which is planned with its grace period. */
function actionOf(step: ResizeStep, sandboxId: SandboxId): Action | undefined {
  switch (step.kind) {
    case "updateContainerResources":
      return { ...step };
    case "updatePodSandboxResources":
      return { ...step, sandboxId };
    case "writePodCgroup":
      return { ...step, why: "the pod is resized" };
    case "stopContainer":
      return undefined;
  }
}
