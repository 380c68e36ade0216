import { sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStateTerminated, ContainerStatus, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/time.ts";
import type { Unwell } from "../../decide/container/probe.ts";
import type { NodeReport } from "../../decide/node/local-node-report.ts";
import type { Obstacle } from "../../decide/pod/plan.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import type { Step } from "../../decide/pod/start-timing.ts";

/** One pod as `berth pods` shows it. */
export interface PodSummary {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly phase: string;
  /** The one word that says most: why it waits, ended or failed. Empty while all is well. */
  readonly reason: string;
  readonly message: string;
  /** `1/2`: containers that are ready, and all. */
  readonly ready: string;
  /** As `kubectl get pods` counts: while the pod initializes those of its init containers so far, and then of all that go on running. */
  readonly restarts: number;
  readonly ip: string;
  readonly startTime: string;
  readonly steps: readonly Step[];
  /** The pulls that it waits for now. An agent of an earlier release says nothing of them. */
  readonly pulls?: readonly PullSummary[];
  readonly status: PodStatus;
}

export interface PullSummary {
  readonly image: string;
  readonly since: string;
  /** 1 for the first try. */
  readonly attempt: number;
}

/** What `berth pods` is told. An agent of an earlier release says nothing of the node. */
export interface PodListing extends Partial<NodeReport> {
  readonly pods: readonly PodSummary[];
}

/** What is known of a pod, put for the eye. */
export function summarize(report: {
  readonly pod: Pod;
  readonly status: PodStatus;
  readonly stage: StageKind;
  readonly isTakenAway: boolean;
  readonly steps: readonly Step[];
  readonly obstacle: Obstacle | undefined;
  readonly pulls?: readonly { readonly image: string; readonly since: number; readonly attempt: number }[];
  readonly unwell?: readonly Unwell[];
}): PodSummary {
  const { pod, status, steps, pulls = [] } = report;
  const sidecars = sidecarsOf(pod.spec);
  const ofSidecars = (status.initContainerStatuses ?? []).filter((each) =>
    sidecars.some(({ name }) => name === each.name),
  );
  const containers = [...ofSidecars, ...(status.containerStatuses ?? [])];
  const { reason, message } = whyOf(report);
  return {
    namespace: pod.metadata.namespace ?? "",
    name: pod.metadata.name ?? "",
    uid: pod.metadata.uid ?? "",
    phase: status.phase ?? "",
    reason,
    message,
    ready: `${containers.filter(({ ready }) => ready).length}/${pod.spec.containers.length + sidecars.length}`,
    restarts: restartsOf(pod, status, containers),
    ip: status.podIP ?? "",
    startTime: status.startTime ?? "",
    steps,
    ...(pulls.length > 0 && { pulls: pulls.map((pull) => ({ ...pull, since: formatTime(pull.since) })) }),
    status,
  };
}

/** While a pod initializes: of its init containers up to the one that has the turn. */
function restartsOf({ spec }: Pod, status: PodStatus, containers: readonly ContainerStatus[]): number {
  const { initContainerStatuses = [] } = status;
  const turn = isInitialized(status) ? -1 : turnOf(spec, initContainerStatuses);
  const counted = turn < 0 ? containers : initContainerStatuses.slice(0, turn + 1);
  return counted.reduce((sum, { restartCount }) => sum + restartCount, 0);
}

function whyOf({ pod, status, stage, isTakenAway, obstacle, unwell = [] }: Parameters<typeof summarize>[0]): Obstacle {
  if (stage === "terminating" && obstacle !== undefined) return obstacle;
  const isEnding = stage === "terminating" || stage === "finished";
  if (isEnding && isTakenAway && status.phase !== "Failed") return { reason: "Terminating", message: "" };
  if (status.reason !== undefined || status.message !== undefined)
    return { reason: status.reason ?? "", message: status.message ?? "" };
  const mayInitialize = status.phase === "Pending" || (status.phase === "Failed" && !isInitialized(status));
  const init = mayInitialize ? whyItInitializes(pod, status, unwell) : undefined;
  if (init !== undefined) return init;
  const containers = status.containerStatuses ?? [];
  const waiting = containers.find(({ state }) => state?.waiting !== undefined);
  if (waiting !== undefined) return whyItWaits(waiting, unwell);
  const ended = containers.find(({ state }) => state?.terminated !== undefined)?.state?.terminated;
  if (ended !== undefined) return howItEnded(ended);
  // All that the pod serves by runs; a sidecar beside it may be in trouble.
  const sidecar = status.phase === "Running" ? whyItInitializes(pod, status, unwell) : undefined;
  if (sidecar !== undefined) return sidecar;
  return { reason: "", message: whyItIsNotReady([...(status.initContainerStatuses ?? []), ...containers], unwell) };
}

/** What its probe says of the first container that runs and is not ready. */
function whyItIsNotReady(containers: readonly ContainerStatus[], unwell: readonly Unwell[]): string {
  const words = containers.flatMap(({ name, state, ready }) => {
    const said = unwell.findLast(({ container }) => container === name);
    return state?.running === undefined || ready || said === undefined ? [] : [`${name} is not ready: ${said.message}`];
  });
  return words[0] ?? "";
}

/** A container that has done its work says what it has to say; of any other its end is told too. */
function howItEnded(ended: ContainerStateTerminated): Obstacle {
  const { reason = "", message = "" } = ended;
  const said = message.trim();
  if (reason === "Completed") return { reason, message: said };
  if (reason !== "Error") return { reason, message: said || endInWords(ended) };
  return { reason, message: `${endInWords(ended)}${said === "" ? "" : `: ${said}`}` };
}

function isInitialized({ conditions = [] }: PodStatus): boolean {
  return conditions.some(({ type, status }) => type === "Initialized" && status === "True");
}

/** Which init container has the turn; -1 where all are done. */
function turnOf(spec: Pod["spec"], initContainerStatuses: readonly ContainerStatus[]): number {
  const sidecars = sidecarsOf(spec);
  const isDone = ({ name, ready, started }: ContainerStatus) =>
    sidecars.some((sidecar) => sidecar.name === name) ? started === true : ready;
  return initContainerStatuses.findIndex((status) => !isDone(status));
}

/** As `kubectl get pods` words it: which init container has the turn, or why that one does not get on. */
function whyItInitializes(
  { spec }: Pod,
  { initContainerStatuses = [] }: PodStatus,
  unwell: readonly Unwell[],
): Obstacle | undefined {
  const turn = turnOf(spec, initContainerStatuses);
  const current = initContainerStatuses[turn];
  if (current === undefined) return undefined;
  const { reason, message } = howItIs(current, unwell);
  if (reason === "" || reason === "PodInitializing")
    return { reason: `Init:${turn}/${initContainerStatuses.length}`, message };
  return { reason: `Init:${reason}`, message };
}

function howItIs(container: ContainerStatus, unwell: readonly Unwell[]): Obstacle {
  const { waiting, terminated } = container.state ?? {};
  if (waiting !== undefined) return whyItWaits(container, unwell);
  if (terminated !== undefined) return howItEnded(terminated);
  return { reason: "", message: whyItIsNotReady([container], unwell) };
}

/** Kubernetes says of a crash loop only how long it waits; what happened last is what one wants to know. */
function whyItWaits({ name, state, lastState }: ContainerStatus, unwell: readonly Unwell[]): Obstacle {
  const { reason = "", message = "" } = state?.waiting ?? {};
  const last = lastState?.terminated;
  if (reason !== "CrashLoopBackOff" || last === undefined) return { reason, message };
  // A container that is not ready is not stopped for that.
  const said = unwell.findLast(({ container, kind }) => container === name && kind !== "readiness");
  return { reason, message: `${message}; ${endInWords(last)}${said === undefined ? "" : ` (${said.message})`}` };
}

function endInWords({ reason, exitCode, message = "" }: ContainerStateTerminated): string {
  switch (reason) {
    case "OOMKilled":
      return `OOMKilled (${exitCode})`;
    case "ContainerStatusUnknown":
      return "nobody saw how it ended";
    case "StartError":
    case "ContainerCannotRun":
      return `it could not start: ${withoutLayers(message) || "the runtime does not say why"}`;
    default:
      return `it exited with code ${exitCode}`;
  }
}

/** Of what each layer of the runtime has put before the reason, and behind it, nothing. */
function withoutLayers(message: string): string {
  return message
    .replaceAll(/\s+/g, " ")
    .trim()
    .replace(/^.*: unable to start container process: /, "")
    .replace(/: unknown$/, "");
}
