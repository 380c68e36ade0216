import { allContainerStatuses, allContainers, containerNamed } from "../../../../proto/kubernetes/containers.ts";
import type { Container, ContainerStatus, Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { formatMicroTime } from "../../../../proto/kubernetes/values/time.ts";
import type { RejectedManifest } from "../../../decide/node/local-node-report.ts";
import type { DesiredSource } from "../../../decide/pod/desired.ts";
import type { Timeline, TimelineStep } from "../../../decide/pod/timeline.ts";
import { type PodSummary, summarizePod } from "../pod-list.ts";
import { podState } from "../pod-state.ts";
import { correctManifest } from "./cure-rule.ts";
import { cureOf } from "./cures.ts";
import { explainPortCollision } from "./port-collision.ts";
import { type AskedRuntime, runtimeCommands } from "./runtime-commands.ts";

/** The JSON of `berth explain POD -o json`. Times are RFC 3339, with microseconds. */
export interface PodExplanation {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** As `berth pods` shows it. */
  readonly state: string;
  readonly ready: string;
  /** `the API server`, or the path or URL of the manifest. */
  readonly source: string;
  /** Why the agent refuses the manifest as it is now; the pod stays as an earlier version of it says. */
  readonly refused?: string;
  /** What makes the agent accept it again. */
  readonly correction?: { readonly cure: string; readonly commands: readonly string[] };
  /**
   * The steps that the agent has taken for the pod, in the order of their first tries; for a container or sandbox with several
   * attempts those of the first and of the latest.
   */
  readonly timeline: readonly ExplainedStep[];
  /** Why it does not start, or is not ready; absent for a pod that is ready, or has nothing to wait for. */
  readonly cause?: ExplainedCause;
}

export interface ExplainedStep {
  readonly at: string;
  readonly what: string;
  readonly ms?: number;
  /** How often it was tried, if more than once. */
  readonly times?: number;
  /** When it was tried last, if more than once. */
  readonly lastAt?: string;
  /** The latest try has failed. */
  readonly failed?: { readonly reason: string; readonly times: number };
}

export interface ExplainedCause {
  readonly container?: string;
  readonly reason: string;
  readonly message: string;
  /** What the message means, in plain words. */
  readonly explanation?: string;
  /** How often it has failed in a row. */
  readonly tries?: number;
  /** When it is tried again. */
  readonly retryAt?: string;
  /** What to change; empty if no rule matches. */
  readonly cure: string;
  /** What to run next, to see more or to change it. */
  readonly commands: readonly string[];
}

/** The parts of a pod's report that its explanation needs. */
export type ExplainedReport = Parameters<typeof summarizePod>[0] & {
  readonly source: DesiredSource;
  readonly acceptedAt: number;
  /** When this agent first decided about the pod; undefined if it has not yet. */
  readonly firstSyncAt: number | undefined;
  /** When it became ready last; undefined if it is not. */
  readonly readyAt: number | undefined;
  readonly timeline: Timeline;
};

/** What an explanation needs to know of the node. */
export interface ExplainedNode {
  readonly runtime: AskedRuntime;
  /** The manifests that the agent refuses. */
  readonly refused: readonly RejectedManifest[];
  /** All pods of the node. */
  readonly reports: readonly Pick<ExplainedReport, "pod" | "status" | "stage">[];
}

/** Explains a pod for `berth explain`: how it has started, and the one cause why it does not go on, with its cure. */
export function explainPod(report: ExplainedReport, { refused, reports, runtime }: ExplainedNode): PodExplanation {
  const summary = summarizePod(report);
  const { pod, source } = report;
  const owners = reports.map((each) => ({ ...each, isRejected: each.status.phase === "Failed" }));
  const explanation = explainPortCollision(pod, summary.message, owners) ?? summary.explanation;
  const cause = causeOf(report, { ...summary, ...(explanation !== undefined && { explanation }) });
  const problem = source.kind === "api" ? undefined : refused.find(({ file }) => file === sourceText(source))?.problem;
  return {
    namespace: summary.namespace,
    name: summary.name,
    uid: summary.uid,
    state: podState(summary),
    ready: summary.ready,
    source: sourceText(source),
    ...(problem !== undefined && { refused: problem, correction: correctionOf(sourceText(source)) }),
    timeline: timelineOf(pod, report),
    ...(cause && { cause: { ...cause, commands: runtimeCommands(cause.commands, runtime) } }),
  };
}

function correctionOf(manifest: string): NonNullable<PodExplanation["correction"]> {
  const { text: cure, commands } = correctManifest(manifest, { hasPod: true });
  return { cure, commands };
}

const sourceText = (source: DesiredSource) =>
  source.kind === "api" ? "the API server" : source.kind === "file" ? source.path : source.url;

function timelineOf({ metadata }: Pod, report: ExplainedReport): readonly ExplainedStep[] {
  const { acceptedAt, firstSyncAt, readyAt, source, timeline } = report;
  const created = metadata.creationTimestamp;
  const received =
    source.kind === "api" && created !== undefined ? `received; the API server created it at ${created}` : "received";
  const marks: readonly (readonly [at: number | undefined, what: string])[] = [
    [acceptedAt, received],
    [firstSyncAt, "first sync by this agent"],
    [readyAt, "ready"],
  ];
  const steps = [...timeline.values()]
    .flatMap((step) => [...(step.ofFirstAttempt ? [step.ofFirstAttempt] : []), step])
    .map((step) => [step.firstAt, toExplainedStep(step)] as const);
  return [
    ...marks.flatMap(([at, what]) => (at === undefined ? [] : [[at, { at: timeText(at), what }] as const])),
    ...steps,
  ]
    .toSorted(([a], [b]) => a - b)
    .map(([, step]) => step);
}

function toExplainedStep({ what, firstAt, at, ms, times, failure }: TimelineStep): ExplainedStep {
  return {
    at: timeText(firstAt),
    what,
    ms: Math.round(ms),
    ...(times > 1 && { times, lastAt: timeText(at) }),
    ...(failure && { failed: { reason: failure.reason, times: failure.times } }),
  };
}

const timeText = (at: number) => formatMicroTime(at);

/** Reasons of pods that wait for nothing that a user has to change. */
const NO_CAUSE = /^(Completed|Terminating|PodInitializing|Init:\d+\/\d+)$/;

function causeOf(report: ExplainedReport, summary: PodSummary): ExplainedCause | undefined {
  const failing = failingStep(report);
  const isWaiting = summary.reason === "" || /^(Init:\d+\/\d+|ContainerCreating|PodInitializing)$/.test(summary.reason);
  const reason = isWaiting ? (failing?.failure?.reason ?? summary.failure ?? summary.reason) : summary.reason;
  const message = summary.message || (failing?.failure?.message ?? "");
  if (message === "" && (reason === "" || NO_CAUSE.test(reason) || reason === "ContainerCreating")) return undefined;
  if (NO_CAUSE.test(reason) && failing === undefined && message === "") return undefined;
  const container =
    containerOf(report, reason, message) ?? (failing?.container && containerNamed(report.pod, failing.container));
  const { pod, source } = report;
  const input = { pod, reason, message, container: container || undefined, podIP: summary.ip };
  const { text: cure, commands } = cureOf({
    ...input,
    manifest: source.kind === "api" ? undefined : sourceText(source),
  });
  const retry = retryOf(report, container || undefined, failing);
  return {
    ...(container && { container: container.name }),
    reason,
    message,
    ...(summary.explanation !== undefined && { explanation: summary.explanation }),
    ...retry,
    cure,
    commands,
  };
}

/** The step whose latest try has failed; the last one that began, if there are several. */
const failingStep = ({ timeline, stage }: ExplainedReport) =>
  stage === "syncing" ? [...timeline.values()].findLast(({ failure }) => failure !== undefined) : undefined;

/** The container that waits, has ended or is not ready for this reason. */
function containerOf({ pod, status }: ExplainedReport, reason: string, message: string): Container | undefined {
  const own = reason.replace(/^Init:/, "");
  const statuses = allContainerStatuses(status);
  const isOf = ({ state }: ContainerStatus) =>
    state?.waiting?.reason === own || state?.terminated?.reason === own || (own === "" && state?.running !== undefined);
  const named =
    own === "" ? allContainers(pod.spec).find(({ name }) => message.startsWith(`${name} is not ready`)) : undefined;
  const found = statuses.find((each) => own !== "" && isOf(each));
  return named ?? (found && containerNamed(pod, found.name));
}

const BACK_OFF = /back-off (?:(\d+)m)?(?:(\d+)s)? restarting failed container/;

/**
 * How often the agent has tried, and when it tries again: by the back-off of the restart, or else by the step that
 * fails.
 */
function retryOf(
  { status }: ExplainedReport,
  container: Container | undefined,
  failing: TimelineStep | undefined,
): Pick<ExplainedCause, "tries" | "retryAt"> {
  const own = container && allContainerStatuses(status).find(({ name }) => name === container.name);
  const [, minutes = "0", seconds = "0"] = BACK_OFF.exec(own?.state?.waiting?.message ?? "") ?? [];
  const backOffMs = (Number(minutes) * 60 + Number(seconds)) * 1000;
  const endedAt = own?.lastState?.terminated?.finishedAt;
  if (backOffMs > 0 && own !== undefined && endedAt !== undefined)
    return { tries: own.restartCount + 1, retryAt: timeText(Date.parse(endedAt) + backOffMs) };
  if (failing?.failure === undefined) return {};
  return { tries: failing.failure.times, retryAt: timeText(failing.failure.retryAt) };
}
