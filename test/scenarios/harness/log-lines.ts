import { INEFFECTIVE_ACTION } from "../../../agent/loop/sync-pod.ts";
import type { PodReport } from "../../../agent/report/local/pod-reports.ts";
import type { Log } from "../../../host/log/log.ts";
import type { ContainerStatus } from "../../../proto/kubernetes/gen/types.ts";

/** The actions, reports and messages of a scenario as lines, each with its second: `5s report web Running: a running`. */
export interface LogLines {
  /** The lines since they were last cleared. */
  readonly lines: string[];
  /** All lines. */
  readonly course: readonly string[];
  /** Whether an action has succeeded without an effect in the last five seconds: the agent may still retry it. */
  hasRecentIneffectiveAction(): boolean;
  append(text: string): void;
  /** Marks where an agent died, in the course only. */
  appendDeath(text: string): void;
  /** Appends the reports whose summary has changed. */
  appendReports(reports: readonly PodReport[]): void;
  /** The log of an agent; it is silent once the signal has aborted. */
  createLog(signal: AbortSignal): Log;
}

/** The delays of the first three retries are 1, 2 and 4 s, and a status lags by at most 3 s; one more second for the retry. */
const RETRY_MS = 5000;

export function createLogLines(elapsedMs: () => number): LogLines {
  const lines: string[] = [];
  const course: string[] = [];
  let ineffectiveAtMs = Number.NEGATIVE_INFINITY;
  const summaries = new Map<string, string>();
  const withSecond = (text: string) => `${Math.floor(elapsedMs() / 1000)}s ${text}`;
  const append = (text: string) => {
    if (text.endsWith(`: ${INEFFECTIVE_ACTION}`)) ineffectiveAtMs = elapsedMs();
    const line = withSecond(text);
    lines.push(line);
    course.push(line);
  };
  return {
    lines,
    course,
    hasRecentIneffectiveAction: () => elapsedMs() < ineffectiveAtMs + RETRY_MS,
    append,
    appendDeath: (text) => void course.push(`--> ${withSecond(text)}`),
    appendReports(reports) {
      for (const report of reports) {
        const summary = summarizeReport(report);
        const { uid = "" } = report.pod.metadata;
        if (summaries.get(uid) === summary) continue;
        summaries.set(uid, summary);
        append(`report ${summary}`);
      }
    },
    createLog(signal) {
      const write = (fields: Readonly<Record<string, unknown>>, message: string) => {
        if (signal.aborted) return;
        const pod = typeof fields["pod"] === "string" ? `${fields["pod"].replace(/^default\/(.*)-node$/, "$1")}: ` : "";
        // The report lines already show the phase.
        if (!message.startsWith("the pod is ") && !message.startsWith("the pod has failed")) append(pod + message);
      };
      // Every failed attempt is in the expected course; the agent logs equal failures only once above debug.
      const debug: Log["debug"] = (fields, message) =>
        message.startsWith("failed to ") ? write(fields, message) : undefined;
      const log: Log = { debug, info: write, warn: write, error: write, child: () => log };
      return log;
    },
  };
}

/** `web Running, ready: a running, b waiting CrashLoopBackOff (restarts: 3)` */
export function summarizeReport({ pod, status, stage }: Pick<PodReport, "pod" | "status" | "stage">): string {
  const describeContainer = ({ name, state, restartCount }: ContainerStatus) => {
    const detail =
      state?.waiting?.reason ?? (state?.terminated && `${state.terminated.reason} ${state.terminated.exitCode}`);
    const stateName = state?.running ? "running" : state?.waiting ? "waiting" : "terminated";
    const restarts = restartCount === 0 ? "" : ` (restarts: ${restartCount})`;
    return `${name} ${stateName}${detail === undefined ? "" : ` ${detail}`}${restarts}`;
  };
  const ofInit = (status.initContainerStatuses ?? []).map((each) => `init ${describeContainer(each)}`);
  const ofEphemeral = (status.ephemeralContainerStatuses ?? []).map((each) => `ephemeral ${describeContainer(each)}`);
  const containers = [...ofInit, ...(status.containerStatuses ?? []).map(describeContainer), ...ofEphemeral];
  const reason = status.reason === undefined ? "" : ` (${status.reason})`;
  const isReady = status.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True");
  const name = (pod.metadata.name ?? "").replace(/-node$/, "");
  const stageSuffix = stage === "syncing" ? "" : `, ${stage}`;
  return `${name} ${status.phase}${reason}${isReady ? ", ready" : ""}${stageSuffix}: ${containers.join(", ") || "no containers"}`;
}
