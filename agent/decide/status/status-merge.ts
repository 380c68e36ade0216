import { allContainerStatuses, containerNamed } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, Pod, PodCondition, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/time.ts";
import { shouldRestart } from "../container/restart.ts";
import { isTerminal } from "../sources/api-pod.ts";

/** The conditions that a node agent owns; all others belong to controllers, and stay as they are. */
const OWN_CONDITIONS: ReadonlySet<string> = new Set([
  "PodScheduled",
  "Ready",
  "Initialized",
  "ContainersReady",
  "PodReadyToStartContainers",
  "PodResizePending",
  "PodResizeInProgress",
  "AllContainersRestarting",
]);
/** A node agent may set it too, but only together with the end that it explains. */
const SHARED_CONDITION = "DisruptionTarget";

/**
 * The status that a pod is to have in the API: what we want it to be, within what a status may become. The rules are the
 * kubelet's:
 *
 * - a terminal phase is final, is not told while a container may run, and is never told of a ready pod;
 * - a container that must not run again, and has ended, stays ended, as long as nobody speaks of a later instance;
 * - how an instance has ended stays told where nobody knows it any more (an agent may have begun without the API server's word, a runtime
 *   have been killed before it had written it down);
 * - a condition that keeps its status keeps its time, and no change comes before the one before it;
 * - the start, the QoS class, and an address once known stay; `observedGeneration` never falls back;
 * - what others own is not ours to touch.
 */
export function mergeStatus({ spec, status: before = {} }: Pod, wanted: PodStatus, now: number): PodStatus {
  const merged = (list: ContainerList) =>
    (wanted[list] ?? before[list])?.map((status) => keepEnded(spec, before[list], status));
  const told = withoutUndefined<PodStatus>({
    ...phaseOf(before, wanted),
    startTime: before.startTime ?? wanted.startTime,
    qosClass: before.qosClass ?? wanted.qosClass,
    hostIP: wanted.hostIP ?? before.hostIP,
    hostIPs: wanted.hostIPs ?? before.hostIPs,
    podIP: wanted.podIP ?? before.podIP,
    podIPs: wanted.podIPs ?? before.podIPs,
    observedGeneration: later(before.observedGeneration, wanted.observedGeneration),
    initContainerStatuses: merged("initContainerStatuses"),
    containerStatuses: merged("containerStatuses"),
    ephemeralContainerStatuses: merged("ephemeralContainerStatuses"),
  });
  const conditions = mergeConditions(before, wanted, now);
  return { ...told, conditions: isTerminal(told) ? conditions.map(unready(before, told, now)) : conditions };
}

type ContainerList = "initContainerStatuses" | "containerStatuses" | "ephemeralContainerStatuses";

type Phase = Pick<PodStatus, "phase" | "reason" | "message">;

function phaseOf(before: PodStatus, wanted: PodStatus): Loose<Phase> {
  const isWithdrawn = isTerminal(before) && wanted.phase !== before.phase;
  const isEarly = !isTerminal(before) && isTerminal(wanted) && mayStillRun(wanted);
  const { phase, reason, message } = isWithdrawn || isEarly ? before : wanted;
  if (phase !== before.phase) return { phase, reason, message };
  // What somebody else has said of this phase stays said.
  return { phase, reason: reason ?? before.reason, message: message ?? before.message };
}

function mayStillRun(status: PodStatus): boolean {
  return allContainerStatuses(status).some(({ state }) => state?.running);
}

function keepEnded(
  spec: Pod["spec"],
  before: readonly ContainerStatus[] | undefined,
  wanted: ContainerStatus,
): ContainerStatus {
  const told = before?.find(({ name }) => name === wanted.name);
  const ended = told?.state?.terminated;
  if (told === undefined) return wanted;
  if (!ended) return keepIdentity(told, wanted);
  const isLaterInstance = wanted.restartCount > told.restartCount;
  const isGuess = wanted.state?.terminated?.reason === "ContainerStatusUnknown";
  if (isGuess && !isLaterInstance) return told;
  // A runtime that was killed before it had written the end down makes one up: containerd's is 255, `Unknown`.
  const isSame = told.containerID !== undefined && wanted.containerID === told.containerID;
  if (isSame && wanted.state?.terminated?.reason === "Unknown") return told;
  if (wanted.state?.terminated) return wanted;
  const container = containerNamed({ spec }, wanted.name) ?? { name: wanted.name };
  return isLaterInstance || shouldRestart({ metadata: {}, spec }, container, ended) ? wanted : told;
}

/** An instance that waits to be started is not unmade by an agent that has not heard of it yet. */
function keepIdentity(told: ContainerStatus, wanted: ContainerStatus): ContainerStatus {
  const { containerID, image, imageID, restartCount } = told;
  const isForgotten = containerID && wanted.containerID === undefined && wanted.state?.waiting !== undefined;
  return isForgotten && wanted.restartCount === restartCount ? { ...wanted, containerID, image, imageID } : wanted;
}

/** Those of others first, as they are; then ours, in our order. */
function mergeConditions(before: PodStatus, wanted: PodStatus, now: number): readonly PodCondition[] {
  const known = before.conditions ?? [];
  const isEnd = !isTerminal(before) && isTerminal(wanted) && !mayStillRun(wanted);
  const shared = isEnd ? wanted.conditions?.find(({ type }) => type === SHARED_CONDITION) : undefined;
  const others = known.filter(({ type }) => !OWN_CONDITIONS.has(type) && type !== shared?.type);
  const ours = (wanted.conditions ?? []).filter(({ type }) => OWN_CONDITIONS.has(type));
  const disruption = shared === undefined ? [] : [{ ...shared, lastTransitionTime: formatTime(now) }];
  return [...others, ...[...disruption, ...ours].map((condition) => keepTime(known, condition))];
}

function keepTime(known: readonly PodCondition[], wanted: PodCondition): PodCondition {
  const before = known.find(({ type }) => type === wanted.type);
  if (before === undefined) return wanted;
  const lastTransitionTime =
    before.status === wanted.status
      ? before.lastTransitionTime || wanted.lastTransitionTime
      : later(before.lastTransitionTime || undefined, wanted.lastTransitionTime);
  const observedGeneration = later(before.observedGeneration, wanted.observedGeneration);
  return withoutUndefined<PodCondition>({ ...wanted, lastTransitionTime, observedGeneration });
}

/** Whoever has ended the pod may have done so while it was ready. */
function unready(before: PodStatus, { phase }: PodStatus, now: number) {
  const reason = phase === "Succeeded" ? "PodCompleted" : "PodFailed";
  return (condition: PodCondition): PodCondition => {
    const { type, status, observedGeneration } = condition;
    if ((type !== "Ready" && type !== "ContainersReady") || status !== "True") return condition;
    const ended: PodCondition = { type, status: "False", reason, lastTransitionTime: formatTime(now) };
    return keepTime(before.conditions ?? [], withoutUndefined<PodCondition>({ ...ended, observedGeneration }));
  };
}

/** The greater of two; of times, the text of which sorts as they do, the later one. */
function later<T extends number | string>(a: T | undefined, b: T | undefined): T | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a > b ? a : b;
}

type Loose<T> = { readonly [K in keyof T]: object extends Pick<T, K> ? T[K] | undefined : T[K] };

/** Leaves out what has no value: in the API a field is there or it is not. */
function withoutUndefined<T extends object>(fields: Loose<T>): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}
