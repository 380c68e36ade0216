import { allContainers, isEphemeral, isRunToCompletion, isSidecar } from "../../../proto/kubernetes/containers.ts";
import type {
  Container,
  ContainerState,
  ContainerStateTerminated,
  ContainerStatus,
  Pod,
  VolumeMount,
  VolumeMountStatus,
} from "../../../proto/kubernetes/gen/types.ts";
import { resolveRecursiveReadOnly } from "../../../proto/kubernetes/recursive-read-only.ts";
import { formatElapsed } from "../../../proto/kubernetes/values/duration.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import { truncateUtf8 } from "../../../proto/utf8.ts";
import { isOutdated } from "../container/container-hash.ts";
import { type ImageNeed, type ImageUse, imageNeed, imageUses } from "../container/image.ts";
import { isInitialized, isInitStepDone } from "../container/initialization.ts";
import { isInferredExit, reportedExit } from "../container/missing-containers.ts";
import { isRemovedForRestart, removedForRestart } from "../container/removed-for-restart.ts";
import { isReplaced } from "../container/replaced.ts";
import { exitShownUntil, isBackoffReset, restartAt, restartDelayMs, shouldRestart } from "../container/restart.ts";
import { isRestartingAll } from "../container/restart-all.ts";
import { type FailureRecord, postStartFailureOf } from "../pod/memory.ts";
import {
  awaitsPostStart,
  type ExitedContainer,
  healthOf,
  newestInstanceOf,
  type ObservedContainer,
} from "../pod/observed.ts";
import { haveContainersStopped } from "../pod/stage.ts";
import { resourcesOfInstance } from "./container-resources.ts";
import { previousStatusOfInstance } from "./previous-status.ts";
import type { StatusInput } from "./status-input.ts";
import { ownFailureOf, startingReasonOf, waitingBeforeStart } from "./waiting-state.ts";

/**
 * One entry of `status.containerStatuses`, `initContainerStatuses` or `ephemeralContainerStatuses`, as the API
 * documents it.
 */
export function containerStatus(input: StatusInput, container: Container): ContainerStatus {
  const { desired, previousStatus, observed, settings } = input;
  const { pod } = desired;
  const newest = newestInstanceOf(observed, container.name);
  const replaced = statusOfReplaced(input, container);
  if (replaced !== undefined) return replaced;
  const state = stateOf(input, container, newest);
  const reported =
    newest !== undefined && isInferredExit(newest) ? reportedExit(previousStatus, container.name) : undefined;
  // No instance is left on the node: the reported exit has more detail than an inferred one.
  if (state.terminated !== undefined && reported?.restartCount === newest?.attempt && reported !== undefined)
    return reported;
  const lastExit = lastTermination(input, container.name, newest, state);
  const runsOnce = isRunToCompletion(pod, container);
  const health = newest && healthOf(observed, newest);
  const reportedInstance = isAboutToStart(input, newest) ? undefined : newest;
  return {
    name: container.name,
    state,
    ...(lastExit === undefined ? {} : { lastState: { terminated: lastExit } }),
    ...(isEphemeral(pod, container.name)
      ? { ready: false }
      : {
          ready: runsOnce ? state.terminated?.exitCode === 0 : health?.isReady === true,
          started: health?.isStarted === true,
        }),
    restartCount: newest?.attempt ?? attemptWithoutInstance(input, container),
    image: reportedInstance?.image || (container.image ?? ""),
    imageID: reportedInstance?.imageRef ?? "",
    ...(reportedInstance === undefined || isInferredExit(reportedInstance)
      ? {}
      : {
          containerID: `${settings.runtimeName}://${reportedInstance.id}`,
          ...resourcesOfInstance(container, reportedInstance),
        }),
    ...(reportedInstance?.user === undefined ? {} : { user: { linux: reportedInstance.user } }),
    ...(settings.containerStopSignals === true &&
      reportedInstance?.stopSignal !== undefined && { stopSignal: reportedInstance.stopSignal }),
    ...(container.volumeMounts === undefined ? {} : { volumeMounts: mountStatuses(input, container.volumeMounts) }),
  };
}

/** The attempt of a container without an instance; after `RestartAllContainers` that of its next instance. */
function attemptWithoutInstance({ observed, memory }: StatusInput, { name }: Container): number {
  const removedAttempt = observed.removedAttempts.get(name);
  return removedAttempt === undefined ? (memory.startedAttempts.get(name) ?? 0) : removedAttempt + 1;
}

/**
 * A first instance that is created but not started is reported as before its creation, as with the kubelet: a status
 * that lasts some ten milliseconds would cost one more request per start. If the start fails, or the instance was
 * already reported, it is shown.
 */
function isAboutToStart({ previousStatus, memory }: StatusInput, newest: ObservedContainer | undefined): boolean {
  if (
    newest?.state !== "created" ||
    newest.attempt !== 0 ||
    memory.failures.has({ of: "container", name: newest.name })
  )
    return false;
  return previousStatusOfInstance(previousStatus, newest.id) === undefined;
}

/**
 * While a container is replaced by one with a new image, its status stays that of the stopped instance, as with the
 * kubelet: the pod stays Ready, and no request reports some ten milliseconds. A further pull may last, and is shown.
 */
function statusOfReplaced(input: StatusInput, container: Container): ContainerStatus | undefined {
  const { desired, previousStatus, observed, memory, stage } = input;
  const [newest, before] = observed.containers.filter(({ name }) => name === container.name);
  const stopped = newest?.state === "created" ? before : newest;
  if (stage.kind !== "syncing" || stopped?.state !== "exited") return undefined;
  if (!isReplaced(desired.pod, previousStatus, container, stopped)) return undefined;
  const isThere = (use: ImageUse) => imagesThere.includes(imageNeed(use, observed, memory).kind);
  const areImagesThere = newest?.state === "created" || imageUses(desired.pod, container).every(isThere);
  if (!areImagesThere || memory.failures.has({ of: "container", name: container.name })) return undefined;
  const reported = previousStatusOfInstance(previousStatus, stopped.id);
  return reported?.state?.running && reported;
}

const imagesThere: readonly ImageNeed["kind"][] = ["ready", "uninspected", "access pending"];

function mountStatuses(
  { desired: { pod }, settings: { recursiveReadOnlyClasses } }: StatusInput,
  mounts: readonly VolumeMount[],
): readonly VolumeMountStatus[] {
  const isSupported = recursiveReadOnlyClasses?.has(pod.spec.runtimeClassName ?? "") ?? false;
  return mounts.map((mount) => {
    const { name, mountPath, readOnly } = mount;
    if (readOnly !== true) return { name, mountPath };
    const resolved = resolveRecursiveReadOnly(mount, isSupported);
    const isRecursive = "isRecursive" in resolved && resolved.isRecursive;
    return { name, mountPath, readOnly, recursiveReadOnly: isRecursive ? "Enabled" : "Disabled" };
  });
}

function stateOf(input: StatusInput, container: Container, newest: ObservedContainer | undefined): ContainerState {
  const haveStopped = haveContainersStopped(input.stage);
  if (newest !== undefined && awaitsPostStart(input.observed, newest)) return { waiting: waitingForPostStart(input) };
  if (newest?.state === "running") return { running: { startedAt: formatTime(newest.startedAt) } };
  if (newest?.state === "exited") {
    const waiting = input.stage.kind !== "syncing" ? undefined : waitingAfterExit(input, container, newest);
    return waiting ?? { terminated: terminated(input, newest) };
  }
  if (newest === undefined && isRestartingWithAll(input, container)) return { waiting: waitingForRestart };
  const reported = newest === undefined ? reportedOrAssumedState(input, container) : undefined;
  if (reported !== undefined) return reported;
  if (newest?.state === "unknown" || (haveStopped && mayHaveRun(input, container)))
    return { terminated: unknownTermination };
  if (haveStopped) return { waiting: waitingAtEnd(input, container, newest) };
  return { waiting: waitingBeforeStart(input, container, newest) };
}

/**
 * A container counts as started only after its hook has succeeded. The kubelet reports the reason without a message.
 */
function waitingForPostStart({ desired }: StatusInput): NonNullable<ContainerState["waiting"]> {
  return {
    reason: startingReasonOf(desired.pod),
    message: "its postStart hook has not succeeded yet",
  };
}

const waitingForRestart = { reason: removedForRestart.reason ?? "", message: removedForRestart.message ?? "" };

/** It was removed by RestartAllContainers, and no container of the pod has started since. */
function isRestartingWithAll({ desired: { pod }, observed, stage }: StatusInput, { name }: Container): boolean {
  if (stage.kind !== "syncing" || !observed.removedAttempts.has(name)) return false;
  return isRemovedForRestart(pod, observed) || isRestartingAll(pod, observed);
}

/** What Kubernetes reports of a container whose exit is unknown. */
const unknownTermination: ContainerStateTerminated = {
  exitCode: 137,
  reason: "ContainerStatusUnknown",
  message: "The container could not be located when the pod was terminated",
};

/** What Kubernetes reports of a removed init container while the containers behind it exist. */
const assumedCompletion: ContainerStateTerminated = {
  exitCode: 0,
  reason: "Completed",
  message:
    "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
};

/** The state of an init container that is done and has no instance left. */
function reportedOrAssumedState(
  { desired: { pod }, previousStatus, observed }: StatusInput,
  container: Container,
): ContainerState | undefined {
  if (!isInitStepDone(pod, observed, observed.sandboxes[0]?.id, container)) return undefined;
  return (
    reportedExit(previousStatus, container.name)?.state ??
    (isSidecar(container) ? undefined : { terminated: assumedCompletion })
  );
}

/** Whether an app container of the pod was created, in any sandbox. */
function hasAppContainer({ desired, observed }: StatusInput): boolean {
  return desired.pod.spec.containers.some(({ name }) => newestInstanceOf(observed, name) !== undefined);
}

/**
 * Whether a container of a terminated pod may have run without leaving an instance. Containers behind an init container
 * that never finished stay waiting; the first init container counts as started.
 */
function mayHaveRun({ desired, observed, ...input }: StatusInput, { name }: Container): boolean {
  // An ephemeral container without an instance may have been added just when the pod ended.
  if (isEphemeral(desired.pod, name)) return false;
  const { initContainers = [] } = desired.pod.spec;
  const index = initContainers.findIndex((each) => each.name === name);
  if (observed.removedAttempts.has(name)) return true;
  const hasRun = (each: Container) => (newestInstanceOf(observed, each.name)?.state ?? "created") !== "created";
  if (index >= 0) return index === 0 || initContainers.slice(index).some(hasRun);
  return (
    hasAppContainer({ desired, observed, ...input }) || isInitialized(desired.pod, observed, observed.sandboxes[0]?.id)
  );
}

/** An exited container is waiting, with a reason, only if it will run again and cannot start yet. */
function waitingAfterExit(
  input: StatusInput,
  container: Container,
  exited: ExitedContainer,
): ContainerState | undefined {
  const { desired, previousStatus, memory, settings, now } = input;
  if (isReplaced(desired.pod, previousStatus, container, exited))
    return { waiting: waitingBeforeStart(input, container, exited) };
  // With another image there is no restart back-off: only a failure can delay the start.
  const isChanged = isOutdated(container, exited);
  if (!isChanged && !shouldRestart(desired.pod, container, exited)) return undefined;
  const due = isChanged ? exited.finishedAt : restartAt(exited, settings.maxContainerRestartPeriodMs, now);
  const isDue = due <= now;
  // A failed start is shown in the last state; the container itself then waits for its back-off.
  const failedAt = memory.failures.get({ of: "container", name: container.name })?.at ?? due;
  const failure = isDue && failedAt >= due ? ownFailureOf(input, container, exited) : undefined;
  if (failure !== undefined) return { waiting: failure };
  const startsAtOnce = isDue && (isChanged || exited.crashes === 0 || isBackoffReset(exited));
  const hook = postStartFailureOf(memory, exited.id);
  if (hook !== undefined && (startsAtOnce || now < exitShownUntil(exited, due)))
    return { waiting: postStartFailureWaiting(desired.pod, hook) };
  // Show the back-off until the next instance exists, although it is over a moment before.
  if (startsAtOnce) return undefined;
  const { namespace = "default", name = "" } = desired.pod.metadata;
  const delay = formatElapsed(restartDelayMs(exited.crashes, settings.maxContainerRestartPeriodMs));
  const message = `back-off ${delay} restarting failed container=${container.name} pod=${name}_${namespace}(${desired.uid})`;
  return { waiting: { reason: "CrashLoopBackOff", message } };
}

function postStartFailureWaiting(
  pod: Pod,
  { reason, message, statusMessage }: FailureRecord,
): NonNullable<ContainerState["waiting"]> {
  return { reason, message: truncateUtf8(statusMessage ?? message, maxMessageBytesOf(pod)) };
}

/**
 * What a container that has never run waited for when its pod ended. As with the kubelet, one of a deleted pod does not
 * say why any more.
 */
function waitingAtEnd(
  input: StatusInput,
  container: Container,
  newest: ObservedContainer | undefined,
): NonNullable<ContainerState["waiting"]> {
  const { desired, stage } = input;
  const isDeleted = stage.kind === "syncing" || stage.cause.kind !== "ended";
  const failure = isDeleted ? undefined : ownFailureOf(input, container, newest);
  return failure ?? { reason: startingReasonOf(desired.pod) };
}

/**
 * The exit of the previous instance; if the newest exit is the state itself, the exit before that. A container that
 * ends while it waits for its restart keeps the exit that it had shown there, as with the kubelet.
 */
function lastTermination(
  input: StatusInput,
  name: string,
  newest: ObservedContainer | undefined,
  state: ContainerState,
): ContainerStateTerminated | undefined {
  const isCurrentState = state.terminated !== undefined;
  const exits = input.observed.containers.filter((c): c is ExitedContainer => c.name === name && c.state === "exited");
  const [last] = isCurrentState ? exits.filter(({ id }) => id !== newest?.id) : exits;
  if (last !== undefined) return terminated(input, last);
  const removedAttempt = input.observed.removedAttempts.get(name);
  const isOfRemoved = removedAttempt !== undefined && removedAttempt + 1 === (newest?.attempt ?? removedAttempt + 1);
  if (isOfRemoved) return removedForRestart;
  const earlier = reportedTermination(input, name, newest);
  if (!isCurrentState) return earlier;
  const removed = removedTermination(input, name, newest);
  if (earlier !== undefined) return laterEnd(earlier, removed);
  const shown = input.previousStatus.containers.get(name)?.lastState?.terminated;
  return shown ?? terminationShownInBackOff(input, newest) ?? removed;
}

/**
 * A container that waited for its restart showed its newest exit as the last one, and the one before was removed. It
 * shows it still when its pod ends. The status of a static pod has no record of that.
 */
function terminationShownInBackOff(
  input: StatusInput,
  newest: ObservedContainer | undefined,
): ContainerStateTerminated | undefined {
  const hasFailed = newest?.state === "exited" && newest.attempt > 0 && newest.exitCode !== 0;
  return hasFailed && input.stage.kind !== "syncing" ? terminated(input, newest) : undefined;
}

/** The pod's status may show an instance before the one that this agent has removed, or one that it has never known. */
const laterEnd = (shown: ContainerStateTerminated, removed: ContainerStateTerminated | undefined) =>
  removed !== undefined && (removed.finishedAt ?? "") > (shown.finishedAt ?? "") ? removed : shown;

/** The exit of an earlier instance that this agent has removed. Its report may not have reached the pod's status yet. */
function removedTermination(
  input: StatusInput,
  name: string,
  newest: ObservedContainer | undefined,
): ContainerStateTerminated | undefined {
  const exit = input.memory.removedExits.get(name);
  const isEarlier = exit !== undefined && newest !== undefined && exit.attempt < newest.attempt;
  return isEarlier ? terminated(input, exit) : undefined;
}

/** The exit of an earlier instance that is removed, as long as the pod's status still has it. */
function reportedTermination(
  { previousStatus }: StatusInput,
  name: string,
  newest: ObservedContainer | undefined,
): ContainerStateTerminated | undefined {
  if (newest === undefined) return undefined;
  const reported = previousStatus.containers.get(name);
  const isOfOtherInstance = ({ containerID }: ContainerStateTerminated) =>
    containerID !== undefined && !containerID.endsWith(`//${newest.id}`);
  return [reported?.state?.terminated, reported?.lastState?.terminated].find(
    (end) => end !== undefined && isOfOtherInstance(end),
  );
}

/** The limit of all termination messages of a pod, in bytes; each container has an equal share of it. */
const MAX_POD_MESSAGE_BYTES = 12 * 1024;

const maxMessageBytesOf = ({ spec }: Pod) => Math.floor(MAX_POD_MESSAGE_BYTES / allContainers(spec).length);

function terminated({ desired, settings }: StatusInput, exited: ExitedContainer): ContainerStateTerminated {
  const { exitCode, reason, message, startedAt, finishedAt } = exited;
  return {
    exitCode,
    reason: reason || (exitCode === 0 ? "Completed" : "Error"),
    ...(message === "" ? {} : { message: truncateUtf8(message, maxMessageBytesOf(desired.pod)) }),
    // For a failed start the runtime reports 1970, and so does the kubelet; an inferred exit has no times.
    ...(startedAt === 0 && isInferredExit(exited) ? {} : { startedAt: formatTime(startedAt) }),
    ...(finishedAt === 0 ? {} : { finishedAt: formatTime(finishedAt) }),
    ...(isInferredExit(exited) ? {} : { containerID: `${settings.runtimeName}://${exited.id}` }),
  };
}
