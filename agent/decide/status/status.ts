import type { Container, ContainerStatus, PodPhase, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import { isInitialized } from "../container/initialization.ts";
import { isRemovedForRestart } from "../container/removed-for-restart.ts";
import { type DesiredPodView, startTimeOf } from "../pod/desired.ts";
import type { PodMemory } from "../pod/memory.ts";
import { awaitsPostStart } from "../pod/observed.ts";
import { haveContainersStopped, outcomeOfStage } from "../pod/stage.ts";
import { observedGenerationOf, podConditions } from "./conditions.ts";
import { containerStatus } from "./container-status.ts";
import { addressesOf } from "./pod-ips.ts";
import { podResources } from "./pod-resources.ts";
import { qosClassOf } from "./qos.ts";
import type { StatusInput } from "./status-input.ts";

/** The pod's status as the API documents it, and the updated memory of its conditions. */
export function podStatus(input: StatusInput): {
  readonly status: PodStatus;
  readonly conditions: PodMemory["conditions"];
} {
  const { desired, observed, settings, stage } = input;
  const { pod } = desired;
  const isRejected = outcomeOfStage(stage)?.isRejection === true;
  if (isRejected && haveContainersStopped(stage)) return rejectedStatus(input);
  const statusesOf = (containers: readonly Container[] = []) =>
    isRejected ? [] : containers.map((container) => containerStatus(input, container));
  const appStatuses = statusesOf(pod.spec.containers);
  const statuses = appStatuses.toSorted(byName);
  const initStatuses = statusesOf(pod.spec.initContainers);
  const ephemeralStatuses = statusesOf(pod.spec.ephemeralContainers).toSorted(byName);
  const phase = podPhase(input, statuses);
  const isRemovedBeforeRun = wasRemovedBeforeRun(input, statuses);
  const containers = { init: initStatuses, app: appStatuses };
  const { conditions, conditionMemory } = podConditions(input, phase, containers, isRemovedBeforeRun);
  const { hostIPs } = settings;
  const podIPs = addressesOf(pod, observed, hostIPs);
  const [hostIP] = hostIPs;
  const [podIP] = podIPs;
  // Reason and message describe the outcome: they are reported only after all containers have stopped.
  const outcome = haveContainersStopped(stage) ? outcomeOfStage(stage) : undefined;
  const status: PodStatus = {
    phase,
    ...(outcome?.reason === undefined ? {} : { reason: outcome.reason }),
    ...(outcome?.message === undefined ? {} : { message: outcome.message }),
    conditions,
    ...(hostIP === undefined ? {} : { hostIP, hostIPs: hostIPs.map((ip) => ({ ip })) }),
    ...(podIP === undefined ? {} : { podIP, podIPs: podIPs.map((ip) => ({ ip })) }),
    startTime: formatTime(startTimeOf(desired)),
    ...(initStatuses.length === 0 ? {} : { initContainerStatuses: initStatuses }),
    ...(statuses.length === 0 ? {} : { containerStatuses: statuses }),
    ...(ephemeralStatuses.length === 0 ? {} : { ephemeralContainerStatuses: ephemeralStatuses }),
    qosClass: qosClassOf(pod),
    ...podResources(pod, phase, [...initStatuses, ...statuses]),
    ...observedGenerationOf(desired),
  };
  return { status, conditions: conditionMemory };
}

const byName = (a: ContainerStatus, b: ContainerStatus) => (a.name < b.name ? -1 : 1);

/** The kubelet's status of a rejected pod: no container statuses and no conditions, since nothing was started. */
function rejectedStatus({ desired, memory: { conditions }, stage }: StatusInput): ReturnType<typeof podStatus> {
  const { reason, message } = outcomeOfStage(stage) ?? {};
  const status: PodStatus = {
    phase: "Failed",
    ...(reason === undefined ? {} : { reason }),
    ...(message === undefined ? {} : { message }),
    conditions: [],
    startTime: formatTime(startTimeOf(desired)),
    qosClass: qosClassOf(desired.pod),
    ...observedGenerationOf(desired),
  };
  return { status, conditions };
}

/** True for a pod that was removed before each of its containers has run once. */
function wasRemovedBeforeRun({ stage }: StatusInput, statuses: readonly ContainerStatus[]): boolean {
  const hasNeverRun = ({ restartCount, containerID, state }: ContainerStatus) =>
    restartCount === 0 &&
    containerID === undefined &&
    (state?.waiting !== undefined || state?.terminated?.reason === "ContainerStatusUnknown");
  return haveContainersStopped(stage) && outcomeOfStage(stage) === undefined && statuses.some(hasNeverRun);
}

/**
 * True for a status made by `unobservedStatus`: it is for local users only and never sent to the API server, which may
 * know more.
 */
export function isUnobservedStatus(status: PodStatus): boolean {
  return status.conditions === undefined;
}

/**
 * The local status of a pod that was not observed or not admitted yet. Like the kubelet during an outage of the
 * runtime, it reports no containers: they may run since an earlier agent. The kubelet has no message here.
 */
export function unobservedStatus(desired: DesiredPodView, why: string): PodStatus {
  return {
    phase: "Pending",
    message: why,
    startTime: formatTime(startTimeOf(desired)),
    qosClass: qosClassOf(desired.pod),
  };
}

/**
 * The phase, computed from the containers: Pending until the pod is initialized and each container has run once, then
 * Running. Succeeded and Failed are for a completed pod, and only after all its containers have stopped. A deleted pod
 * of the API is then complete as well; a static pod whose manifest is removed keeps its phase.
 */
function podPhase({ desired, observed, stage }: StatusInput, statuses: readonly ContainerStatus[]): PodPhase {
  const outcome = outcomeOfStage(stage);
  if (haveContainersStopped(stage) && outcome !== undefined) return outcome.phase;
  if (haveContainersStopped(stage) && desired.source.kind === "api")
    return statuses.every(({ state }) => state?.terminated?.exitCode === 0) ? "Succeeded" : "Failed";
  const hasRun = (name: string) =>
    observed.removedAttempts.has(name) ||
    observed.containers.some(
      (each) => each.name === name && each.state !== "created" && !awaitsPostStart(observed, each),
    );
  const { pod } = desired;
  const [sandbox] = observed.sandboxes;
  const isInitializing =
    sandbox?.ready === true && !isRemovedForRestart(pod, observed) && !isInitialized(pod, observed, sandbox.id);
  return !isInitializing && pod.spec.containers.every(({ name }) => hasRun(name)) ? "Running" : "Pending";
}
