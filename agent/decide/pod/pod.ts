import type { Pod, PodStatus, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { volumesByName } from "../../../proto/kubernetes/volumes.ts";
import { missingLimits } from "../cgroups/limit-differences.ts";
import { podCgroupLimits } from "../cgroups/pod-cgroup.ts";
import { planContainers, removeEmptySandboxes } from "../container/container-plan.ts";
import type { ImageUse } from "../container/image.ts";
import { planImagePulls } from "../container/image-plan.ts";
import { startableContainers, startableEphemeralContainers } from "../container/initialization.ts";
import { withUnstartedContainers } from "../container/interrupted-start.ts";
import { withMissingContainers, withReportedExits } from "../container/missing-containers.ts";
import { withOomReasons } from "../container/oom-reason.ts";
import { cannotReplaceSandbox, type SandboxNeed, sandboxNeed } from "../container/sandbox.ts";
import { withUnconfirmedExits } from "../container/unconfirmed-exits.ts";
import type { PodAllocation } from "../resize/allocation.ts";
import { withActuated } from "../resize/instances.ts";
import { currentAllocation, planPodResize } from "../resize/pod-resize.ts";
import { type Actuation, type ResizeProgress, withActuation } from "../resize/resize-progress.ts";
import type { PodSettings } from "../settings.ts";
import { type PreviousStatus, previousStatusOf } from "../status/previous-status.ts";
import { qosClassOf } from "../status/qos.ts";
import { podStatus, unobservedStatus } from "../status/status.ts";
import { unusableImages } from "../status/waiting-state.ts";
import { planStops } from "../termination/stop.ts";
import { orphanTermination, terminationCauseOf } from "../termination/termination-cause.ts";
import { planTermination } from "../termination/termination-plan.ts";
import {
  canBeMadeBesideSandbox,
  contentVersionOf,
  isContentKnown,
  isWaitingForContent,
} from "../volumes/volume-content.ts";
import type { Action } from "./action.ts";
import { type DesiredPodView, gracePeriodOf } from "./desired.ts";
import { memoryOfRevision, type PodMemory, unstoppedSandboxes, withObserved } from "./memory.ts";
import { mayBeRunning, type ObservedPod } from "./observed.ts";
import { activeDeadlineOf, outcomeOf } from "./outcome.ts";
import { type BlockedReason, createPlanBuilder, type PlanBuilder } from "./plan.ts";
import { waitingForNetwork, waitingForRuntimeClass, waitingForServices } from "./prerequisites.ts";
import { missingResources, type PodResource, resourceRecordOf, resourcesToMake } from "./resources.ts";
import { haveContainersStopped, type Stage, stageOf, terminationStageOf } from "./stage.ts";

/** What to do and to report now, what to remember, and when to decide again if nothing happens before. */
export interface Decision {
  readonly stage: Stage;
  readonly actions: readonly Action[];
  readonly status: PodStatus;
  readonly memory: PodMemory;
  readonly lookAgainAt: number | undefined;
  readonly blockedReason: BlockedReason | undefined;
  /** The new record of the pod's resources and its Events; absent if it has not changed. */
  readonly resize?: ResizeProgress;
  /** The image that each waiting container cannot use, by container name. */
  readonly unusableImages: ReadonlyMap<string, ImageUse>;
  /**
   * True while an exit is known that the runtime's status does not show yet. Enough to report it, not to act on it: an
   * action might hit a container that still runs.
   */
  readonly hasUnconfirmedExit: boolean;
}

/** The whole policy for one desired pod. Pure: equal arguments give equal decisions. */
export function decidePod(
  desired: DesiredPodView,
  shown: ObservedPod,
  previous: PodMemory,
  settings: PodSettings,
  now: number,
): Decision {
  const previousStatus = previousStatusOf(desired.pod);
  const revisionMemory = memoryOfRevision(previous, desired.revision);
  const allocation = currentAllocation(desired, previousStatus, shown, revisionMemory);
  const actuated = allocation === undefined ? shown : withActuated(shown, allocation);
  const unstarted = withUnstartedContainers(previousStatus, actuated, revisionMemory);
  const { observed, countsUntil } = withUnconfirmedExits(previousStatus, unstarted, now);
  const withExits = withReportedExits(previousStatus, observed);
  const complete = withMissingContainers(desired.pod, previousStatus, withExits, revisionMemory);
  const outcome =
    revisionMemory.outcome ??
    (mustWaitForPredecessor(desired, observed)
      ? undefined
      : outcomeOf(desired, previousStatus, complete, settings, now));
  if (outcome === undefined && isAwaitingAdmission(desired)) return decideUnadmitted(desired, revisionMemory);
  const currentMemory = withObserved(revisionMemory, observed);
  const sandboxReplacedSince = sandboxReplacedSinceOf(desired.pod, observed, currentMemory, now);
  const isUnchanged =
    outcome === revisionMemory.outcome &&
    sandboxReplacedSince === revisionMemory.sandboxReplacedSince &&
    revisionMemory.resizeSteps.length === 0;
  const updatedMemory: PodMemory = isUnchanged
    ? currentMemory
    : { ...currentMemory, outcome, sandboxReplacedSince, resizeSteps: [] };
  const plan = createPlanBuilder(updatedMemory, now);
  if (countsUntil !== undefined) plan.waitUntil(countsUntil);
  const stage = stageOf(terminationCauseOf(desired, outcome), observed, updatedMemory);
  const known = withAllocation(desired, allocation);
  let actuation: Actuation | undefined;
  if (stage.kind === "syncing")
    actuation = planSync(plan, known, previousStatus, complete, updatedMemory, settings, now);
  else planTermination(plan, stage, observed, updatedMemory, now);
  const progress = progressOf(known, actuation, now);
  const input = { previousStatus, observed: complete, memory: updatedMemory, settings, now, stage };
  const statusInput = { ...input, desired: withAllocation(desired, progress?.allocation) };
  const { status, conditions } = podStatus(statusInput);
  const storedFinalStatus =
    updatedMemory.finalStatus ?? desired.lastStatus ?? (haveContainersStopped(stage) ? status : undefined);
  const finalStatus = storedFinalStatus && withOomReasons(storedFinalStatus, complete);
  return {
    stage,
    ...plan.result(),
    status: finalStatus ?? status,
    memory: { ...updatedMemory, conditions, finalStatus },
    ...(progress !== undefined && progress.allocation !== desired.allocation && { resize: progress }),
    unusableImages: unusableImages(statusInput, status),
    hasUnconfirmedExit: observed.hasUnconfirmedExit === true,
  };
}

/**
 * A pod that waits for admission starts nothing and reports nothing to the API server; the admission result wakes it.
 */
function isAwaitingAdmission({ admission, termination }: DesiredPodView): boolean {
  return admission?.kind === "awaited" && termination === undefined;
}

function decideUnadmitted(desired: DesiredPodView, memory: PodMemory): Decision {
  const status = unobservedStatus(desired, "the pod waits for admission");
  return {
    stage: { kind: "syncing" },
    actions: [],
    status,
    memory,
    lookAgainAt: undefined,
    blockedReason: undefined,
    unusableImages: new Map(),
    hasUnconfirmedExit: false,
  };
}

/** A pod without a source: stops and removes what is left of it. */
export function decideOrphan(
  observed: ObservedPod,
  previous: PodMemory,
  now: number,
): Omit<Decision, "status" | "unusableImages"> {
  const orphanedAt = previous.orphanedAt ?? now;
  const memory: PodMemory = { ...withObserved(previous, observed), orphanedAt };
  const plan = createPlanBuilder(memory, now);
  const stage = terminationStageOf(orphanTermination(orphanedAt), observed, memory);
  planTermination(plan, stage, observed, memory, now);
  return { stage, ...plan.result(), memory, hasUnconfirmedExit: observed.hasUnconfirmedExit === true };
}

/** The pod waits until an earlier pod of the same name is gone. */
function mustWaitForPredecessor({ predecessorUid }: DesiredPodView, { sandboxes, containers }: ObservedPod): boolean {
  return predecessorUid !== undefined && sandboxes.length === 0 && containers.length === 0;
}

/** Returns how far the allocated resources are carried out; undefined while the pod has nothing that could be resized. */
function planSync(
  plan: PlanBuilder,
  desired: DesiredPodView,
  previousStatus: PreviousStatus,
  observed: ObservedPod,
  memory: PodMemory,
  settings: PodSettings,
  now: number,
): Actuation | undefined {
  if (mustWaitForPredecessor(desired, observed)) return undefined;
  const { pod, allocation } = desired;
  const deadline = activeDeadlineOf(desired);
  if (deadline !== undefined) plan.waitUntil(deadline);
  const need = sandboxNeed(pod, observed, now);
  if (need.kind === "create") {
    const isUnlimited = planCgroupRepair(plan, pod, observed, settings, false);
    const mayRunSandbox =
      !isUnlimited && (waitingForNetwork(desired, settings) ?? waitingForRuntimeClass(desired, settings)) === undefined;
    planSandbox(plan, { desired, observed, memory, settings, now, mayRunSandbox }, need);
    planImagePulls(plan, { pod, observed, memory, settings });
    return undefined;
  }
  // A sandbox without a cgroup of its pod was run by an earlier agent: the pod gets one with its next sandbox.
  const missing = hasContainersToStart(desired, observed)
    ? missingOf(pod, observed, memory, settings).filter(({ of }) => of !== "cgroup")
    : [];
  planResources(plan, pod, missing, settings);
  if (missing.length > 0) return undefined;
  planVolumeUpdates(plan, pod, observed, memory, settings);
  const mayCreate = waitingForServices(desired, settings) === undefined;
  const input = { pod, previousStatus, sandbox: need.sandbox, observed, memory, settings, now, mayCreate };
  planContainers(plan, input);
  const actuation = allocation && planPodResize(plan, { ...input, allocation }, now);
  const isResized = actuation !== undefined && actuation.kind !== "complete";
  planCgroupRepair(plan, pod, observed, settings, isResized);
  return actuation;
}

const withAllocation = (desired: DesiredPodView, allocation: PodAllocation | undefined): DesiredPodView =>
  allocation === undefined || allocation === desired.allocation ? desired : { ...desired, allocation };

/** The record after this decision; undefined for a pod without one. */
function progressOf(
  { pod, allocation }: DesiredPodView,
  actuation: Actuation | undefined,
  now: number,
): ResizeProgress | undefined {
  if (allocation === undefined) return undefined;
  return actuation === undefined ? { allocation, events: [] } : withActuation(pod, allocation, actuation, now);
}

/** The resources that the pod lacks. */
const missingOf = (
  pod: Pod,
  { resources }: ObservedPod,
  { madeResources }: PodMemory,
  settings: PodSettings,
): readonly PodResource[] => missingResources(pod, resources, madeResources, settings);

/** Plans to make those of the missing resources that can be made now. */
function planResources(plan: PlanBuilder, pod: Pod, missing: readonly PodResource[], settings: PodSettings): void {
  const volumes = volumesByName(pod);
  for (const resource of resourcesToMake(missing)) {
    const volume = resource.of === "volume" ? volumes.get(resource.name) : undefined;
    if (volume === undefined) plan.propose({ kind: "makeResource", resource });
    else if (mayTakeLong(volume) && !isWaitingForContent(pod, volume, settings))
      plan.propose({ kind: "mountVolume", name: volume.name });
    else if (!isWaitingForContent(pod, volume, settings)) {
      const content = contentVersionOf(pod, volume, settings);
      plan.propose({ kind: "makeResource", resource, ...(content !== undefined && { content }) });
    }
  }
}

/** What the sandbox waits for, of all that is missing: see `canBeMadeBesideSandbox`. */
function resourcesBeforeSandbox(
  missing: readonly PodResource[],
  pod: Pod,
  memory: PodMemory,
  settings: PodSettings,
): BeforeSandbox {
  const volumes = volumesByName(pod);
  const volumeOf = (resource: PodResource) => (resource.of === "volume" ? volumes.get(resource.name) : undefined);
  const isBeside = (resource: PodResource) => {
    if (memory.failures.has({ of: "resource", resource })) return false;
    if (resource.of === "podDirs" || resource.of === "logDir")
      return isDirBesideSandbox(resource.of, missing, settings);
    if (resource.of === "subPaths") return true;
    const volume = volumeOf(resource);
    return volume !== undefined && canBeMadeBesideSandbox(pod, volume, settings);
  };
  const before = missing.filter((resource) => !isBeside(resource));
  const isContentAwaited = before.some((resource) => {
    const volume = volumeOf(resource);
    return volume !== undefined && isWaitingForContent(pod, volume, settings);
  });
  return { before, isContentAwaited };
}

/**
 * Whether a directory of the pod is made while the sandbox starts: no missing resource needs it first, and the runtime
 * reads it only with the first container. CRI-O makes a missing log directory together with the sandbox, with another
 * mode; there the sandbox waits for it.
 */
function isDirBesideSandbox(
  of: "podDirs" | "logDir",
  missing: readonly PodResource[],
  { runtimeName }: PodSettings,
): boolean {
  if (of === "logDir") return runtimeName !== "cri-o";
  return !missing.some((each) => resourceRecordOf(each).after.includes(of));
}

interface BeforeSandbox {
  /** What the sandbox waits for. */
  readonly before: readonly PodResource[];
  /** A part of it waits for an object, a token, a certificate or a claim that is being read. */
  readonly isContentAwaited: boolean;
}

/**
 * A server may not answer: an NFS server, or one on which a hostPath with a `type` lies, since that is checked. The volume of
 * a claim may have a million files that change their group.
 */
function mayTakeLong({ nfs, persistentVolumeClaim, ephemeral, hostPath }: Volume): boolean {
  if ((hostPath?.type ?? "") !== "") return true;
  return [nfs, persistentVolumeClaim, ephemeral].some((source) => source !== undefined);
}

/**
 * Plans to write the files of the volumes that are set up and show something else now. A new agent writes all of them
 * once, since it does not remember what they show. While an object or a token is unknown, running pods keep their files.
 */
function planVolumeUpdates(
  plan: PlanBuilder,
  pod: Pod,
  { resources }: ObservedPod,
  memory: PodMemory,
  settings: PodSettings,
): void {
  const volumes = volumesByName(pod);
  for (const resource of resources) {
    const volume = resource.of === "volume" ? volumes.get(resource.name) : undefined;
    const content = volume && contentVersionOf(pod, volume, settings);
    if (volume === undefined || content === undefined || !isContentKnown(pod, volume, settings)) continue;
    const { name } = volume;
    const written = memory.volumeContents.get(name);
    const why = written === undefined ? "the agent has restarted" : "its content has changed";
    if (written !== content) plan.propose({ kind: "updateVolume", name, content, why });
  }
}

/**
 * Plans to write the limits that the pod's cgroup lacks: another program has changed them, or an agent has died before it
 * wrote them. Those that a resize changes are left to it, which writes them in an order of its own. Returns whether
 * anything is missing.
 */
function planCgroupRepair(
  plan: PlanBuilder,
  pod: Pod,
  { cgroup }: ObservedPod,
  { podCgroups }: PodSettings,
  isResized: boolean,
): boolean {
  if (cgroup === undefined || podCgroups === undefined) return false;
  const { cpuWeight, cpuMax, memoryMax, ...others } = podCgroupLimits(pod, qosClassOf(pod), podCgroups);
  const limits = missingLimits(cgroup, isResized ? others : { ...others, cpuWeight, cpuMax, memoryMax });
  if (limits === undefined) return false;
  plan.propose({ kind: "writePodCgroup", limits, why: "it has other limits" });
  return true;
}

/** Whether a container has yet to be started, so that the pod may need its volumes. */
function hasContainersToStart({ pod }: DesiredPodView, observed: ObservedPod): boolean {
  const isRunning = (name: string) => observed.containers.some((c) => c.name === name && c.state === "running");
  const startable = startableContainers(pod, observed, observed.sandboxes[0]?.id);
  return startable.some(({ name }) => !isRunning(name)) || startableEphemeralContainers(pod, observed).length > 0;
}

/** Since when the containers in an unusable sandbox are being stopped; undefined if none are. */
function sandboxReplacedSinceOf(
  pod: Pod,
  observed: ObservedPod,
  { sandboxReplacedSince }: PodMemory,
  now: number,
): number | undefined {
  if (!observed.containers.some(mayBeRunning) || sandboxNeed(pod, observed, now).kind === "ready") return undefined;
  return sandboxReplacedSince ?? now;
}

interface SandboxInput {
  readonly desired: DesiredPodView;
  readonly observed: ObservedPod;
  readonly memory: PodMemory;
  readonly settings: PodSettings;
  readonly now: number;
  /** False while a prerequisite of the sandbox is missing; its arrival wakes the pod. */
  readonly mayRunSandbox: boolean;
}

const sandboxChanged = {
  why: "the pod's sandbox changed, it will be killed and re-created",
  isSandboxReplacement: true,
} as const;

/** Replaces the sandbox. The containers of the old one are stopped first, so that no container ever runs twice. */
function planSandbox(
  plan: PlanBuilder,
  { desired, observed, memory, settings, now, mayRunSandbox }: SandboxInput,
  { attempt, crashes, dueAt, why }: Extract<SandboxNeed, { kind: "create" }>,
): void {
  const { pod } = desired;
  const running = observed.containers.filter(mayBeRunning);
  const { sandboxReplacedSince: requestedAt = now, preStopDone } = memory;
  const { why: reason, ...stopOptions } = cannotReplaceSandbox(pod, observed)
    ? { why: `its sandbox is unusable: ${why}` }
    : sandboxChanged;
  const stopRequest = { requestedAt, gracePeriodSeconds: gracePeriodOf(pod), why: reason };
  planStops(plan, running, stopRequest, { pod, preStopDone, ...stopOptions }, now);
  if (running.length > 0 || memory.stopping.size > 0) return;
  const unstopped = unstoppedSandboxes(observed, memory);
  for (const { id } of unstopped) plan.propose({ kind: "stopSandbox", id, why });
  if (unstopped.length > 0) return;
  // Keep the newest until its successor exists: the successor continues its attempt and crash count.
  removeEmptySandboxes(plan, observed, observed.sandboxes[0]?.id);
  const missing = missingOf(pod, observed, memory, settings);
  const { before, isContentAwaited } = resourcesBeforeSandbox(missing, pod, memory, settings);
  if (before.length === 0) {
    if (dueAt > now) plan.waitUntil(dueAt);
    // First, since it takes longest: the resources are made while the runtime works.
    else if (mayRunSandbox) plan.propose({ kind: "runSandbox", attempt, crashes, why });
  }
  // What can be made beside the sandbox waits with it for what is being read: the sync that runs the sandbox begins only
  // when the previous one has made everything.
  planResources(plan, pod, isContentAwaited ? before : missing, settings);
}
