import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../host/clock.ts";
import type { PodUid } from "../../proto/ids.ts";
import { priorityOf } from "../../proto/kubernetes/priority.ts";
import type { ActionClass } from "../decide/actions/action-record.ts";
import { createKeyMap, type KeyMap } from "../decide/actions/key-map.ts";
import { type Action, type ActionKey, actionKeyOf, classOf } from "../decide/pod/action.ts";
import {
  clearInProgress,
  failureCount,
  recordDequeued,
  recordResult,
  recordStarted,
} from "../decide/pod/action-memory.ts";
import { type Backoff, backoffDelayMs } from "../decide/pod/backoff.ts";
import type { DesiredPodView } from "../decide/pod/desired.ts";
import { type ActionResult, emptyMemory, type PodMemory } from "../decide/pod/memory.ts";
import type { ObservedPod } from "../decide/pod/observed.ts";
import { type Decision, decideOrphan, decidePod } from "../decide/pod/pod.ts";
import type { PodSettings } from "../decide/settings.ts";
import { unobservedStatus } from "../decide/status/status.ts";
import type { ActionCall, SyncPorts } from "./ports.ts";
import { STUCK_AFTER_MS, type StartLimiter } from "./start-limiter.ts";
import { type SyncTimer, setSyncTimer } from "./sync-delay.ts";
import type { SyncSubscriber } from "./sync-subscriber.ts";

/** What the syncs of all pods share. */
export interface LoopState {
  readonly clock: Clock;
  readonly ports: SyncPorts;
  /** Calls every subscriber of the syncs. */
  readonly notify: Required<SyncSubscriber>;
  readonly settings: () => PodSettings;
  readonly starts: StartLimiter;
  readonly wake: (uid: PodUid) => void;
  /** The loop sets no timer and starts no call any more. */
  readonly isStopping: () => boolean;
  /** Nothing is left of the pod. */
  readonly remove: (pod: PodWorker) => void;
}

/** The state that the loop keeps for one pod: its memory, its calls under way and its next due time. */
export interface PodWorker extends SyncTimer {
  readonly uid: PodUid;
  memory: PodMemory;
  /** The calls of the current sync. */
  syncCall: SyncCall | undefined;
  /** Pulls, hooks and stops: calls that outlive the sync that started them. */
  readonly background: Map<Action, CancellableCall & { readonly done: Promise<void> }>;
  /**
   * How many background calls have finished. An observation that started before one finished does not include its
   * effect.
   */
  finishedBackgroundCalls: number;
  /** Whether the pod was ever observed successfully. */
  hasBeenObserved: boolean;
  /** When the first observation of this pod began, or, once it was observed, when one first failed; epoch milliseconds. */
  observeFailingSince: number | undefined;
  /** How many scheduled syncs failed in a row, in the observation or in the decision. Early retries do not count. */
  syncFailures: number;
  /** When the retry after a failed sync is due; epoch milliseconds. */
  retryAt: number | undefined;
  /**
   * The actions that succeeded since the last decision, by `actionKeyOf`, each with its count of earlier failures in a
   * row. An action that is needed again at once had no effect, although the runtime reported success.
   */
  succeededActions: KeyMap<ActionKey, number>;
}

/** A call that can be cancelled, and why the pod had to terminate when the call started. */
interface CancellableCall {
  readonly abort: AbortController;
  readonly termination: KnownTermination;
}

type SyncCall = CancellableCall & {
  readonly startedAt: number;
  /** Cancels the timer that aborts the calls. */
  cancelAbort: () => void;
};

type KnownTermination = "not desired" | Pick<DesiredPodView, "termination" | "terminationRequest">;

export function createPodWorker(uid: PodUid): PodWorker {
  return {
    uid,
    memory: emptyMemory,
    syncCall: undefined,
    background: new Map(),
    finishedBackgroundCalls: 0,
    cancelTimer: undefined,
    syncDueMs: undefined,
    syncStartedMs: undefined,
    hasBeenObserved: false,
    observeFailingSince: undefined,
    syncFailures: 0,
    retryAt: undefined,
    succeededActions: createKeyMap(),
  };
}

/** What one sync works on. */
interface SyncInput {
  readonly pod: PodWorker;
  readonly desired: DesiredPodView | undefined;
  readonly observed: ObservedPod;
}

const SYNC_RETRY: Backoff = { initialMs: 2_000, maxMs: 30_000 };

/** One sync of a pod: observe, decide, report, act. Removes its worker when nothing is left of the pod. Never rejects. */
export async function syncPod(state: LoopState, pod: PodWorker): Promise<void> {
  const { ports, notify } = state;
  const desiredPod = ports.desired(pod.uid);
  if (desiredPod === "unknown") return;
  const { finishedBackgroundCalls } = pod;
  let observed: ObservedPod;
  const cancelReport = scheduleUnobservedReport(state, pod, desiredPod);
  try {
    observed = await ports.observe(pod.uid, desiredPod).finally(cancelReport);
    notify.onObserved(observed, desiredPod);
  } catch (error) {
    return onUnobserved(state, pod, desiredPod, error);
  }
  // `stop` has aborted the calls under way. It would not abort one that starts now.
  if (state.isStopping()) return;
  pod.hasBeenObserved ||= observed.sandboxReadError === undefined && observed.containerReadError === undefined;
  // A background call finished during the observation. It wakes the pod, and the next sync observes its effect.
  if (pod.finishedBackgroundCalls !== finishedBackgroundCalls) return;
  // The desired state may have changed while the node was read; decide on the latest.
  const desired = ports.desired(pod.uid);
  if (desired === "unknown") return;
  const { containerReadError } = observed;
  if (containerReadError !== undefined && desired !== undefined && !mustTerminate(desired))
    return onUnobserved(state, pod, desired, containerReadError);
  const input: SyncInput = { pod, desired, observed };
  let decision: PodDecision;
  try {
    decision = decide(state, input);
    if (decision.stage.kind === "syncing" && observed.sandboxReadError !== undefined)
      return onUnobserved(state, pod, desired, observed.sandboxReadError);
    notifyDecided(state, input, decision);
  } catch (error) {
    // A bug of ours, or a pod that no API server would accept. Other pods must not suffer.
    notify.onSyncFailed(pod.uid, error);
    scheduleRetry(state, pod);
    return;
  }
  clearSyncFailures(pod);
  pod.memory = decision.memory;
  scheduleSync(state, pod, decision.lookAgainAt);
  if (decision.stage.kind === "finished") return state.remove(pod);
  if (decision.hasUnconfirmedExit) return;
  await performActions(state, input, decision);
}

const mustTerminate = ({ termination, terminationRequest }: DesiredPodView): boolean =>
  termination !== undefined || terminationRequest !== undefined;

/** The pod's sandbox or one of its containers could not be read: the pod keeps its state, and the next sync reads it again. */
function onUnobserved(state: LoopState, pod: PodWorker, desiredPod: DesiredPodView | undefined, error: unknown): void {
  state.notify.onSyncFailed(pod.uid, error);
  scheduleRetry(state, pod);
  reportUnobserved(state, pod, desiredPod, error);
}

/**
 * A runtime that is frozen answers neither with a pod nor with an error: a new pod is reported while its first
 * observation lasts. Returns the function that cancels the report.
 */
function scheduleUnobservedReport(
  state: LoopState,
  pod: PodWorker,
  desiredPod: DesiredPodView | undefined,
): () => void {
  if (pod.hasBeenObserved) return () => {};
  const { clock } = state;
  pod.observeFailingSince ??= clock.now();
  return clock.wakeAt(clock.now() + SYNC_RETRY.initialMs, () =>
    reportUnobserved(state, pod, desiredPod, new Error("the container runtime has not answered yet")),
  );
}

/**
 * Reports a status for a desired pod that was never observed. A pod that was observed before keeps its last status. The
 * first failure is not reported at once: right after the agent starts the runtime may just not have answered yet, and a
 * running pod would be shown as Pending. Never throws.
 */
function reportUnobserved(
  { clock, notify }: LoopState,
  pod: PodWorker,
  desiredPod: DesiredPodView | undefined,
  error: unknown,
): void {
  pod.observeFailingSince ??= clock.now();
  // Negative after the clock was set back.
  const failingMs = clock.now() - pod.observeFailingSince;
  if (desiredPod === undefined || pod.hasBeenObserved || (failingMs >= 0 && failingMs < SYNC_RETRY.initialMs)) return;
  const message = `the pod's containers cannot be observed yet: ${error instanceof Error ? error.message : error}`;
  const stage = desiredPod.termination === undefined ? "syncing" : "terminating";
  try {
    const status = unobservedStatus(desiredPod, message);
    const unknown = { outcome: undefined, blockedReason: undefined, unusableImages: new Map() };
    notify.onStatusDecided({ uid: pod.uid, desired: desiredPod, status, stage, ...unknown });
  } catch (failure) {
    notify.onSyncFailed(pod.uid, failure);
  }
}

/** A pod without a source has no status. */
type PodDecision = Omit<Decision, "status" | "unusableImages"> & Partial<Pick<Decision, "status" | "unusableImages">>;

function decide({ clock, settings }: LoopState, { pod, desired, observed }: SyncInput): PodDecision {
  const now = clock.now();
  if (desired === undefined) return decideOrphan(observed, pod.memory, now);
  return decidePod(desired, observed, pod.memory, settings(), now);
}

function notifyDecided({ notify }: LoopState, { pod: { uid }, desired }: SyncInput, decision: PodDecision): void {
  const { status, stage, memory, blockedReason, unusableImages = new Map(), resize } = decision;
  if (desired === undefined || status === undefined) return;
  const { outcome } = memory;
  const decided = { uid, desired, status, stage: stage.kind, outcome, blockedReason, unusableImages };
  notify.onStatusDecided({ ...decided, ...(resize && { resize }) });
}

/** Whether the action runs in the background, beyond the sync that starts it. */
function runsInBackground(action: Action): boolean {
  const actionClass = classOf(action);
  return actionClass === "background" || actionClass === "stop";
}

/** Resets the retry delay after a success, or after an outage has ended. */
export function clearSyncFailures(pod: PodWorker): void {
  pod.syncFailures = 0;
  pod.retryAt = undefined;
}

/**
 * Schedules a retry after a failed observation or decision. A bug or an unreadable file may last as long as the pod, so
 * the delay grows with each failure. An early retry, caused by a wake, neither counts as a failure nor moves the due
 * time.
 */
function scheduleRetry(state: LoopState, pod: PodWorker): void {
  const now = state.clock.now();
  const isEarly = pod.retryAt !== undefined && now < pod.retryAt && pod.retryAt - now <= SYNC_RETRY.maxMs;
  if (!isEarly) {
    pod.syncFailures++;
    pod.retryAt = now + backoffDelayMs(SYNC_RETRY, pod.syncFailures);
  }
  scheduleSync(state, pod, pod.retryAt);
}

function scheduleSync({ clock, wake, isStopping }: LoopState, pod: PodWorker, at: number | undefined): void {
  setSyncTimer(clock, pod, isStopping() ? undefined : at, () => wake(pod.uid));
}

async function performActions(state: LoopState, input: SyncInput, decision: PodDecision): Promise<void> {
  const { pod } = input;
  if (decision.stage.kind !== "syncing") abortBackground(pod, "background");
  const [ineffective, actions] = partition(decision.actions, (action) => pod.succeededActions.has(actionKeyOf(action)));
  for (const action of ineffective) recordIneffectiveAction(state, input, action);
  pod.succeededActions = createKeyMap();
  const runnable = selectRunnable(state, input, actions);
  for (const action of actions) if (runsInBackground(action)) startInBackground(state, input, action);
  await runInSync(state, input, runnable);
  if (runnable.length + ineffective.length > 0) state.wake(pod.uid);
}

/** Runs the actions that the sync waits for. */
async function runInSync(state: LoopState, input: SyncInput, actions: readonly Action[]): Promise<void> {
  const { pod, desired } = input;
  const abort = new AbortController();
  const startedAt = state.clock.now();
  const syncCall: SyncCall = { abort, termination: terminationOf(desired), startedAt, cancelAbort: () => {} };
  pod.syncCall = syncCall;
  const call: ActionCall = { signal: abort.signal, onStarted: () => {} };
  await Promise.all(actions.map((action) => run(state, input, action, call)));
  syncCall.cancelAbort();
  pod.syncCall = undefined;
}

function partition<T>(all: readonly T[], isFirst: (item: T) => boolean): readonly [readonly T[], readonly T[]] {
  return [all.filter(isFirst), all.filter((item) => !isFirst(item))];
}

/**
 * The actions that may run now: always those that end something, and starts only while the pod holds a start slot. A
 * pod without a slot is woken when it gets one.
 */
function selectRunnable(
  { starts }: LoopState,
  { pod, desired }: SyncInput,
  actions: readonly Action[],
): readonly Action[] {
  const hasStart = actions.some((action) => classOf(action) === "start");
  if (!hasStart) starts.release(pod.uid);
  const mayStart = hasStart && starts.acquire(pod.uid, desired === undefined ? 0 : priorityOf(desired.pod));
  const isUnlimited = (action: Action) => classOf(action) === "end" || classOf(action) === "update";
  return actions.filter((action) => isUnlimited(action) || (classOf(action) === "start" && mayStart));
}

/**
 * The failure of an action that succeeded and is needed again.
 * @internal
 */
export const INEFFECTIVE_ACTION = "the runtime reported success, but nothing has changed";

/** Records an action as failed that just succeeded and is needed again, so that it backs off instead of looping. */
function recordIneffectiveAction({ clock, ports, notify }: LoopState, input: SyncInput, action: Action): void {
  const { pod } = input;
  const now = clock.now();
  const failure = ports.toFailure(action, new Error(INEFFECTIVE_ACTION));
  const result: ActionResult = { ok: false, ...failure };
  pod.memory = recordResult(pod.memory, action, result, now, pod.succeededActions.get(actionKeyOf(action)));
  notify.onActionFinished({ ...podIdentity(input), action, startedAt: now, endedAt: now, result });
}

function startInBackground(state: LoopState, input: SyncInput, action: Action): void {
  const { pod } = input;
  const abort = new AbortController();
  pod.memory = recordStarted(pod.memory, action, state.clock.now());
  const onStarted = () => {
    pod.memory = recordDequeued(pod.memory, action, state.clock.now());
    state.wake(pod.uid);
  };
  const done = run(state, input, action, { signal: abort.signal, onStarted }).then(() => {
    // A pod that has left the loop has an empty `background` and needs no wake.
    if (pod.background.delete(action)) state.wake(pod.uid);
  });
  pod.background.set(action, { abort, termination: terminationOf(input.desired), done });
}

function terminationOf(desiredPod: DesiredPodView | undefined): KnownTermination {
  if (desiredPod === undefined) return "not desired";
  const { termination, terminationRequest } = desiredPod;
  return { ...(termination && { termination }), ...(terminationRequest && { terminationRequest }) };
}

/**
 * Aborts the calls that started under an older termination request: at once those in the background, which wait for
 * something, and a call of the sync only when it has lasted ten seconds. Most end within one, and a runtime whose
 * RunPodSandbox is aborted may list the sandbox only after the agent has stopped reading the pod.
 *
 * Calls that started under the current request continue, so a preStop hook never runs twice: a request takes effect
 * before it is saved and before the loop is notified, and a sync in between may have started the hook.
 */
export function cancelOutdatedCalls(
  { clock }: Pick<LoopState, "clock">,
  { syncCall, background }: PodWorker,
  desiredPod: DesiredPodView | undefined | "unknown",
): void {
  const isOutdated = ({ termination }: CancellableCall) =>
    desiredPod === "unknown" || !isDeepStrictEqual(termination, terminationOf(desiredPod));
  for (const call of background.values()) if (isOutdated(call)) call.abort.abort();
  if (syncCall === undefined || !isOutdated(syncCall)) return;
  syncCall.cancelAbort();
  syncCall.cancelAbort = clock.wakeAt(syncCall.startedAt + STUCK_AFTER_MS, () => syncCall.abort.abort());
}

/** Aborts the background calls of a pod: all of them, or those of one class. */
export function abortBackground(pod: PodWorker, actionClass?: ActionClass): void {
  for (const [action, { abort }] of pod.background)
    if (actionClass === undefined || classOf(action) === actionClass) abort.abort();
}

/** Runs one action. Never rejects: a failure is recorded in the pod's memory, and the next decision handles it. */
async function run(state: LoopState, input: SyncInput, action: Action, call: ActionCall): Promise<void> {
  const { clock, ports, notify } = state;
  const { pod, desired, observed } = input;
  const startedAt = clock.now();
  let started: { readonly dequeuedAt?: number } = {};
  const onStarted = () => {
    started = { dequeuedAt: clock.now() };
    call.onStarted();
  };
  notify.onActionStarted({ ...podIdentity(input), action, startedAt });
  let result: ActionResult | "cancelled";
  try {
    result = { ok: true, ...(await ports.act(pod.uid, desired, observed, action, { signal: call.signal, onStarted })) };
  } catch (error) {
    result = call.signal.aborted ? "cancelled" : { ok: false, ...ports.toFailure(action, error) };
  }
  const endedAt = clock.now();
  if (runsInBackground(action)) pod.finishedBackgroundCalls++;
  if (result !== "cancelled" && result.ok)
    pod.succeededActions = pod.succeededActions.set(actionKeyOf(action), failureCount(pod.memory, action));
  pod.memory =
    result === "cancelled" ? clearInProgress(pod.memory, action) : recordResult(pod.memory, action, result, endedAt);
  notify.onActionFinished({ ...podIdentity(input), action, startedAt, ...started, endedAt, result });
}

function podIdentity({ pod: { uid }, observed: { namespace, name } }: SyncInput): {
  readonly uid: PodUid;
  readonly pod: string;
} {
  return { uid, pod: name === "" ? "" : `${namespace}/${name}` };
}
