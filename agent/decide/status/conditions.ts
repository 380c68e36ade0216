import { isInitContainer, sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, PodCondition, PodPhase } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime, parseTime } from "../../../proto/kubernetes/time.ts";
import { awaitingResize, resizeMessage } from "../container/resize.ts";
import { isRestartingAll, mayRestartAll } from "../container/restart-all.ts";
import { sandboxNeed } from "../container/sandbox.ts";
import { generationOf } from "../generation.ts";
import type { PodMemory } from "../pod/memory.ts";
import type { StatusScene } from "./status-input.ts";

type OwnCondition =
  | "PodReadyToStartContainers"
  | "Initialized"
  | "Ready"
  | "ContainersReady"
  | "PodScheduled"
  | "AllContainersRestarting"
  | "PodResizePending";

interface Verdict {
  readonly type: OwnCondition;
  readonly status: "True" | "False";
  readonly reason?: string;
  readonly message?: string;
  /** Since when, as far as the node can tell: used only where nobody remembers a transition. */
  readonly sinceAtLeast: number;
}

/** The conditions of a pod, in the kubelet's order, each with the time of its last change. */
export function podConditions(
  scene: StatusScene,
  phase: PodPhase,
  statuses: ContainerStatuses,
  isCutShort: boolean,
): { readonly list: readonly PodCondition[]; readonly conditions: PodMemory["conditions"] } {
  const { desired, memory, now } = scene;
  const accepted = desired.acceptedAt;
  const isDone = phase === "Succeeded" || phase === "Failed";
  // A pod that is taken away before all of it has run once has failed, and still says what it was waiting for.
  const ready = containersReady(scene, isCutShort ? "Pending" : phase, statuses);
  const verdicts: readonly Verdict[] = [
    networkReady(scene, isDone),
    { type: "Initialized", ...initialized(scene, phase, statuses) },
    { type: "Ready", ...withGates(scene, ready) },
    { type: "ContainersReady", ...ready },
    { type: "PodScheduled", status: "True", sinceAtLeast: accepted },
    ...restarting(scene, phase),
    ...resizePending(scene, isDone),
  ];
  // One that is told no more (a resize that is taken back) is forgotten: the next of its kind is another one.
  const conditions = new Map<string, { readonly status: string; readonly since: number }>();
  const list = verdicts.map(({ type, status, reason, message, sinceAtLeast }) => {
    const known = memory.conditions.get(type);
    const since = known === undefined ? sinceAtLeast : known.status === status ? known.since : now;
    conditions.set(type, { status, since });
    return {
      type,
      status,
      ...(reason === undefined ? {} : { reason }),
      ...(message === undefined ? {} : { message }),
      // The kubelet tells it of all but this one.
      ...(type === "AllContainersRestarting" ? {} : generationOf(desired)),
      lastTransitionTime: formatTime(since),
    };
  });
  return { list, conditions };
}

/** What a pod shows of its containers. */
interface ContainerStatuses {
  readonly init: readonly ContainerStatus[];
  readonly app: readonly ContainerStatus[];
}

/**
 * Once an app container has started the pod has been initialized, whatever becomes of its init containers; and what was told so once is not
 * taken back, although a new sandbox, or the restart of all its containers, begins with the first of them.
 */
function initialized(
  { desired: { pod, acceptedAt }, observed, memory }: StatusScene,
  phase: PodPhase,
  { init, app }: ContainerStatuses,
): Omit<Verdict, "type"> {
  const ends = observed.containers.map((c) =>
    c.state === "exited" && isInitContainer(pod, c.name) ? c.finishedAt : 0,
  );
  const sinceAtLeast = Math.max(acceptedAt, ...ends);
  const isDone = ({ name, ready, started }: ContainerStatus) =>
    sidecarsOf(pod.spec).some((sidecar) => sidecar.name === name) ? started === true : ready;
  if (phase === "Succeeded") return { status: "True", reason: "PodCompleted", sinceAtLeast };
  const open = init.filter((status) => !isDone(status)).map(({ name }) => name);
  const hasStarted = app.some(({ state }) => state?.running || state?.terminated);
  const told = pod.status?.conditions?.find(({ type }) => type === "Initialized")?.status;
  const hasBeen = (memory.conditions.get("Initialized")?.status ?? told) === "True";
  if (hasStarted || hasBeen || open.length === 0) return { status: "True", sinceAtLeast };
  const message = `containers with incomplete status: [${open.join(" ")}]`;
  return { status: "False", reason: "ContainersNotInitialized", message, sinceAtLeast: acceptedAt };
}

function networkReady({ desired, observed, now }: StatusScene, isDone: boolean): Verdict {
  const need = sandboxNeed(desired.pod, observed, now);
  const type = "PodReadyToStartContainers";
  if (need.kind === "ready" && !isDone) return { type, status: "True", sinceAtLeast: need.sandbox.createdAt };
  return { type, status: "False", sinceAtLeast: desired.acceptedAt };
}

function containersReady(
  { desired, observed }: StatusScene,
  phase: PodPhase,
  { init, app }: ContainerStatuses,
): Omit<Verdict, "type"> {
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

/** Told only of a pod whose rules may restart all its containers. */
function restarting({ desired: { pod, acceptedAt }, observed }: StatusScene, phase: PodPhase): readonly Verdict[] {
  if (!mayRestartAll(pod.spec)) return [];
  const verdict = { type: "AllContainersRestarting", status: "False", sinceAtLeast: acceptedAt } as const;
  if (phase === "Succeeded") return [{ ...verdict, reason: "PodCompleted" }];
  if (phase === "Failed") return [{ ...verdict, reason: "PodFailed" }];
  if (!isRestartingAll(pod, observed)) return [verdict];
  const message = "container exited with restart policy rule";
  return [{ ...verdict, status: "True", reason: "RestartAllContainersStarted", message }];
}

/** Told only of a pod of which something else is asked than what its containers were made with. */
function resizePending({ desired: { pod }, observed, stage, now }: StatusScene, isDone: boolean): readonly Verdict[] {
  const containers = stage.kind === "syncing" && !isDone ? awaitingResize(pod, observed) : [];
  if (containers.length === 0) return [];
  const told = pod.status?.conditions?.find(({ type }) => type === "PodResizePending")?.lastTransitionTime;
  const sinceAtLeast = told === undefined ? now : parseTime(told);
  const message = resizeMessage(containers);
  return [{ type: "PodResizePending", status: "True", reason: "Infeasible", message, sinceAtLeast }];
}

/** A pod whose containers are ready is ready when its readiness gates are too: conditions that others set in the API. */
function withGates({ desired: { pod } }: StatusScene, ready: Omit<Verdict, "type">): Omit<Verdict, "type"> {
  if (ready.status === "False") return ready;
  const closed = (pod.spec.readinessGates ?? []).flatMap(({ conditionType }) => {
    const gate = pod.status?.conditions?.find(({ type }) => type === conditionType);
    if (gate === undefined) return [`corresponding condition of pod readiness gate "${conditionType}" does not exist.`];
    return gate.status === "True"
      ? []
      : [`the status of pod readiness gate "${conditionType}" is not "True", but ${gate.status}`];
  });
  if (closed.length === 0) return ready;
  const { sinceAtLeast } = ready;
  return { status: "False", reason: "ReadinessGatesNotReady", message: closed.join(", "), sinceAtLeast };
}
