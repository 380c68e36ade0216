import {
  allContainers,
  isEphemeral,
  isSidecar,
  runsToItsEnd,
  statusNamed,
  statusOfInstance,
} from "../../../proto/kubernetes/containers.ts";
import type {
  Container,
  ContainerState,
  ContainerStateTerminated,
  ContainerStatus,
  Pod,
  VolumeMountStatus,
} from "../../../proto/kubernetes/gen/types.ts";
import { whyNoReference } from "../../../proto/kubernetes/image-reference.ts";
import { formatTime } from "../../../proto/kubernetes/time.ts";
import { beginningOf } from "../../../proto/utf8.ts";
import { isOutdated } from "../container/container-hash.ts";
import { imageNeed, imageOf, wordsOfPullFailure } from "../container/image.ts";
import { containersInTurn, ephemeralInTurn, hasHadItsTurn, isInitialized } from "../container/initialization.ts";
import { isConcluded, toldExit } from "../container/missing-containers.ts";
import { isCleared, removedToRestart } from "../container/removed-for-restart.ts";
import { resourcesOfInstance } from "../container/resize.ts";
import { endNewsUntil, isForgiven, restartAt, restartDelayMs, shouldRestart } from "../container/restart.ts";
import { isRestartingAll } from "../container/restart-all.ts";
import { sandboxNeed } from "../container/sandbox.ts";
import { formatGoDuration } from "../go-duration.ts";
import { type Failure, hookFailureOf, type PodMemory, pullNewsUntil } from "../pod/memory.ts";
import { awaitsHook, type ExitedContainer, healthOf, newestOf, type ObservedContainer } from "../pod/observed.ts";
import { awaitsNetwork, awaitsPullSecrets, awaitsRuntimeClass, awaitsServices } from "../pod/prerequisites.ts";
import { isFinal } from "../pod/stage.ts";
import type { StatusScene } from "./status-input.ts";

/** One entry of `status.containerStatuses`, or of the lists of the other kinds, as the API documents it. */
export function containerStatus(scene: StatusScene, container: Container): ContainerStatus {
  const { desired, observed, settings } = scene;
  const { pod } = desired;
  const newest = newestOf(observed, container.name);
  const state = stateOf(scene, container, newest);
  const told = newest !== undefined && isConcluded(newest) ? toldExit(pod, container.name) : undefined;
  // Nothing of the container is left here: the API server was told more of its end than anybody knows now.
  if (state.terminated !== undefined && told?.restartCount === newest?.attempt && told !== undefined) return told;
  const last = lastTermination(scene, container.name, newest, state);
  const runsOnce = runsToItsEnd(pod, container);
  const health = newest && healthOf(observed, newest);
  const shown = isAboutToStart(scene, newest) ? undefined : newest;
  return {
    name: container.name,
    state,
    ...(last === undefined ? {} : { lastState: { terminated: last } }),
    ...(isEphemeral(pod, container.name)
      ? { ready: false }
      : {
          ready: runsOnce ? state.terminated?.exitCode === 0 : health?.isReady === true,
          started: health?.isStarted === true,
        }),
    restartCount: newest?.attempt ?? unseenAttempt(scene, container),
    image: shown?.image || (container.image ?? ""),
    imageID: shown?.imageRef ?? "",
    ...(shown === undefined || isConcluded(shown)
      ? {}
      : { containerID: `${settings.runtimeName}://${shown.id}`, ...resourcesOfInstance(pod, container, shown.id) }),
    ...(shown?.user === undefined ? {} : { user: { linux: shown.user } }),
    ...(settings.tellsStopSignals === true && shown?.stopSignal !== undefined && { stopSignal: shown.stopSignal }),
    ...(container.volumeMounts === undefined ? {} : { volumeMounts: container.volumeMounts.map(mountStatus) }),
  };
}

/** The number of an instance that is not there: of one that was removed to begin anew, the next one's. */
function unseenAttempt({ observed, memory }: StatusScene, { name }: Container): number {
  const cleared = observed.clearedAttempts.get(name);
  return cleared === undefined ? (memory.attempts.get(name) ?? 0) : cleared + 1;
}

/**
 * Between its creation and its start a first instance is shown as it was before, as by the kubelet: a status that lasts for some ten
 * milliseconds would be one more request of each start. What keeps it from starting shows it, and what was told of it stays told.
 */
function isAboutToStart({ desired, memory }: StatusScene, newest: ObservedContainer | undefined): boolean {
  if (newest?.state !== "created" || newest.attempt !== 0 || memory.failures.has(`container ${newest.name}`))
    return false;
  return statusOfInstance(desired.pod.status, newest.id) === undefined;
}

function mountStatus({ name, mountPath, readOnly }: NonNullable<Container["volumeMounts"]>[number]): VolumeMountStatus {
  return { name, mountPath, ...(readOnly === true ? { readOnly, recursiveReadOnly: "Disabled" } : {}) };
}

function stateOf(scene: StatusScene, container: Container, newest: ObservedContainer | undefined): ContainerState {
  const isOver = isFinal(scene.stage);
  if (newest !== undefined && awaitsHook(scene.observed, newest)) return { waiting: waitingForHook(scene) };
  if (newest?.state === "running") return { running: { startedAt: formatTime(newest.startedAt) } };
  if (newest?.state === "exited") {
    const waiting = scene.stage.kind !== "syncing" ? undefined : waitingAfterExit(scene, container, newest);
    return waiting ?? { terminated: terminated(scene, newest) };
  }
  if (newest === undefined && isBeingRestarted(scene, container)) return { waiting: waitingForRestart };
  const told = newest === undefined ? toldOrAssumed(scene, container) : undefined;
  if (told !== undefined) return told;
  if (newest?.state === "unknown" || (isOver && hadItsTurn(scene, container))) return { terminated: notLocated };
  if (isOver) return { waiting: { reason: "PodInitializing" } };
  return { waiting: waitingBeforeStart(scene, container, newest) };
}

/** A container has not started for anybody before its hook has succeeded. The kubelet says no more than the reason. */
function waitingForHook({ desired }: StatusScene): NonNullable<ContainerState["waiting"]> {
  const hasInit = (desired.pod.spec.initContainers ?? []).length > 0;
  return {
    reason: hasInit ? "PodInitializing" : "ContainerCreating",
    message: "its postStart hook has not succeeded yet",
  };
}

const waitingForRestart = { reason: removedToRestart.reason ?? "", message: removedToRestart.message ?? "" };

/** It was removed to begin anew, and nothing of its pod has begun yet. */
function isBeingRestarted({ desired: { pod }, observed, stage }: StatusScene, { name }: Container): boolean {
  if (stage.kind !== "syncing" || !observed.clearedAttempts.has(name)) return false;
  return isCleared(pod, observed) || isRestartingAll(pod, observed);
}

/** What Kubernetes says of a container of which nobody knows how it ended. */
const notLocated: ContainerStateTerminated = {
  exitCode: 137,
  reason: "ContainerStatusUnknown",
  message: "The container could not be located when the pod was terminated",
};

/** What Kubernetes says of an init container that is gone while those for which it ran are there. */
const assumedDone: ContainerStateTerminated = {
  exitCode: 0,
  reason: "Completed",
  message:
    "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
};

/** Of an init container that has had its turn and of which nothing is left. */
function toldOrAssumed({ desired: { pod }, observed }: StatusScene, container: Container): ContainerState | undefined {
  if (!hasHadItsTurn(pod, observed, observed.sandboxes[0]?.id, container)) return undefined;
  return toldExit(pod, container.name)?.state ?? (isSidecar(container) ? undefined : { terminated: assumedDone });
}

/** Whether an app container of the pod has begun, in whatever sandbox. */
function hasBegun({ desired, observed }: StatusScene): boolean {
  return desired.pod.spec.containers.some(({ name }) => newestOf(observed, name) !== undefined);
}

/**
 * Whether a container of a pod that has ended may have begun without a trace. Those behind an init container that never let them begin
 * wait for ever; of the init containers the first is taken to have begun.
 */
function hadItsTurn({ desired, observed, ...scene }: StatusScene, { name }: Container): boolean {
  // What nobody has seen to begin may be about to be added when the pod ended.
  if (isEphemeral(desired.pod, name)) return false;
  const { initContainers = [] } = desired.pod.spec;
  const place = initContainers.findIndex((each) => each.name === name);
  if (observed.clearedAttempts.has(name)) return true;
  const hasRun = (each: Container) => (newestOf(observed, each.name)?.state ?? "created") !== "created";
  if (place >= 0) return place === 0 || initContainers.slice(place).some(hasRun);
  return hasBegun({ desired, observed, ...scene }) || isInitialized(desired.pod, observed, observed.sandboxes[0]?.id);
}

/** An exited container waits, and says for what, only when it will run again and cannot yet. */
function waitingAfterExit(
  scene: StatusScene,
  container: Container,
  exited: ExitedContainer,
): ContainerState | undefined {
  const { desired, memory, settings, now } = scene;
  // Another image has no crashes behind it: nothing is waited for but what keeps it from starting.
  const isChanged = isOutdated(container, exited);
  if (!isChanged && !shouldRestart(desired.pod, container, exited)) return undefined;
  const due = isChanged ? exited.finishedAt : restartAt(exited, settings.maxContainerRestartPeriodMs, now);
  const isDue = due <= now;
  // A start that failed is what the last state tells; what the container waits for then is the back-off.
  const failedAt = memory.failures.get(`container ${container.name}`)?.at ?? due;
  const failure = isDue && failedAt >= due ? failureOf(scene, container, exited) : undefined;
  if (failure !== undefined) return { waiting: failure };
  const startsAtOnce = isDue && (isChanged || exited.crashes === 0 || isForgiven(exited));
  const hook = hookFailureOf(memory, exited.id);
  if (hook !== undefined && (startsAtOnce || now < endNewsUntil(exited, due)))
    return { waiting: hookFailure(desired.pod, hook) };
  // The wait is shown until the next instance exists: the moment between its end and that is no other state.
  if (startsAtOnce) return undefined;
  const { namespace = "default", name = "" } = desired.pod.metadata;
  const delay = formatGoDuration(restartDelayMs(exited.crashes, settings.maxContainerRestartPeriodMs));
  const message = `back-off ${delay} restarting failed container=${container.name} pod=${name}_${namespace}(${desired.uid})`;
  return { waiting: { reason: "CrashLoopBackOff", message } };
}

function hookFailure(pod: Pod, { reason, message, told }: Failure): NonNullable<ContainerState["waiting"]> {
  return { reason, message: beginningOf(told ?? message, longestMessageOf(pod)) };
}

function waitingBeforeStart(
  scene: StatusScene,
  container: Container,
  newest: ObservedContainer | undefined,
): NonNullable<ContainerState["waiting"]> {
  const { desired, observed, memory, settings, now } = scene;
  const hasInit = (desired.pod.spec.initContainers ?? []).length > 0;
  const { pod } = desired;
  const inTurn = [...containersInTurn(pod, observed, observed.sandboxes[0]?.id), ...ephemeralInTurn(pod, observed)];
  const reason = hasInit ? "PodInitializing" : "ContainerCreating";
  // What keeps those before it from their turn is told of them.
  if (!inTurn.includes(container)) return { reason };
  const failure = failureOf(scene, container, newest);
  if (failure !== undefined) return failure;
  const services = newest === undefined ? awaitsServices(desired, settings) : undefined;
  // Until then it waits for what every container waits for.
  const hasSandbox = sandboxNeed(desired.pod, observed, now).kind === "ready";
  const isNext = hasSandbox && isImageReady(scene, container);
  if (services !== undefined && isNext) return { reason: "CreateContainerConfigError", message: services };
  // The reason is the kubelet's; the message, which it leaves out, says what the pod is waiting for.
  const held =
    desired.waitsFor === undefined ? undefined : `the pod of this name with uid ${desired.waitsFor} has to end first`;
  const network = hasSandbox ? undefined : awaitsNetwork(desired, settings);
  const outage = [...memory.failures.values()].find(({ isOutage }) => isOutage);
  const obstacle = memory.failures.get("volumes") ?? memory.failures.get("sandbox") ?? outage;
  const awaited = awaitsRuntimeClass(desired, settings) ?? pullUnderWay(imageOf(container), memory);
  const message = held ?? network ?? obstacle?.message ?? awaited;
  return { reason, ...(message === undefined ? {} : { message }) };
}

function isImageReady({ observed, memory }: StatusScene, container: Container): boolean {
  return imageNeed(container, observed, memory).kind === "ready";
}

function pullUnderWay(image: string, { pulls }: PodMemory): string | undefined {
  const pull = pulls.get(image);
  switch (pull?.state) {
    case "queued":
      return `the pull of image "${image}" waits for pulls that began before it`;
    case "pulling":
      return `image "${image}" is being pulled since ${formatTime(pull.since)}`;
    case "pulled":
    case undefined:
      return undefined;
  }
}

/** Why this very container cannot start, in the words that Kubernetes has for it. */
function failureOf(
  { desired, observed, memory, settings, now }: StatusScene,
  container: Container,
  previous: ObservedContainer | undefined,
): NonNullable<ContainerState["waiting"]> | undefined {
  const image = imageOf(container);
  const own = memory.failures.get(`container ${container.name}`);
  if (own !== undefined && !own.isOutage) return { reason: own.reason, message: own.message };
  const pull = memory.failures.get(`image ${image}`);
  const need = previous?.state === "created" ? undefined : imageNeed(container, observed, memory);
  if (pull !== undefined && !pull.isOutage && need?.kind !== "ready") return pullFailure(container, pull, now);
  if (need?.kind === "uninspectable")
    return {
      reason: "ImageInspectError",
      message: `Failed to inspect image "${container.image ?? ""}": ${need.message}`,
    };
  if (need?.kind === "invalid")
    return {
      reason: "InvalidImageName",
      message: `Failed to apply default image tag "${container.image ?? ""}": couldn't parse image name "${container.image ?? ""}": ${whyNoReference(container.image ?? "")}`,
    };
  if (need?.kind === "missing" && !awaitsPullSecrets(desired.pod, settings))
    return {
      reason: "ErrImageNeverPull",
      message: `Container image "${container.image ?? ""}" is not present with pull policy of Never`,
    };
  return undefined;
}

/** A failed pull is an error for the first half of its back-off, and a back-off for the second; users know both words. */
function pullFailure({ image = "" }: Container, failure: Failure, now: number): NonNullable<ContainerState["waiting"]> {
  const { reason } = failure;
  const message = wordsOfPullFailure(image, failure);
  if (now < pullNewsUntil(failure, now)) return { reason, message };
  return { reason: "ImagePullBackOff", message: `Back-off pulling image "${image}": ${reason}: ${message}` };
}

/** The end of the instance before; where the newest one's end is shown as the state already, of the one before that. */
function lastTermination(
  scene: StatusScene,
  name: string,
  newest: ObservedContainer | undefined,
  state: ContainerState,
): ContainerStateTerminated | undefined {
  const isShownAlready = state.terminated !== undefined;
  const exits = scene.observed.containers.filter((c): c is ExitedContainer => c.name === name && c.state === "exited");
  const [last] = isShownAlready ? exits.filter(({ id }) => id !== newest?.id) : exits;
  if (last !== undefined) return terminated(scene, last);
  const cleared = scene.observed.clearedAttempts.get(name);
  const isOfCleared = cleared !== undefined && cleared + 1 === (newest?.attempt ?? cleared + 1);
  return isOfCleared ? removedToRestart : toldTermination(scene, name, newest);
}

/** The end of an earlier instance that is here no more, as long as the API server still knows of it. */
function toldTermination(
  { desired }: StatusScene,
  name: string,
  newest: ObservedContainer | undefined,
): ContainerStateTerminated | undefined {
  if (newest === undefined) return undefined;
  const told = statusNamed(desired.pod.status, name);
  const isOfAnother = ({ containerID }: ContainerStateTerminated) =>
    containerID !== undefined && !containerID.endsWith(`//${newest.id}`);
  return [told?.state?.terminated, told?.lastState?.terminated].find((end) => end !== undefined && isOfAnother(end));
}

/** All messages of a pod together, in bytes; each container has its share, so that no status outgrows the API. */
const MESSAGES_OF_A_POD = 12 * 1024;

const longestMessageOf = ({ spec }: Pod) => Math.floor(MESSAGES_OF_A_POD / allContainers(spec).length);

function terminated({ desired, settings }: StatusScene, exited: ExitedContainer): ContainerStateTerminated {
  const { exitCode, reason, message, startedAt, finishedAt } = exited;
  return {
    exitCode,
    reason: reason || (exitCode === 0 ? "Completed" : "Error"),
    ...(message === "" ? {} : { message: beginningOf(message, longestMessageOf(desired.pod)) }),
    // Of a start that failed the runtime tells 1970, and so does the kubelet; of an end that nobody saw there is nothing to tell.
    ...(startedAt === 0 && isConcluded(exited) ? {} : { startedAt: formatTime(startedAt) }),
    ...(finishedAt === 0 ? {} : { finishedAt: formatTime(finishedAt) }),
    ...(isConcluded(exited) ? {} : { containerID: `${settings.runtimeName}://${exited.id}` }),
  };
}
