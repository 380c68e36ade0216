import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../host/clock.ts";
import type { PodUid } from "../../proto/ids.ts";
import { priorityOf } from "../../proto/kubernetes/priority.ts";
import { type Action, type ActionLane, identityOf, laneOf } from "../decide/pod/action.ts";
import { type Backoff, delayOf } from "../decide/pod/backoff.ts";
import type { DesiredNow, Termination } from "../decide/pod/desired.ts";
import {
  type ActionResult,
  emptyMemory,
  failureCount,
  forgetUnderWay,
  type PodMemory,
  remember,
  rememberPulling,
  rememberStart,
} from "../decide/pod/memory.ts";
import type { ObservedPod } from "../decide/pod/observed.ts";
import { type Decision, decideOrphan, decidePod } from "../decide/pod/pod.ts";
import type { Settings } from "../decide/settings.ts";
import { unseenStatus } from "../decide/status/status.ts";
import type { Call, Rooms } from "../rooms.ts";
import type { Starts } from "./start-limiter.ts";

/** All that the turns of all pods share. */
export interface Hallway {
  readonly clock: Clock;
  readonly rooms: Rooms;
  readonly settings: () => Settings;
  readonly starts: Starts;
  readonly wake: (uid: PodUid) => void;
}

export interface PodInLoop {
  readonly uid: PodUid;
  memory: PodMemory;
  isDirty: boolean;
  turning: Promise<void> | undefined;
  /** The calls of the present turn, or of the last one. */
  turn: UnderWay | undefined;
  /** Pulls, hooks and stops, which outlive turns. */
  readonly background: Map<Action, UnderWay & { readonly done: Promise<void> }>;
  /** How many of them have ended: a look that was begun before one of them did says nothing of it. */
  ended: number;
  cancelTimer: (() => void) | undefined;
  /** Whether a look has succeeded; and the time of the first look, as long as none has. */
  isSeen: boolean;
  blindSince: number | undefined;
  /** How many looks and decisions have failed in a row, each made when it was due. */
  failedLooks: number;
  /** When the next look after one that has failed is due. */
  retryAt: number | undefined;
  /**
   * What was done with success since the last decision, and how often in a row it had failed before: to see through a runtime that
   * only says so.
   */
  readonly justDone: Map<string, number>;
}

/** What was begun and can be given up, and what was known of the pod's end when it was. */
interface UnderWay {
  readonly abort: AbortController;
  readonly end: EndKnown;
}

type EndKnown = "nobody wants it" | Termination | undefined;

/** A pod of which the loop knows nothing yet but its uid. */
export function enterLoop(uid: PodUid): PodInLoop {
  return {
    uid,
    memory: emptyMemory,
    isDirty: false,
    turning: undefined,
    turn: undefined,
    background: new Map(),
    ended: 0,
    cancelTimer: undefined,
    isSeen: false,
    blindSince: undefined,
    failedLooks: 0,
    retryAt: undefined,
    justDone: new Map(),
  };
}

/** What one turn looked at. */
interface Look {
  readonly pod: PodInLoop;
  readonly desired: DesiredNow | undefined;
  readonly observed: ObservedPod;
}

const BLIND_RETRY: Backoff = { firstMs: 2_000, longestMs: 30_000 };

/** One turn: look, decide, report, act. True when nothing is left of the pod. Never rejects. */
export async function takeTurn(hall: Hallway, pod: PodInLoop): Promise<boolean> {
  const { rooms } = hall;
  const wanted = rooms.desired(pod.uid);
  if (wanted === "unknown") return false;
  const { ended } = pod;
  let observed: ObservedPod;
  try {
    observed = await rooms.observe(pod.uid, wanted);
  } catch (error) {
    rooms.blind(pod.uid, error);
    reportUnseen(hall, pod, wanted, error);
    lookAgainLater(hall, pod);
    return false;
  }
  pod.isSeen = true;
  // Who has ended it wakes the pod.
  if (pod.ended !== ended) return false;
  // What is wanted may have changed while the node was read; decisions go by the latest word.
  const desired = rooms.desired(pod.uid);
  if (desired === "unknown") return false;
  const look: Look = { pod, desired, observed };
  let decision: ReturnType<typeof decide>;
  try {
    decision = decide(hall, look);
  } catch (error) {
    // A mistake of ours, or a pod that no API server lets through: the other pods go on.
    rooms.blind(pod.uid, error);
    lookAgainLater(hall, pod);
    return false;
  }
  forgetFailedLooks(pod);
  pod.memory = decision.memory;
  lookAgain(hall, pod, decision.lookAgainAt);
  if (decision.stage.kind === "finished") return true;
  // Whoever is ahead of the runtime looks again when that has followed.
  if (observed.isAhead) return false;
  await carryOut(hall, look, decision);
  return false;
}

/**
 * A pod that was reported keeps its last status while nobody can look; one that never was is shown as wanted. Not at once: in the
 * first moments of an agent the runtime has only not answered yet, and a pod that runs would be shown as Pending.
 */
function reportUnseen({ clock, rooms }: Hallway, pod: PodInLoop, wanted: DesiredNow | undefined, error: unknown): void {
  pod.blindSince ??= clock.now();
  // Negative where the clock was set back.
  const blindMs = clock.now() - pod.blindSince;
  if (wanted === undefined || pod.isSeen || (blindMs >= 0 && blindMs < BLIND_RETRY.firstMs)) return;
  const why = `what of the pod runs is not known yet: ${error instanceof Error ? error.message : error}`;
  const stage = wanted.termination === undefined ? "syncing" : "terminating";
  rooms.report(pod.uid, wanted, unseenStatus(wanted, why), stage);
}

function decide({ clock, rooms, settings }: Hallway, { pod, desired, observed }: Look): Omit<Decision, "status"> {
  const now = clock.now();
  if (desired === undefined) return decideOrphan(observed, pod.memory, now);
  const decision = decidePod(desired, observed, pod.memory, settings(), now);
  rooms.report(pod.uid, desired, decision.status, decision.stage.kind, decision.obstacle);
  return decision;
}

/** True for what outlives the turn that has begun it. */
function isBesideTurns(action: Action): boolean {
  const lane = laneOf(action);
  return lane === "background" || lane === "stop";
}

/** Of nothing that failed is the next delay made longer: who has succeeded, or heard that what was away is back. */
export function forgetFailedLooks(pod: PodInLoop): void {
  pod.failedLooks = 0;
  pod.retryAt = undefined;
}

/**
 * After a look or a decision that failed. A mistake may stay for as long as its pod does, and so may a file that cannot be read: what is
 * tried for ever is tried more and more seldom. A wake in between, of which there may be many at once, tries once more and delays nothing.
 */
function lookAgainLater(hall: Hallway, pod: PodInLoop): void {
  const now = hall.clock.now();
  const isEarly = pod.retryAt !== undefined && now < pod.retryAt && pod.retryAt - now <= BLIND_RETRY.longestMs;
  if (!isEarly) {
    pod.failedLooks++;
    pod.retryAt = now + delayOf(BLIND_RETRY, pod.failedLooks);
  }
  lookAgain(hall, pod, pod.retryAt);
}

/** The one timer of a pod: a new due time takes the place of the old one. */
function lookAgain({ clock, wake }: Hallway, pod: PodInLoop, at: number | undefined): void {
  pod.cancelTimer?.();
  pod.cancelTimer = at === undefined ? undefined : clock.wakeAt(at, () => wake(pod.uid));
}

async function carryOut(hall: Hallway, look: Look, decision: Omit<Decision, "status">): Promise<void> {
  const { pod } = look;
  if (decision.stage.kind !== "syncing") abortBackground(pod, "background");
  const [unbelievable, actions] = partition(decision.actions, (action) => pod.justDone.has(identityOf(action)));
  for (const action of unbelievable) rememberDisbelief(hall, look, action);
  pod.justDone.clear();
  const admitted = admit(hall, look, actions);
  for (const action of actions) if (isBesideTurns(action)) startInBackground(hall, look, action);
  const abort = new AbortController();
  pod.turn = { abort, end: endOf(look.desired) };
  const call = { signal: abort.signal, began: () => {} };
  await Promise.all(admitted.map((action) => run(hall, look, action, call)));
  if (admitted.length + unbelievable.length > 0) pod.isDirty = true;
}

function partition<T>(all: readonly T[], isFirst: (item: T) => boolean): readonly [readonly T[], readonly T[]] {
  return [all.filter(isFirst), all.filter((item) => !isFirst(item))];
}

/** What may be done at once: endings always, starts when the pod has a place; without one it is called when it gets it. */
function admit({ starts }: Hallway, { pod, desired }: Look, actions: readonly Action[]): readonly Action[] {
  const hasStart = actions.some((action) => laneOf(action) === "start");
  if (!hasStart) starts.release(pod.uid);
  const mayStart = hasStart && starts.take(pod.uid, desired === undefined ? 0 : priorityOf(desired.pod));
  return actions.filter((action) => laneOf(action) === "end" || (laneOf(action) === "start" && mayStart));
}

/** An action that has just succeeded and is needed again was no success; as a failure it has to wait its turn. */
function rememberDisbelief({ clock, rooms }: Hallway, look: Look, action: Action): void {
  const { pod } = look;
  const now = clock.now();
  const explained = rooms.explain(action, new Error("it was reported as done, but nothing has changed"));
  const result: ActionResult = { ok: false, ...explained };
  pod.memory = remember(pod.memory, action, result, now, pod.justDone.get(identityOf(action)));
  rooms.took({ ...whose(look), action, startedAt: now, endedAt: now, result });
}

function startInBackground(hall: Hallway, look: Look, action: Action): void {
  const { pod } = look;
  const abort = new AbortController();
  pod.memory = rememberStart(pod.memory, action, hall.clock.now());
  const began = () => {
    pod.memory = rememberPulling(pod.memory, action, hall.clock.now());
    hall.wake(pod.uid);
  };
  const done = run(hall, look, action, { signal: abort.signal, began }).then(() => {
    // Of a pod that has left the loop nobody has to hear.
    if (pod.background.delete(action)) hall.wake(pod.uid);
  });
  pod.background.set(action, { abort, end: endOf(look.desired), done });
}

const endOf = (wanted: DesiredNow | undefined): EndKnown =>
  wanted === undefined ? "nobody wants it" : wanted.termination;

/**
 * Gives up what was begun before the end of the pod was asked for as it is now. What goes by that already goes on: the word is known before
 * it is written down and told of, and a hook that was begun in between is not begun once more.
 */
export function giveUpOutdated(pod: PodInLoop, wanted: DesiredNow | undefined | "unknown"): void {
  const isOutdated = ({ end }: UnderWay) => wanted === "unknown" || !isDeepStrictEqual(end, endOf(wanted));
  for (const underWay of [...(pod.turn ? [pod.turn] : []), ...pod.background.values()])
    if (isOutdated(underWay)) underWay.abort.abort();
}

/** Gives up what runs beside the turns of a pod: all of it, or one lane. */
export function abortBackground(pod: PodInLoop, lane?: ActionLane): void {
  for (const [action, { abort }] of pod.background) if (lane === undefined || laneOf(action) === lane) abort.abort();
}

/** Never rejects: what went wrong is remembered, and the next decision takes it up. */
async function run(hall: Hallway, look: Look, action: Action, call: Call): Promise<void> {
  const { clock, rooms } = hall;
  const { pod, desired, observed } = look;
  const startedAt = clock.now();
  let waited: { readonly beganAt?: number } = {};
  const began = () => {
    waited = { beganAt: clock.now() };
    call.began();
  };
  rooms.begins({ ...whose(look), action, startedAt });
  let result: ActionResult | "given up";
  try {
    result = { ok: true, ...(await rooms.act(pod.uid, desired, observed, action, { signal: call.signal, began })) };
  } catch (error) {
    result = call.signal.aborted ? "given up" : { ok: false, ...rooms.explain(action, error) };
  }
  const endedAt = clock.now();
  if (isBesideTurns(action)) pod.ended++;
  rooms.took({ ...whose(look), action, startedAt, ...waited, endedAt, result });
  if (result !== "given up" && result.ok) pod.justDone.set(identityOf(action), failureCount(pod.memory, action));
  pod.memory =
    result === "given up" ? forgetUnderWay(pod.memory, action) : remember(pod.memory, action, result, endedAt);
}

function whose({ pod: { uid }, observed: { namespace, name } }: Look): { readonly uid: PodUid; readonly pod: string } {
  return { uid, pod: name === "" ? "" : `${namespace}/${name}` };
}
