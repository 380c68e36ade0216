import type { Probe } from "../../../proto/kubernetes/gen/types.ts";
import { dueAfter } from "../pod/backoff.ts";
import type { ContainerHealth } from "../pod/observed.ts";

/*
 * What probes say of one instance of a container, by the kubelet's rules:
 *
 *   startup      unknown ──success──► success: the others begin, and this one is over
 *                   └─────failure──► failure: the container is stopped
 *   liveness     success ──failure──► failure: the container is stopped
 *   readiness    failure ◄─────────► success: the pod gets traffic, or gets none
 *
 * An arrow takes as many equal answers in a row as the threshold says. What could not be asked says nothing. A new instance begins anew.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-probes
 */

export const probeKinds = ["startup", "liveness", "readiness"] as const;
export type ProbeKind = (typeof probeKinds)[number];

/** The answer to one try; `error` where nothing could be asked, or the answer not be read, so that it says nothing of the container. */
export interface ProbeOutcome {
  readonly result: "success" | "warning" | "failure" | "error";
  /** Of an error: what the kubelet calls the state in which it results, though nothing comes of it. */
  readonly verdict?: "failure";
  /** Of a command it is what that has printed: nothing for the log, since it may hold what the container alone should know. */
  readonly message: string;
  /** Of a command that has failed. */
  readonly exitCode?: number;
  /** What it has printed as complaint, which is part of `message` too. */
  readonly stderr?: string;
  /** The server, `host:port`, that was asked over TLS and answers in plain HTTP. */
  readonly askedInPlainText?: string;
}

/** What a probe has said last of a container that was not as it should be. */
export interface Unwell {
  readonly container: string;
  readonly kind: ProbeKind;
  readonly message: string;
}

/** What is known of one probe of one instance. */
export interface ProbeState {
  readonly verdict: "unknown" | "success" | "failure";
  /** The last answer, and how often in a row it was given. */
  readonly last: "success" | "failure" | undefined;
  readonly inARow: number;
  /** Nothing more is asked of this instance. */
  readonly isOver: boolean;
}

const firstVerdicts: Readonly<Record<ProbeKind, ProbeState["verdict"]>> = {
  startup: "unknown",
  liveness: "success",
  readiness: "failure",
};

/** A probe before its first try. `told` is what the API server was told of this very instance by an agent before this one. */
export function beginProbe(
  kind: ProbeKind,
  told: { readonly isStarted: boolean; readonly isReady: boolean } | undefined,
): ProbeState {
  const isKnown = (kind === "startup" && told?.isStarted === true) || (kind === "readiness" && told?.isReady === true);
  const verdict = isKnown ? "success" : firstVerdicts[kind];
  return { verdict, last: undefined, inARow: 0, isOver: isKnown && kind === "startup" };
}

/** The state after one more answer. */
export function afterProbe(kind: ProbeKind, probe: Probe, before: ProbeState, { result }: ProbeOutcome): ProbeState {
  if (before.isOver || result === "error") return before;
  const answer = result === "failure" ? "failure" : "success";
  const inARow = before.last === answer ? before.inARow + 1 : 1;
  const threshold = answer === "failure" ? (probe.failureThreshold ?? 3) : (probe.successThreshold ?? 1);
  if (inARow < threshold) return { ...before, last: answer, inARow };
  const isOver = kind === "startup" || (kind === "liveness" && answer === "failure");
  return { verdict: answer, last: answer, inARow, isOver };
}

export type ProbeStates = Readonly<Partial<Record<ProbeKind, ProbeState>>>;

/** What all probes of an instance together say. What is not probed is as it should be. */
export function healthOfStates({ startup, liveness, readiness }: ProbeStates): ContainerHealth {
  const isStarted = startup === undefined || startup.verdict === "success";
  const isReady = isStarted && (readiness === undefined || readiness.verdict === "success");
  const failed = startup?.verdict === "failure" ? "startup" : liveness?.verdict === "failure" ? "liveness" : undefined;
  return { isStarted, isReady, ...(failed === undefined ? {} : { failed }) };
}

/** Whether this probe is asked now: once the container has started, or until then. */
export function isAsked(kind: ProbeKind, states: ProbeStates): boolean {
  const state = states[kind];
  if (state === undefined || state.isOver) return false;
  return kind === "startup" || healthOfStates(states).isStarted;
}

/** How long a try may take, in milliseconds. */
export function probeTimeoutMs({ timeoutSeconds }: Probe): number {
  return Math.max(1, timeoutSeconds ?? 1) * 1000;
}

const periodMs = ({ periodSeconds }: Probe) => Math.max(1, periodSeconds ?? 10) * 1000;

/** What the first try depends on; times are epoch milliseconds, `lot` is from 0 up to 1. */
export interface FirstTry {
  readonly startedAt: number;
  readonly now: number;
  /** An agent that has just begun finds many containers at once: it spreads them over a period, unless nothing is known of them. */
  readonly isFoundRunning: boolean;
  readonly lot: number;
}

/** When a probe is first tried; epoch milliseconds. */
export function firstProbeAt(probe: Probe, { startedAt, now, isFoundRunning, lot }: FirstTry): number {
  const earliest = Math.max(now, dueAfter(startedAt, (probe.initialDelaySeconds ?? 0) * 1000, now));
  return isFoundRunning ? earliest + lot * periodMs(probe) : earliest;
}

/** Whoever has to be asked within the same one of these is asked together: waking up costs more than most questions. */
const STEP_MS = 250;

/**
 * When it is tried again, after a try that was due at `dueAt`: tries keep their beat, from the last step before the first of them, and
 * those that were missed are left out.
 */
export function nextProbeAt(probe: Probe, dueAt: number, now: number): number {
  const period = periodMs(probe);
  const beat = dueAt - (dueAt % STEP_MS);
  const missed = Math.floor(Math.max(0, now - beat) / period);
  // A clock that was set back must not silence the probe for as long.
  return Math.min(beat + (missed + 1) * period, now + period);
}
