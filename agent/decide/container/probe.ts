import type { Probe } from "../../../proto/kubernetes/gen/types.ts";
import { dueAfter } from "../pod/backoff.ts";
import type { ContainerHealth } from "../pod/observed.ts";

/*
 * The state of the probes of one container instance, by the kubelet's rules:
 *
 *   startup      unknown ──success──► success: the other probes start, this one ends
 *                   └─────failure──► failure: the container is stopped
 *   liveness     success ──failure──► failure: the container is stopped
 *   readiness    failure ◄─────────► success: the pod receives traffic, or none
 *
 * Each arrow takes as many equal results in a row as the threshold requires. A probe that could not run has no result.
 * A new instance starts with fresh state.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-probes
 */

export const probeKinds = ["startup", "liveness", "readiness"] as const;
export type ProbeKind = (typeof probeKinds)[number];

/** The result of one probe run; `error` if it could not run or its response was unreadable: that counts neither way. */
export interface ProbeOutcome {
  readonly result: "success" | "warning" | "failure" | "error";
  /** Of an error: the result that the kubelet's event names, although it has no effect. */
  readonly eventResult?: "failure";
  /** For an exec probe the command's output. It must not be logged: it may hold secrets of the container. */
  readonly message: string;
  /** Of an exec probe that failed. */
  readonly exitCode?: number;
  /** The standard error of the command, which is a part of `message` too. */
  readonly stderr?: string;
  /** `host:port` of a server that was probed over TLS and answered over plain HTTP. */
  readonly plainHttpHost?: string;
}

/** The last failure of a probe. */
export interface ProbeFailure {
  readonly container: string;
  readonly kind: ProbeKind;
  readonly message: string;
}

/** The state of one probe of one instance. */
export interface ProbeState {
  readonly result: "unknown" | "success" | "failure";
  /** The last result, and how often in a row it occurred. */
  readonly lastResult: "success" | "failure" | undefined;
  readonly resultRun: number;
  /** This probe does not run any more for this instance. */
  readonly hasEnded: boolean;
}

const initialResults: Readonly<Record<ProbeKind, ProbeState["result"]>> = {
  startup: "unknown",
  liveness: "success",
  readiness: "failure",
};

/** The state before the first run. `reported` is what an earlier agent has reported of this very instance. */
export function initialProbeState(
  kind: ProbeKind,
  reported: { readonly isStarted: boolean; readonly isReady: boolean } | undefined,
): ProbeState {
  const wasReported =
    (kind === "startup" && reported?.isStarted === true) || (kind === "readiness" && reported?.isReady === true);
  const result = wasReported ? "success" : initialResults[kind];
  return { result, lastResult: undefined, resultRun: 0, hasEnded: wasReported && kind === "startup" };
}

/** The state after one more result. */
export function nextProbeState(
  kind: ProbeKind,
  probe: Probe,
  before: ProbeState,
  { result }: ProbeOutcome,
): ProbeState {
  if (before.hasEnded || result === "error") return before;
  const outcome = result === "failure" ? "failure" : "success";
  const resultRun = before.lastResult === outcome ? before.resultRun + 1 : 1;
  const threshold = outcome === "failure" ? (probe.failureThreshold ?? 3) : (probe.successThreshold ?? 1);
  if (resultRun < threshold) return { ...before, lastResult: outcome, resultRun };
  const hasEnded = kind === "startup" || (kind === "liveness" && outcome === "failure");
  return { result: outcome, lastResult: outcome, resultRun, hasEnded };
}

export type ProbeStates = Readonly<Partial<Record<ProbeKind, ProbeState>>>;

/** The health of an instance by all its probes. Without a probe the check counts as passed. */
export function healthOfStates({ startup, liveness, readiness }: ProbeStates): ContainerHealth {
  const isStarted = startup === undefined || startup.result === "success";
  const isReady = isStarted && (readiness === undefined || readiness.result === "success");
  const failedProbe =
    startup?.result === "failure" ? "startup" : liveness?.result === "failure" ? "liveness" : undefined;
  return { isStarted, isReady, ...(failedProbe === undefined ? {} : { failedProbe }) };
}

/** Whether this probe runs now: a startup probe until it succeeds, the others after that. */
export function isProbeActive(kind: ProbeKind, states: ProbeStates): boolean {
  const state = states[kind];
  if (state === undefined || state.hasEnded) return false;
  return kind === "startup" || healthOfStates(states).isStarted;
}

/** The timeout of one run, in milliseconds. */
export function probeTimeoutMs({ timeoutSeconds }: Probe): number {
  return Math.max(1, timeoutSeconds ?? 1) * 1000;
}

const periodMs = ({ periodSeconds }: Probe) => Math.max(1, periodSeconds ?? 10) * 1000;

/** What the time of the first run depends on. Times are epoch milliseconds; `random` is in [0, 1). */
export interface FirstProbeInput {
  readonly startedAt: number;
  readonly now: number;
  /**
   * An earlier agent has already probed the container: the first runs of all such containers are spread over one
   * period.
   */
  readonly wasProbedBefore: boolean;
  readonly random: number;
}

/** When a probe runs first; epoch milliseconds. */
export function firstProbeAt(probe: Probe, { startedAt, now, wasProbedBefore, random }: FirstProbeInput): number {
  const earliest = Math.max(now, dueAfter(startedAt, (probe.initialDelaySeconds ?? 0) * 1000, now));
  return wasProbedBefore ? earliest + random * periodMs(probe) : earliest;
}

/** Probes that are due within one such step run together: a wake-up costs more than most probes. */
const ALIGNMENT_MS = 250;

/**
 * When the probe runs next, after a run that was due at `dueAt`. Runs keep their rhythm, counted from the last step
 * before the first run; missed runs are skipped.
 */
export function nextProbeAt(probe: Probe, dueAt: number, now: number): number {
  const period = periodMs(probe);
  const alignedDueAt = dueAt - (dueAt % ALIGNMENT_MS);
  const missed = Math.floor(Math.max(0, now - alignedDueAt) / period);
  // A clock that was set back must not delay the probe by as much.
  return Math.min(alignedDueAt + (missed + 1) * period, now + period);
}
