import type { Container, ContainerStatus, PodPhase, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/time.ts";
import { isInitialized } from "../container/initialization.ts";
import { isCleared } from "../container/removed-for-restart.ts";
import { generationOf } from "../generation.ts";
import { type DesiredNow, startTimeOf } from "../pod/desired.ts";
import type { PodMemory } from "../pod/memory.ts";
import { awaitsHook } from "../pod/observed.ts";
import { isFinal, outcomeIn } from "../pod/stage.ts";
import { podConditions } from "./conditions.ts";
import { containerStatus } from "./container-status.ts";
import { addressesOf } from "./pod-ips.ts";
import { qosClassOf } from "./qos.ts";
import type { StatusScene } from "./status-input.ts";

/** The pod's status as the API documents it, and the memory of its conditions that goes with it. */
export function podStatus(scene: StatusScene): {
  readonly status: PodStatus;
  readonly conditions: PodMemory["conditions"];
} {
  const { desired, observed, settings, stage } = scene;
  const { pod } = desired;
  const isRejected = outcomeIn(stage)?.isRejection === true;
  if (isRejected && isFinal(stage)) return rejectedStatus(scene);
  const statusesOf = (containers: readonly Container[] = []) =>
    isRejected ? [] : containers.map((container) => containerStatus(scene, container));
  const statuses = statusesOf(pod.spec.containers).toSorted(byName);
  const ofInit = statusesOf(pod.spec.initContainers);
  const ofEphemeral = statusesOf(pod.spec.ephemeralContainers).toSorted(byName);
  const phase = podPhase(scene, statuses);
  const isCut = isCutShort(scene, statuses);
  const { list, conditions } = podConditions(scene, phase, { init: ofInit, app: statuses }, isCut);
  const { hostIPs } = settings;
  const podIPs = addressesOf(pod, observed, hostIPs);
  const [hostIP] = hostIPs;
  const [podIP] = podIPs;
  // Reason and message belong to the end of the pod; until its containers have stopped it still is what it was.
  const outcome = isFinal(stage) ? outcomeIn(stage) : undefined;
  const status: PodStatus = {
    phase,
    ...(outcome?.reason === undefined ? {} : { reason: outcome.reason }),
    ...(outcome?.message === undefined ? {} : { message: outcome.message }),
    conditions: list,
    ...(hostIP === undefined ? {} : { hostIP, hostIPs: hostIPs.map((ip) => ({ ip })) }),
    ...(podIP === undefined ? {} : { podIP, podIPs: podIPs.map((ip) => ({ ip })) }),
    startTime: formatTime(startTimeOf(desired)),
    ...(ofInit.length === 0 ? {} : { initContainerStatuses: ofInit }),
    ...(statuses.length === 0 ? {} : { containerStatuses: statuses }),
    ...(ofEphemeral.length === 0 ? {} : { ephemeralContainerStatuses: ofEphemeral }),
    qosClass: qosClassOf(pod),
    ...generationOf(desired),
  };
  return { status, conditions };
}

const byName = (a: ContainerStatus, b: ContainerStatus) => (a.name < b.name ? -1 : 1);

/** As the kubelet says it, with not one word of containers and conditions: nothing has begun of which they could tell. */
function rejectedStatus({ desired, memory: { conditions }, stage }: StatusScene): ReturnType<typeof podStatus> {
  const { reason, message } = outcomeIn(stage) ?? {};
  const status: PodStatus = {
    phase: "Failed",
    ...(reason === undefined ? {} : { reason }),
    ...(message === undefined ? {} : { message }),
    conditions: [],
    startTime: formatTime(startTimeOf(desired)),
    qosClass: qosClassOf(desired.pod),
    ...generationOf(desired),
  };
  return { status, conditions };
}

/** True for a pod that was taken away before all of it has run once. */
function isCutShort({ stage }: StatusScene, statuses: readonly ContainerStatus[]): boolean {
  const hasNeverRun = ({ restartCount, containerID, state }: ContainerStatus) =>
    restartCount === 0 &&
    containerID === undefined &&
    (state?.waiting !== undefined || state?.terminated?.reason === "ContainerStatusUnknown");
  return isFinal(stage) && outcomeIn(stage) === undefined && statuses.some(hasNeverRun);
}

/** True for what `unseenStatus` says: it is for the people at this node, and never told to an API server that may know more. */
export function isUnseen(status: PodStatus): boolean {
  return status.conditions === undefined;
}

/**
 * What can be said of a pod that nobody could look at yet, or that the node has not taken yet: that it is wanted. As the kubelet does
 * while its runtime is away, nothing is said of its containers: they may run since the days of an earlier agent. The kubelet leaves out
 * `why`.
 */
export function unseenStatus(desired: DesiredNow, why: string): PodStatus {
  return {
    phase: "Pending",
    message: why,
    startTime: formatTime(startTimeOf(desired)),
    qosClass: qosClassOf(desired.pod),
  };
}

/**
 * The phase, from the containers: Pending until the pod is initialized and each has run once, then Running. Succeeded and Failed are for a pod that has come to
 * its end by itself, and are said only when nothing of it runs any more. A pod of the API that is deleted has come to its end then,
 * whether all of it succeeded or not; a static pod that is taken away stays what it was.
 */
function podPhase({ desired, observed, stage }: StatusScene, statuses: readonly ContainerStatus[]): PodPhase {
  const outcome = outcomeIn(stage);
  if (isFinal(stage) && outcome !== undefined) return outcome.phase;
  if (isFinal(stage) && desired.source.kind === "api")
    return statuses.every(({ state }) => state?.terminated?.exitCode === 0) ? "Succeeded" : "Failed";
  const hasRun = (name: string) =>
    observed.clearedAttempts.has(name) ||
    observed.containers.some((each) => each.name === name && each.state !== "created" && !awaitsHook(observed, each));
  const { pod } = desired;
  const [sandbox] = observed.sandboxes;
  const begins = sandbox?.ready === true && !isCleared(pod, observed) && !isInitialized(pod, observed, sandbox.id);
  return !begins && pod.spec.containers.every(({ name }) => hasRun(name)) ? "Running" : "Pending";
}
