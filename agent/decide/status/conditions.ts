import { isInitContainer, sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, PodCondition, PodPhase } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import { isRestartingAll, mayRestartAll } from "../container/restart-all.ts";
import { sandboxNeed } from "../container/sandbox.ts";
import type { DesiredPod } from "../pod/desired.ts";
import type { PodMemory } from "../pod/memory.ts";
import { haveContainersStopped, outcomeOfStage } from "../pod/stage.ts";
import { resizeConditions } from "../resize/resize-progress.ts";
import type { StatusInput } from "./status-input.ts";

type OwnConditionType =
  | "DisruptionTarget"
  | "PodReadyToStartContainers"
  | "Initialized"
  | "Ready"
  | "ContainersReady"
  | "PodScheduled"
  | "AllContainersRestarting";

interface ConditionValue {
  readonly type: OwnConditionType;
  readonly status: "True" | "False";
  readonly reason?: string;
  readonly message?: string;
  /** The earliest possible transition time, used only if the memory has none. */
  readonly sinceAtLeast: number;
}

/**
 * The conditions of a pod, in the kubelet's order, each with the time of its last transition. A pod whose outcome is
 * decided has the conditions of its end at once, while its containers still stop: no Service may send it requests.
 */
export function podConditions(
  input: StatusInput,
  phase: PodPhase,
  statuses: ContainerStatuses,
  isRemovedBeforeRun: boolean,
): { readonly conditions: readonly PodCondition[]; readonly conditionMemory: PodMemory["conditions"] } {
  const { desired, memory, now } = input;
  const accepted = desired.acceptedAt;
  const isDone = phase === "Succeeded" || phase === "Failed";
  const phaseAtEnd = outcomeOfStage(input.stage)?.phase ?? phase;
  // A pod that was removed before each container has run once is Failed, and still reports what it was waiting for.
  const ready = containersReady(input, isRemovedBeforeRun ? "Pending" : phaseAtEnd, statuses);
  const values: readonly ConditionValue[] = [
    ...disruptionTarget(input),
    readyToStartContainers(input, isDone),
    { type: "Initialized", ...initialized(input, phaseAtEnd, statuses) },
    { type: "Ready", ...withReadinessGates(input, ready) },
    { type: "ContainersReady", ...ready },
    { type: "PodScheduled", status: "True", sinceAtLeast: accepted },
    ...allContainersRestarting(input, phaseAtEnd),
  ];
  // Drop conditions that are no longer reported, so that a later one gets a new transition time.
  const conditionMemory = new Map<string, { readonly status: string; readonly since: number }>();
  const conditions = values.map(({ type, status, reason, message, sinceAtLeast }) => {
    const remembered = memory.conditions.get(type);
    const since = remembered === undefined ? sinceAtLeast : remembered.status === status ? remembered.since : now;
    conditionMemory.set(type, { status, since });
    return {
      type,
      status,
      ...(reason === undefined ? {} : { reason }),
      ...(message === undefined ? {} : { message }),
      // The kubelet sets it on all conditions but this one.
      ...(type === "AllContainersRestarting" ? {} : observedGenerationOf(desired)),
      lastTransitionTime: formatTime(since),
    };
  });
  return { conditions: [...(isDone ? [] : conditionsOfResize(desired)), ...conditions], conditionMemory };
}

/** Their transition times are in the pod's record, which outlives the agent. */
function conditionsOfResize({ allocation }: DesiredPod): readonly PodCondition[] {
  return (allocation === undefined ? [] : resizeConditions(allocation)).map(({ since, ...condition }) => ({
    ...condition,
    status: "True",
    lastTransitionTime: formatTime(since),
  }));
}

/** The container statuses that conditions depend on. */
interface ContainerStatuses {
  readonly init: readonly ContainerStatus[];
  readonly app: readonly ContainerStatus[];
}

/**
 * Once an app container has started, the pod is initialized, whatever happens to its init containers. `True` is never
 * withdrawn, although a new sandbox and `RestartAllContainers` run the init containers again.
 */
function initialized(
  { desired: { pod, acceptedAt }, previousStatus, observed, memory }: StatusInput,
  phase: PodPhase,
  { init, app }: ContainerStatuses,
): Omit<ConditionValue, "type"> {
  const ends = observed.containers.map((c) =>
    c.state === "exited" && isInitContainer(pod, c.name) ? c.finishedAt : 0,
  );
  const sinceAtLeast = Math.max(acceptedAt, ...ends);
  const isDone = ({ name, ready, started }: ContainerStatus) =>
    sidecarsOf(pod.spec).some((sidecar) => sidecar.name === name) ? started === true : ready;
  if (phase === "Succeeded") return { status: "True", reason: "PodCompleted", sinceAtLeast };
  const incomplete = init.filter((status) => !isDone(status)).map(({ name }) => name);
  const hasStarted = app.some(({ state }) => state?.running || state?.terminated);
  const reported = previousStatus.conditions.get("Initialized")?.status;
  const wasInitialized = (memory.conditions.get("Initialized")?.status ?? reported) === "True";
  if (hasStarted || wasInitialized || incomplete.length === 0) return { status: "True", sinceAtLeast };
  const message = `containers with incomplete status: [${incomplete.join(" ")}]`;
  return { status: "False", reason: "ContainersNotInitialized", message, sinceAtLeast: acceptedAt };
}

/** `DisruptionTarget` explains the terminal phase of a pod that the node itself has ended, and is reported with it. */
function disruptionTarget({ stage }: StatusInput): readonly ConditionValue[] {
  const outcome = haveContainersStopped(stage) ? outcomeOfStage(stage) : undefined;
  if (outcome?.disruption === undefined) return [];
  const { reason, message } = outcome.disruption;
  return [{ type: "DisruptionTarget", status: "True", reason, message, sinceAtLeast: outcome.at }];
}

function readyToStartContainers({ desired, observed, now }: StatusInput, isDone: boolean): ConditionValue {
  const need = sandboxNeed(desired.pod, observed, now);
  const type = "PodReadyToStartContainers";
  if (need.kind === "ready" && !isDone) return { type, status: "True", sinceAtLeast: need.sandbox.createdAt };
  return { type, status: "False", sinceAtLeast: desired.acceptedAt };
}

function containersReady(
  { desired, observed }: StatusInput,
  phase: PodPhase,
  { init, app }: ContainerStatuses,
): Omit<ConditionValue, "type"> {
  const sidecars = new Set(sidecarsOf(desired.pod.spec).map(({ name }) => name));
  const statuses = [...init.filter(({ name }) => sidecars.has(name)), ...app];
  const ends = observed.containers.map((c) => (c.state === "exited" ? c.finishedAt : 0));
  const sinceEnd = Math.max(desired.acceptedAt, ...ends);
  if (phase === "Succeeded") return { status: "False", reason: "PodCompleted", sinceAtLeast: sinceEnd };
  if (phase === "Failed") return { status: "False", reason: "PodFailed", sinceAtLeast: sinceEnd };
  const unready = statuses.filter(({ ready }) => !ready).map(({ name }) => name);
  if (unready.length === 0) {
    const starts = observed.containers.map((c) => (c.state === "running" ? c.startedAt : 0));
    return { status: "True", sinceAtLeast: Math.max(desired.acceptedAt, ...starts) };
  }
  const message = `containers with unready status: [${unready.join(" ")}]`;
  return { status: "False", reason: "ContainersNotReady", message, sinceAtLeast: sinceEnd };
}

/** `AllContainersRestarting` is reported only for a pod with a `RestartAllContainers` rule. */
function allContainersRestarting(
  { desired: { pod, acceptedAt }, observed }: StatusInput,
  phase: PodPhase,
): readonly ConditionValue[] {
  if (!mayRestartAll(pod.spec)) return [];
  const value = { type: "AllContainersRestarting", status: "False", sinceAtLeast: acceptedAt } as const;
  if (phase === "Succeeded") return [{ ...value, reason: "PodCompleted" }];
  if (phase === "Failed") return [{ ...value, reason: "PodFailed" }];
  if (!isRestartingAll(pod, observed)) return [value];
  const message = "container exited with restart policy rule";
  return [{ ...value, status: "True", reason: "RestartAllContainersStarted", message }];
}

/** A pod with ready containers is ready once its readiness gates are `True`: conditions that other controllers set. */
function withReadinessGates(
  { desired: { pod }, previousStatus }: StatusInput,
  ready: Omit<ConditionValue, "type">,
): Omit<ConditionValue, "type"> {
  if (ready.status === "False") return ready;
  const unmetGates = (pod.spec.readinessGates ?? []).flatMap(({ conditionType }) => {
    const gate = previousStatus.conditions.get(conditionType);
    if (gate === undefined) return [`corresponding condition of pod readiness gate "${conditionType}" does not exist.`];
    return gate.status === "True"
      ? []
      : [`the status of pod readiness gate "${conditionType}" is not "True", but ${gate.status}`];
  });
  if (unmetGates.length === 0) return ready;
  const { sinceAtLeast } = ready;
  return { status: "False", reason: "ReadinessGatesNotReady", message: unmetGates.join(", "), sinceAtLeast };
}

/** The pod generation that a status is based on; absent for a static pod. */
export function observedGenerationOf({ pod: { metadata }, source }: DesiredPod): {
  readonly observedGeneration?: number;
} {
  const { generation } = metadata;
  return source.kind !== "api" || generation === undefined ? {} : { observedGeneration: generation };
}
