import type { Probe } from "../../../proto/kubernetes/gen/types.ts";
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
  /** It does not count: it says why the container is not ready yet, and has stopped nothing. */
  readonly isEarly?: true;
}

/** The state of one probe of one instance. */
export interface ProbeState {
  readonly result: "unknown" | "success" | "failure";
  /** The last result, and how often in a row it occurred. */
  readonly lastResult: "success" | "failure" | undefined;
  readonly resultRun: number;
  /** No result has counted yet: `result` is the initial one, or what an earlier agent has found. */
  readonly isInitial: boolean;
  /** This probe does not run any more for this instance. */
  readonly hasEnded: boolean;
}

const initialResults: Readonly<Record<ProbeKind, ProbeState["result"]>> = {
  startup: "unknown",
  liveness: "success",
  readiness: "failure",
};

/** What is known from an earlier agent about this instance; undefined if the instance started under this agent. */
export type EarlierHealth = Pick<ContainerHealth, "isStarted" | "isReady"> | undefined;

/** The state before the first run. */
export function initialProbeState(kind: ProbeKind, earlier: EarlierHealth): ProbeState {
  const hadSucceeded =
    (kind === "startup" && earlier?.isStarted === true) || (kind === "readiness" && earlier?.isReady === true);
  const result = hadSucceeded ? "success" : initialResults[kind];
  const hasEnded = hadSucceeded && kind === "startup";
  return { result, lastResult: undefined, resultRun: 0, isInitial: true, hasEnded };
}

/**
 * The state with what is known by now of an earlier agent. It applies until a result of this agent counts, so that a restart
 * of the agent takes no ready container out of its Services (kubelet: `ChangeContainerStatusOnKubeletRestart` off,
 * KEP-4781).
 */
export function withEarlierHealth(kind: ProbeKind, state: ProbeState, earlier: EarlierHealth): ProbeState {
  if (!state.isInitial || earlier === undefined) return state;
  const { result, hasEnded } = initialProbeState(kind, earlier);
  return { ...state, result, hasEnded };
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
  return { result: outcome, lastResult: outcome, resultRun, isInitial: false, hasEnded };
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
