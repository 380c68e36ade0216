import { allContainerStatuses, containerNamed } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, Pod, PodCondition, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import { shouldRestart } from "../container/restart.ts";
import { takesExitBack } from "../container/unconfirmed-exits.ts";
import { isTerminal } from "../sources/api-pod.ts";

/** The conditions that a node agent owns. Others belong to controllers and stay as they are. */
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
/** A node agent may set this condition too, but only together with the terminal phase that it explains. */
const SHARED_CONDITION = "DisruptionTarget";

/**
 * The status that a pod gets in the API: the decided status, within what a status may become. The rules are the
 * kubelet's:
 *
 * - a terminal phase is final, is not reported while a container may run, and never together with a ready pod;
 * - a container that must not run again and has terminated stays terminated, until a later instance is reported;
 * - an exit that was just reported is not taken back while the runtime still shows the container running;
 * - a reported exit is kept where this agent does not know it (it started without the API server, or the runtime was
 *   killed before it recorded the exit);
 * - a condition that keeps its status keeps its transition time, and a transition time never decreases;
 * - the startTime, the QoS class and known addresses stay; `observedGeneration` never decreases;
 * - fields of other owners are not touched.
 */
export function mergeStatus({ spec, status: before = {} }: Pod, decided: PodStatus, now: number): PodStatus {
  if (takesExitBack(before, decided, now)) return before;
  const merged = (list: ContainerList) =>
    (decided[list] ?? before[list])?.map((status) => keepEnded(spec, before[list], status));
  const reported = withoutUndefined<PodStatus>({
    ...phaseOf(before, decided),
    startTime: before.startTime ?? decided.startTime,
    qosClass: before.qosClass ?? decided.qosClass,
    allocatedResources: decided.allocatedResources,
    resources: decided.resources,
    hostIP: decided.hostIP ?? before.hostIP,
    hostIPs: decided.hostIPs ?? before.hostIPs,
    podIP: decided.podIP ?? before.podIP,
    podIPs: decided.podIPs ?? before.podIPs,
    observedGeneration: greater(before.observedGeneration, decided.observedGeneration),
    initContainerStatuses: merged("initContainerStatuses"),
    containerStatuses: merged("containerStatuses"),
    ephemeralContainerStatuses: merged("ephemeralContainerStatuses"),
  });
  const conditions = mergeConditions(before, decided, now);
  return {
    ...reported,
    conditions: isTerminal(reported) ? conditions.map(markUnready(before, reported, now)) : conditions,
  };
}

type ContainerList = "initContainerStatuses" | "containerStatuses" | "ephemeralContainerStatuses";

type Phase = Pick<PodStatus, "phase" | "reason" | "message">;

function phaseOf(before: PodStatus, decided: PodStatus): WithUndefined<Phase> {
  const isWithdrawn = isTerminal(before) && decided.phase !== before.phase;
  const isPremature = !isTerminal(before) && isTerminal(decided) && mayStillRun(decided);
  const { phase, reason, message } = isWithdrawn || isPremature ? before : decided;
  if (phase !== before.phase) return { phase, reason, message };
  // Keep the reason and message that another writer has set for this phase.
  return { phase, reason: reason ?? before.reason, message: message ?? before.message };
}

function mayStillRun(status: PodStatus): boolean {
  return allContainerStatuses(status).some(({ state }) => state?.running);
}

function keepEnded(
  spec: Pod["spec"],
  before: readonly ContainerStatus[] | undefined,
  decided: ContainerStatus,
): ContainerStatus {
  const reported = before?.find(({ name }) => name === decided.name);
  const reportedTermination = reported?.state?.terminated;
  if (reported === undefined) return decided;
  if (!reportedTermination) return keepIdentity(reported, decided);
  const isLaterInstance = decided.restartCount > reported.restartCount;
  const isInferred = decided.state?.terminated?.reason === "ContainerStatusUnknown";
  if (isInferred && !isLaterInstance) return reported;
  // If the runtime was killed before it recorded the exit, it makes one up: containerd reports 255, `Unknown`.
  const isSame = reported.containerID !== undefined && decided.containerID === reported.containerID;
  if (isSame && decided.state?.terminated?.reason === "Unknown") return reported;
  if (decided.state?.terminated) return decided;
  const container = containerNamed({ spec }, decided.name) ?? { name: decided.name };
  return isLaterInstance || shouldRestart({ metadata: {}, spec }, container, reportedTermination) ? decided : reported;
}

/** A created instance stays reported while the agent has not observed it yet. */
function keepIdentity(reported: ContainerStatus, decided: ContainerStatus): ContainerStatus {
  const { containerID, image, imageID, restartCount } = reported;
  const isMissing = containerID && decided.containerID === undefined && decided.state?.waiting !== undefined;
  return isMissing && decided.restartCount === restartCount ? { ...decided, containerID, image, imageID } : decided;
}

/** The conditions of other owners first, unchanged; then ours, in our order. */
function mergeConditions(before: PodStatus, decided: PodStatus, now: number): readonly PodCondition[] {
  const known = before.conditions ?? [];
  const isEnd = !isTerminal(before) && isTerminal(decided) && !mayStillRun(decided);
  const shared = isEnd ? decided.conditions?.find(({ type }) => type === SHARED_CONDITION) : undefined;
  const others = known.filter(({ type }) => !OWN_CONDITIONS.has(type) && type !== shared?.type);
  const ours = (decided.conditions ?? []).filter(({ type }) => OWN_CONDITIONS.has(type));
  const disruption = shared === undefined ? [] : [{ ...shared, lastTransitionTime: formatTime(now) }];
  return [...others, ...[...disruption, ...ours].map((condition) => keepTime(known, condition))];
}

function keepTime(known: readonly PodCondition[], decided: PodCondition): PodCondition {
  const before = known.find(({ type }) => type === decided.type);
  if (before === undefined) return decided;
  const lastTransitionTime =
    before.status === decided.status
      ? before.lastTransitionTime || decided.lastTransitionTime
      : greater(before.lastTransitionTime || undefined, decided.lastTransitionTime);
  const observedGeneration = greater(before.observedGeneration, decided.observedGeneration);
  return withoutUndefined<PodCondition>({ ...decided, lastTransitionTime, observedGeneration });
}

/** Another client may have ended the pod while it was ready: sets its readiness to False. */
function markUnready(before: PodStatus, { phase }: PodStatus, now: number) {
  const reason = phase === "Succeeded" ? "PodCompleted" : "PodFailed";
  return (condition: PodCondition): PodCondition => {
    const { type, status, observedGeneration } = condition;
    if ((type !== "Ready" && type !== "ContainersReady") || status !== "True") return condition;
    const unreadyCondition: PodCondition = { type, status: "False", reason, lastTransitionTime: formatTime(now) };
    return keepTime(
      before.conditions ?? [],
      withoutUndefined<PodCondition>({ ...unreadyCondition, observedGeneration }),
    );
  };
}

/** The greater of two values; RFC 3339 times sort as text. */
function greater<T extends number | string>(a: T | undefined, b: T | undefined): T | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a > b ? a : b;
}

type WithUndefined<T> = { readonly [K in keyof T]: object extends Pick<T, K> ? T[K] | undefined : T[K] };

/** Leaves out undefined fields: in the API a field is present or absent. */
function withoutUndefined<T extends object>(fields: WithUndefined<T>): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}
