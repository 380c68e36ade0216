import { sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStateTerminated, ContainerStatus, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import type { ProbeFailure } from "../../decide/container/probe.ts";
import type { LocalNodeReport } from "../../decide/node/local-node-report.ts";
import type { BlockedReason } from "../../decide/pod/plan.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import type { StartTiming } from "../../decide/pod/start-timing.ts";
import { explainMessage } from "./explain/message-explanation.ts";

/** One pod of `berth pods -o json`. */
export interface PodSummary {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly phase: string;
  /** The most important reason why the pod waits, ended or failed. Empty while there is none. */
  readonly reason: string;
  readonly message: string;
  /** What `message` means, in plain words. Only `berth pods` shows it; the API server never gets it. Agents of earlier releases omit this. */
  readonly explanation?: string;
  /**
   * Why the pod does not start yet, such as `FailedMount`, where `reason` says what kubectl shows, `ContainerCreating`. Left
   * out without a failure, and by agents of earlier releases.
   */
  readonly failure?: string;
  /** `1/2`: ready containers and all containers. */
  readonly ready: string;
  /**
   * Restarts as `kubectl get pods` counts them: of the init containers so far while the pod initializes, then of its
   * lasting containers.
   */
  readonly restarts: number;
  readonly ip: string;
  readonly startTime: string;
  readonly steps: readonly StartTiming[];
  /** The image pulls that the pod waits for. Agents of earlier releases omit this. */
  readonly pulls?: readonly PullSummary[];
  readonly status: PodStatus;
}

export interface PullSummary {
  readonly image: string;
  readonly since: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
}

/** The JSON of `berth pods -o json`. Agents of earlier releases omit the fields about the node. */
export interface PodListing extends Partial<LocalNodeReport> {
  readonly pods: readonly PodSummary[];
}

/** Summarises a pod for `berth pods`. */
export function summarizePod(report: {
  readonly pod: Pod;
  readonly status: PodStatus;
  readonly stage: StageKind;
  readonly isTerminationRequested: boolean;
  readonly steps: readonly StartTiming[];
  readonly blockedReason: BlockedReason | undefined;
  readonly pulls?: readonly { readonly image: string; readonly since: number; readonly attempt: number }[];
  readonly probeFailures?: readonly ProbeFailure[];
}): PodSummary {
  const { pod, status, stage, blockedReason, steps, pulls = [] } = report;
  const sidecars = sidecarsOf(pod.spec);
  const sidecarStatuses = (status.initContainerStatuses ?? []).filter((each) =>
    sidecars.some(({ name }) => name === each.name),
  );
  const containers = [...sidecarStatuses, ...(status.containerStatuses ?? [])];
  const { reason, message } = reasonOf(report);
  const explanation = explainMessage(pod, message);
  return {
    namespace: pod.metadata.namespace ?? "",
    name: pod.metadata.name ?? "",
    uid: pod.metadata.uid ?? "",
    phase: status.phase ?? "",
    reason,
    message,
    ...(explanation !== undefined && { explanation }),
    ...(stage === "syncing" && blockedReason !== undefined && { failure: blockedReason.reason }),
    ready: `${containers.filter(({ ready }) => ready).length}/${pod.spec.containers.length + sidecars.length}`,
    restarts: restartsOf(pod, status, containers),
    ip: status.podIP ?? "",
    startTime: status.startTime ?? "",
    steps,
    ...(pulls.length > 0 && { pulls: pulls.map((pull) => ({ ...pull, since: formatTime(pull.since) })) }),
    status,
  };
}

/** While a pod initializes, counts the init containers up to the current one. */
function restartsOf({ spec }: Pod, status: PodStatus, containers: readonly ContainerStatus[]): number {
  const { initContainerStatuses = [] } = status;
  const initIndex = isInitialized(status) ? -1 : currentInitIndex(spec, initContainerStatuses);
  const counted = initIndex < 0 ? containers : initContainerStatuses.slice(0, initIndex + 1);
  return counted.reduce((sum, { restartCount }) => sum + restartCount, 0);
}

function reasonOf({
  pod,
  status,
  stage,
  isTerminationRequested,
  blockedReason,
  probeFailures = [],
}: Parameters<typeof summarizePod>[0]): BlockedReason {
  if (stage === "terminating" && blockedReason !== undefined) return blockedReason;
  const isEnding = stage === "terminating" || stage === "finished";
  if (isEnding && isTerminationRequested && status.phase !== "Failed") return { reason: "Terminating", message: "" };
  if (status.reason !== undefined || status.message !== undefined)
    return { reason: status.reason ?? "", message: status.message ?? "" };
  const mayInitialize = status.phase === "Pending" || (status.phase === "Failed" && !isInitialized(status));
  const init = mayInitialize ? initReason(pod, status, probeFailures) : undefined;
  if (init !== undefined) return init;
  const containers = status.containerStatuses ?? [];
  const waiting = containers.find(({ state }) => state?.waiting !== undefined);
  if (waiting !== undefined) return waitingReason(waiting, probeFailures);
  const ended = containers.find(({ state }) => state?.terminated !== undefined)?.state?.terminated;
  if (ended !== undefined) return endReason(ended);
  // All app containers run, but a sidecar may be failing.
  const sidecar = status.phase === "Running" ? initReason(pod, status, probeFailures) : undefined;
  if (sidecar !== undefined) return sidecar;
  return {
    reason: "",
    message: notReadyMessage([...(status.initContainerStatuses ?? []), ...containers], probeFailures),
  };
}

/** The probe failure of the first container that runs and is not ready. */
function notReadyMessage(containers: readonly ContainerStatus[], probeFailures: readonly ProbeFailure[]): string {
  const messages = containers.flatMap(({ name, state, ready }) => {
    const failure = probeFailures.findLast(({ container }) => container === name);
    return state?.running === undefined || ready || failure === undefined
      ? []
      : [`${name} is not ready: ${failure.message}`];
  });
  return messages[0] ?? "";
}

/** The termination message of a completed container; for all others also how they ended. */
function endReason(ended: ContainerStateTerminated): BlockedReason {
  const { reason = "", message = "" } = ended;
  const text = message.trim();
  if (reason === "Completed") return { reason, message: text };
  if (reason !== "Error") return { reason, message: text || describeExit(ended) };
  return { reason, message: `${describeExit(ended)}${text === "" ? "" : `: ${text}`}` };
}

function isInitialized({ conditions = [] }: PodStatus): boolean {
  return conditions.some(({ type, status }) => type === "Initialized" && status === "True");
}

/** The index of the current init container; -1 if all are done. */
function currentInitIndex(spec: Pod["spec"], initContainerStatuses: readonly ContainerStatus[]): number {
  const sidecars = sidecarsOf(spec);
  const isDone = ({ name, ready, started }: ContainerStatus) =>
    sidecars.some((sidecar) => sidecar.name === name) ? started === true : ready;
  return initContainerStatuses.findIndex((status) => !isDone(status));
}

/** The status that `kubectl get pods` shows: the progress of the init containers, or why the current one fails. */
function initReason(
  { spec }: Pod,
  { initContainerStatuses = [] }: PodStatus,
  probeFailures: readonly ProbeFailure[],
): BlockedReason | undefined {
  const initIndex = currentInitIndex(spec, initContainerStatuses);
  const current = initContainerStatuses[initIndex];
  if (current === undefined) return undefined;
  const { reason, message } = containerReason(current, probeFailures);
  if (reason === "" || reason === "PodInitializing")
    return { reason: `Init:${initIndex}/${initContainerStatuses.length}`, message };
  return { reason: `Init:${reason}`, message };
}

function containerReason(container: ContainerStatus, probeFailures: readonly ProbeFailure[]): BlockedReason {
  const { waiting, terminated } = container.state ?? {};
  if (waiting !== undefined) return waitingReason(container, probeFailures);
  if (terminated !== undefined) return endReason(terminated);
  return { reason: "", message: notReadyMessage([container], probeFailures) };
}

/** For a crash loop Kubernetes shows only the back-off; this adds how the last instance ended. */
function waitingReason(
  { name, state, lastState }: ContainerStatus,
  probeFailures: readonly ProbeFailure[],
): BlockedReason {
  const { reason = "", message = "" } = state?.waiting ?? {};
  const last = lastState?.terminated;
  if (reason !== "CrashLoopBackOff" || last === undefined) return { reason, message };
  // Neither a failed readiness probe nor an early try stops a container, so they do not explain the end.
  const failure = probeFailures.findLast(
    ({ container, kind, isEarly }) => container === name && kind !== "readiness" && isEarly !== true,
  );
  return {
    reason,
    message: `${message}; ${describeExit(last)}${failure === undefined ? "" : ` (${failure.message})`}`,
  };
}

function describeExit({ reason, exitCode, message = "" }: ContainerStateTerminated): string {
  switch (reason) {
    case "OOMKilled":
      return `OOMKilled (${exitCode})`;
    case "ContainerStatusUnknown":
      return "its exit was not observed";
    case "StartError":
    case "ContainerCannotRun":
      return `it could not start: ${stripRuntimeLayers(message) || "the runtime does not say why"}`;
    default:
      return `it exited with code ${exitCode}`;
  }
}

/** Removes the prefixes and suffixes that each layer of the runtime adds to the reason. */
function stripRuntimeLayers(message: string): string {
  return message
    .replaceAll(/\s+/g, " ")
    .trim()
    .replace(/^.*: unable to start container process: /, "")
    .replace(/: unknown$/, "");
}
