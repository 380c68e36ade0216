import type { Semaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { ContainerId, PodUid } from "../../../proto/ids.ts";
import type { Container, Pod, Probe } from "../../../proto/kubernetes/gen/types.ts";
import { type ProbeKind, type ProbeOutcome, type ProbeState, probeKinds } from "../../decide/container/probe.ts";
import type { ProbeSeries, ProbeTry } from "../../decide/container/probe-schedule.ts";

/** One probe of one instance of a container. */
export interface ProbeTarget {
  readonly uid: PodUid;
  readonly pod: Pod;
  readonly container: Container;
  readonly id: ContainerId;
  readonly kind: ProbeKind;
  readonly probe: Probe;
  readonly podIP: string | undefined;
}

export interface ProberOptions {
  /**
   * Runs one probe. Rejects only because of a bug, which must not affect more than this result: any pod could trigger
   * it.
   */
  readonly runProbe: (target: ProbeTarget, signal: AbortSignal) => Promise<ProbeOutcome>;
  /** Receives each result that counts, and how long the probe took. */
  readonly onResult: (target: ProbeTarget, outcome: ProbeOutcome, durationMs: number) => void;
  /** Receives each early try that did not succeed, for people who wait for the container. */
  readonly onEarlyFailure: (target: ProbeTarget, outcome: ProbeOutcome) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly wake: (uid: PodUid) => void;
  /** The node's own addresses, the primary first. */
  readonly hostIPs: () => readonly string[];
  /** `--early-probes`: whether early tries are repeated until the first success. */
  readonly earlyProbes: boolean;
}

/** The schedule and the state of one probe of one instance. */
export interface ProbeSchedule {
  state: ProbeState;
  /** Undefined until the probe runs for the first time: it waits for the container to start. */
  series: ProbeSeries | undefined;
  /** Undefined while the probe runs, and while it waits for the container to start. */
  next: ProbeTry | undefined;
  isRunning: boolean;
  /** Ends the wait of an early try for its turn. */
  turn: AbortController | undefined;
}

/** The probes of one instance. */
export interface ProbedContainer {
  readonly schedules: Map<ProbeKind, ProbeSchedule>;
  readonly startedAt: number;
  /** When its startup probe succeeded, or its `postStart` hook; undefined if neither delays its probes. */
  notBefore: number | undefined;
  readonly abort: AbortController;
  /** Its pod terminates. */
  isTerminating: boolean;
  target: Omit<ProbeTarget, "kind" | "probe">;
}

/** How many early tries of commands run at once, of all pods together. */
export const MAX_EARLY_EXECS = 4;

/** What the parts of the prober share. */
export interface ProberState extends ProberOptions {
  /** When this agent started. */
  readonly agentStartedAt: number;
  readonly pods: Map<PodUid, Map<ContainerId, ProbedContainer>>;
  readonly underWay: Set<Promise<void>>;
  /** The early tries of commands of all pods: each costs a process, and a hundred starting pods would make hundreds. */
  readonly earlyExecs: Semaphore;
  /** The only timer fired; it was set to `at`. */
  readonly onTimer: (at: number) => void;
  timer: { readonly at: number; readonly cancel: () => void } | undefined;
  /** The latest time that was seen on the clock. */
  latestTime: number;
  isStopped: boolean;
}

export function statesOf({ schedules }: ProbedContainer): Partial<Record<ProbeKind, ProbeState>> {
  return Object.fromEntries([...schedules].map(([kind, { state }]) => [kind, state]));
}

export function probeOf(
  { startupProbe, livenessProbe, readinessProbe }: Container,
  kind: ProbeKind,
): Probe | undefined {
  return { startup: startupProbe, liveness: livenessProbe, readiness: readinessProbe }[kind];
}

/** The kinds of probes that the container has. */
export function probesOf(container: Container): readonly ProbeKind[] {
  return probeKinds.filter((kind) => probeOf(container, kind) !== undefined);
}
