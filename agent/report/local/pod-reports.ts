import { isDeepStrictEqual } from "node:util";
import { createEventSource } from "../../../host/async/event-source.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { formatElapsed } from "../../../proto/kubernetes/values/duration.ts";
import { createKeyMap, type KeyMap } from "../../decide/actions/key-map.ts";
import type { ProbeFailure } from "../../decide/container/probe.ts";
import type { PodEvent } from "../../decide/events/pod-event.ts";
import { longPullEvent } from "../../decide/events/pod-events.ts";
import { type Action, type ActionKey, describe, failureKeyOf, recordOf } from "../../decide/pod/action.ts";
import type { ActionFinished, ActionStarted } from "../../decide/pod/action-call.ts";
import { type DesiredPod, fullNameOf } from "../../decide/pod/desired.ts";
import type { BlockedReason } from "../../decide/pod/plan.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import type { StartTiming } from "../../decide/pod/start-timing.ts";
import { type Timeline, withAction } from "../../decide/pod/timeline.ts";
import { type ActivePull, createActivePulls } from "./active-pulls.ts";
import { createProbeFailures } from "./probe-failures.ts";

/**
 * The state of a pod for `berth pods` and `berth explain`: its status, and how long each step of its latest start took.
 */
export interface PodReport {
  readonly pod: Pod;
  readonly status: PodStatus;
  readonly stage: StageKind;
  /** The pod is being terminated, rather than completing by itself. */
  readonly isTerminationRequested: boolean;
  readonly steps: readonly StartTiming[];
  readonly source: DesiredPod["source"];
  /** When the node has accepted it; this and the next ones are epoch milliseconds. */
  readonly acceptedAt: number;
  /** When this agent first decided about it. */
  readonly firstSyncAt: number | undefined;
  /** When it became ready; undefined while it is not. */
  readonly readyAt: number | undefined;
  /** What this agent has done for it. */
  readonly timeline: Timeline;
  /** What blocks the pod's termination or cleanup. */
  readonly blockedReason: BlockedReason | undefined;
  /** The image pulls that the pod waits for. */
  readonly pulls: readonly ActivePull[];
  /** The latest probe failure of each failing container. */
  readonly probeFailures: readonly ProbeFailure[];
}

export interface PodReportsOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** Records an event of a pod, `namespace/name`. */
  readonly recordEvent: (uid: PodUid, pod: string, event: PodEvent) => void;
}

export interface PodReports {
  report(uid: PodUid, desired: DesiredPod, status: PodStatus, stage: StageKind, blockedReason?: BlockedReason): void;
  /** A probe of a pod, `namespace/name`, failed. An early try makes no event. */
  onProbeFailed(uid: PodUid, pod: string, event: PodEvent, failure: ProbeFailure): void;
  onActionStarted(started: ActionStarted): void;
  onActionFinished(finished: ActionFinished): void;
  onPodRemoved(uid: PodUid): void;
  /** Sorted by namespace and name. */
  all(): readonly PodReport[];
  /** Calls `changed` after each change; returns the function that unsubscribes. */
  subscribe(changed: () => void): () => void;
}

interface PodState {
  readonly uid: PodUid;
  desired: DesiredPod | undefined;
  status: PodStatus | undefined;
  stage: StageKind;
  blockedReason: BlockedReason | undefined;
  firstSyncAt: number | undefined;
  readyAt: number | undefined;
  timeline: Timeline;
  readonly steps: Map<string, StartTiming>;
}

/** Keeps the latest state of each pod for the local socket, and logs each finished action as one sentence. */
export function createPodReports({ log, clock, recordEvent }: PodReportsOptions): PodReports {
  const states = new Map<PodUid, PodState>();
  const changes = createEventSource();
  const failures = createLoggedFailures();
  const probeFailures = createProbeFailures();
  const pulls = createActivePulls({
    clock,
    onSlowPull({ uid, pod }, { image, attempt }, lastedMs) {
      const fields = { ...(pod === "" ? {} : { pod }), uid, image, attempt };
      log.info(fields, `an image is still being pulled after ${formatElapsed(lastedMs)}`);
      recordEvent(uid, pod, longPullEvent(states.get(uid)?.desired?.pod, image, lastedMs));
    },
  });

  function stateOf(uid: PodUid): PodState {
    const known = states.get(uid);
    if (known !== undefined) return known;
    const state = emptyState(uid);
    states.set(uid, state);
    return state;
  }

  return {
    report(uid, desired, status, stage, blockedReason) {
      const state = stateOf(uid);
      const isNew = hasChanged(state, { status, stage, blockedReason });
      if (isNew) logPhase(log, state, desired, status);
      Object.assign(state, { desired, status, stage, blockedReason });
      state.firstSyncAt ??= clock.now();
      state.readyAt = isReady(status) ? (state.readyAt ?? clock.now()) : undefined;
      if (isNew) changes.emit();
    },
    onProbeFailed(uid, pod, event, failure) {
      if (failure.isEarly !== true) recordEvent(uid, pod, event);
      if (probeFailures.record(uid, failure, states.get(uid)?.status)) changes.emit();
    },
    onActionStarted: pulls.onActionStarted,
    onActionFinished(finished) {
      pulls.onActionFinished(finished);
      logAction(log, failures, finished);
      const { uid, action, startedAt, endedAt, result } = finished;
      const state = states.get(uid);
      if (state === undefined) return;
      state.timeline = withAction(state.timeline, finished);
      if (typeof result !== "string" && result.ok) recordStep(state, action, endedAt - startedAt);
    },
    onPodRemoved(uid) {
      failures.forget(uid);
      pulls.onPodRemoved(uid);
      probeFailures.onPodRemoved(uid);
      const state = states.get(uid);
      if (!states.delete(uid) || state?.desired === undefined) return;
      log.info(podFields(state), "the pod is gone");
      changes.emit();
    },
    all: () =>
      [...states.values()]
        .flatMap((state): readonly PodReport[] => {
          const report = toReport(state, pulls.of(state.uid));
          return report === undefined ? [] : [{ ...report, probeFailures: probeFailures.of(state.uid, report.status) }];
        })
        .toSorted((a, b) => (fullNameOf(a.pod) < fullNameOf(b.pod) ? -1 : 1)),
    subscribe: changes.subscribe,
  };
}

/** Undefined before the first status. */
function toReport(
  { desired, status, steps, ...state }: PodState,
  pulls: readonly ActivePull[],
): Omit<PodReport, "probeFailures"> | undefined {
  if (desired === undefined || status === undefined) return undefined;
  const { pod, source, acceptedAt } = desired;
  const isTerminationRequested = desired.termination !== undefined;
  return { ...state, pod, source, acceptedAt, status, isTerminationRequested, steps: [...steps.values()], pulls };
}

function hasChanged(
  state: PodState,
  { status, stage, blockedReason }: Pick<PodState, "status" | "stage" | "blockedReason">,
): boolean {
  return state.stage !== stage || !isDeepStrictEqual([state.status, state.blockedReason], [status, blockedReason]);
}

const isReady = ({ conditions = [] }: PodStatus) =>
  conditions.some(({ type, status }) => type === "Ready" && status === "True");

function emptyState(uid: PodUid): PodState {
  return {
    uid,
    desired: undefined,
    status: undefined,
    stage: "syncing",
    blockedReason: undefined,
    firstSyncAt: undefined,
    readyAt: undefined,
    timeline: new Map(),
    steps: new Map(),
  };
}

/** Logs a finished action and its result. */
function logAction(log: Log, failures: ReturnType<typeof createLoggedFailures>, finished: ActionFinished): void {
  const { uid, pod, action, startedAt, endedAt, result } = finished;
  const fields = { ...(pod === "" ? {} : { pod }), uid, ms: Math.round(endedAt - startedAt) };
  const sentence = describe(action);
  const shouldLog = typeof result !== "string" && failures.isUpdate(uid, action, result);
  if (result === "cancelled") log.debug(fields, `cancelled: ${sentence}`);
  else if (result.ok) log.info(fields, sentence);
  else if (result.isOutage) log.debug(fields, `the container runtime is unavailable: ${sentence}`);
  else {
    // A retry every few seconds may fail for days: repeat the same failure only at debug level.
    const level = shouldLog ? "warn" : "debug";
    log[level]({ ...fields, reason: result.reason }, `failed to ${sentence}: ${result.message}`);
  }
  if (typeof result !== "string" && result.ok && result.preStopFailure !== undefined)
    log.warn(fields, `the preStop hook has failed: ${result.preStopFailure}`);
}

/** Whatever its attempt: each attempt fails for the same cause. */
type LoggedKey = Pick<ActionKey, "kind" | "failureKey">;

/** The logged failures since the last success, by pod; also of pods without a desired pod, which have no `PodState`. */
function createLoggedFailures() {
  const pods = new Map<PodUid, KeyMap<LoggedKey, string>>();
  return {
    /** True if the action has not failed with this message since it last succeeded. */
    isUpdate(uid: PodUid, action: Action, result: Exclude<ActionFinished["result"], string>): boolean {
      const key: LoggedKey = { kind: action.kind, failureKey: failureKeyOf(action) };
      const logged = pods.get(uid) ?? createKeyMap();
      if (result.ok) pods.set(uid, logged.delete(key));
      if (result.ok || result.isOutage || logged.get(key) === result.message) return false;
      pods.set(uid, logged.set(key, result.message));
      return true;
    },
    forget: (uid: PodUid) => pods.delete(uid),
  };
}

/**
 * Logs a change of the pod's phase. A terminated pod is skipped: its actions are logged, and containers that exit
 * because they were stopped are not a failure.
 */
function logPhase(log: Log, state: PodState, desired: DesiredPod, status: PodStatus): void {
  if (desired.termination !== undefined) return;
  if (state.status?.phase === status.phase || (state.status === undefined && status.phase === "Pending")) return;
  const { reason, message } = status;
  const why = message === undefined ? "" : `: ${message}`;
  const fields = { pod: fullNameOf(desired.pod), uid: state.uid, ...(reason === undefined ? {} : { reason }) };
  if (status.phase === "Failed") log.warn(fields, `the pod has failed${why}`);
  else log.info(fields, `the pod is ${status.phase}${why}`);
}

function podFields({ uid, desired }: PodState): Readonly<Record<string, unknown>> {
  return { ...(desired === undefined ? {} : { pod: fullNameOf(desired.pod) }), uid };
}

/** Keeps the steps of the latest start: a new sandbox clears them, a restart replaces those of its container. */
function recordStep({ steps }: PodState, action: Action, ms: number): void {
  const timingStep = recordOf(action).timingStep?.(action);
  if (timingStep === undefined) return;
  const { isFirst = true, ...step } = timingStep;
  const key = `${step.what} ${step.container ?? ""}`;
  const totalMs = isFirst ? ms : ms + (steps.get(key)?.ms ?? 0);
  if (step.what === "sandbox")
    for (const [key, { what }] of steps) if (what !== "volumes" && what !== "pull") steps.delete(key);
  steps.set(key, { ...step, ms: totalMs });
}
