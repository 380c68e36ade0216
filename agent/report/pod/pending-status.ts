import { type BackoffOptions, backoffMs } from "../../../host/async/backoff.ts";
import { createLogOnce, type LogOnce } from "../../../host/async/log-once.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { isSemanticallyEqual } from "../../../proto/kubernetes/semantic-equal.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { isTerminal } from "../../decide/sources/api-pod.ts";
import {
  isDeletionDue,
  isEndProgress,
  isStartProgress,
  mayBeDelayed,
  phaseOnlyPatch,
  type StatusPatch,
  statusPatch,
} from "../../decide/status/status-patch.ts";

/** The latest status of one pod, and what the API server has of it. */
export interface PendingStatus {
  readonly uid: PodUid;
  status: PodStatus | undefined;
  stage: StageKind;
  /** The latest API object, from the watch or from a response. */
  api: Pod | undefined;
  cancelRetry: (() => void) | undefined;
  /** Cancels the timer for a delayed patch. A new status does not wait for it. */
  cancelDelay: (() => void) | undefined;
  /** Since when the API server lacks the status, or a part of it, by the monotonic clock; undefined while it has all. */
  changedMs: number | undefined;
  failures: number;
  /** The cached patch and its inputs: a call computes it several times. */
  cachedPatch: { readonly api: Pod; readonly status: PodStatus; readonly patch: StatusPatch | undefined } | undefined;
  /** The last patch that the server accepted without changing the object; it is not sent again. */
  ineffectivePatch: string | undefined;
  /** Rejected patches, and until when each is not sent again. */
  rejectedPatches: ReadonlyMap<string, number>;
  /** The last accepted status, how often in a row it was accepted, and when. */
  accepted: { readonly status: PodStatus; readonly times: number; readonly at: number } | undefined;
  /** Since when only changes are pending that may wait to be merged with the next status. */
  deferredSince: number | undefined;
  /** When the server last accepted a patch that shows how far the start, or the end, has come. */
  progressAt: number | undefined;
  /** A patch without a response may have been applied, so `api` may be older than our own write. */
  mayApiBeStale: boolean;
  /** The API pod whose deletion the server has accepted, how often it has, and when it last did. */
  deletion: { readonly uid: string; readonly times: number; readonly at: number } | undefined;
  readonly loggedErrors: LogOnce;
}

/** Recomputed when flow control lets the request through. */
interface PatchCall {
  readonly kind: "patch";
  readonly api: Pod;
  patch: StatusPatch;
  status: PodStatus;
  isProgress: boolean;
}

/** One request about the pod: write its status, read it, or delete it. */
export type StatusCall =
  | PatchCall
  | { readonly kind: "get"; readonly api: Pod }
  | { readonly kind: "delete"; readonly api: Pod };

/** A patch that changes nothing. */
const EMPTY_PATCH: StatusPatch = { status: {} };

/** A rejected patch is retried after this time: the cause may be fixed on the server without any event for us. */
const REJECTED_RETRY_MS = 300_000;
/** This many repetitions are sent without delay; after that another writer evidently keeps overwriting the status. */
const REPEATS_WITHOUT_DELAY = 3;
const REPEAT_BACKOFF: BackoffOptions = { initialMs: 1_000, maxMs: 60_000 };
/**
 * How long minor changes wait to be merged with the next status: one request instead of two for most pod starts and
 * ends. Also how far the steps of a start, or of an end, are apart: the first one is sent at once, and the last one.
 */
const DEFER_MS = 1_000;
/**
 * How long the server has to show that a pod is gone whose deletion it has accepted. A proxy may have answered in its
 * place; then the deletion is sent again.
 */
const DELETION_BACKOFF: BackoffOptions = { initialMs: 2_000, maxMs: 300_000 };
/** A status that lasted this long before it was overwritten is sent again at once. */
const REPEAT_WINDOW_MS = 300_000;

/** The initial state of a pod. */
export function emptyPendingStatus(uid: PodUid): PendingStatus {
  return {
    uid,
    status: undefined,
    stage: "syncing",
    api: undefined,
    cancelRetry: undefined,
    cancelDelay: undefined,
    changedMs: undefined,
    failures: 0,
    cachedPatch: undefined,
    ineffectivePatch: undefined,
    rejectedPatches: new Map(),
    accepted: undefined,
    deferredSince: undefined,
    progressAt: undefined,
    mayApiBeStale: false,
    deletion: undefined,
    loggedErrors: createLogOnce(),
  };
}

/** Resets the state of an ended pod before the next one under the same uid; the known API object stays. */
export function resetPending(pending: PendingStatus): void {
  const empty = emptyPendingStatus(pending.uid);
  pending.status = empty.status;
  pending.stage = empty.stage;
  pending.changedMs = empty.changedMs;
  pending.failures = empty.failures;
  pending.ineffectivePatch = empty.ineffectivePatch;
  pending.rejectedPatches = empty.rejectedPatches;
  pending.accepted = empty.accepted;
  pending.deferredSince = empty.deferredSince;
  pending.progressAt = empty.progressAt;
}

/** The next request that brings the API server up to date, or when one is due; undefined if none is needed. */
export function nextCall(
  pending: PendingStatus,
  now: number,
): StatusCall | { readonly kind: "wait"; readonly until: number } | undefined {
  const { status, api, stage } = pending;
  if (status === undefined || api === undefined) return undefined;
  if (pending.mayApiBeStale) return { kind: "get", api };
  const whole = patchOf(pending, api, status, now);
  const waits = whole !== undefined && mayBeDelayed(api, whole, status, stage);
  // Not in the future if the clock was set back.
  pending.deferredSince = waits ? Math.min(pending.deferredSince ?? now, now) : undefined;
  const isProgress =
    whole !== undefined && (isStartProgress(api, whole, status, stage) || isEndProgress(api, whole, status, stage));
  const notBefore = isProgress ? nextProgressAt(pending, now) : 0;
  const due = (patch: StatusPatch) => Math.max(dueOf(pending, status, patch), notBefore);
  const patches = whole === undefined ? [] : [whole, phaseOnlyPatch(api, whole, stage) ?? []].flat();
  const patch = patches.find((each) => due(each) <= now);
  if (patch !== undefined) return { kind: "patch", api, patch, status, isProgress };
  const deletionDue = isDeletionDue(api, stage) ? deletionDueOf(pending, api) : Number.POSITIVE_INFINITY;
  if (deletionDue <= now) return { kind: "delete", api };
  const until = Math.min(deletionDue, ...patches.map(due));
  return until === Number.POSITIVE_INFINITY ? undefined : { kind: "wait", until };
}

function patchOf(pending: PendingStatus, api: Pod, status: PodStatus, now: number): StatusPatch | undefined {
  if (pending.cachedPatch?.api !== api || pending.cachedPatch.status !== status)
    pending.cachedPatch = { api, status, patch: statusPatch(api, status, now) };
  return pending.cachedPatch.patch;
}

function dueOf(
  { ineffectivePatch, rejectedPatches, accepted, deferredSince }: PendingStatus,
  status: PodStatus,
  patch: StatusPatch,
): number {
  const text = JSON.stringify(patch);
  if (text === ineffectivePatch) return Number.POSITIVE_INFINITY;
  const isRepeated =
    accepted !== undefined && accepted.times >= REPEATS_WITHOUT_DELAY && isSemanticallyEqual(accepted.status, status);
  const pauseMs = isRepeated ? backoffMs(REPEAT_BACKOFF, accepted.times - REPEATS_WITHOUT_DELAY + 1) : 0;
  const sentAt = deferredSince === undefined ? 0 : deferredSince + DEFER_MS;
  return Math.max(rejectedPatches.get(text) ?? 0, (isRepeated ? accepted.at : 0) + pauseMs, sentAt);
}

/** Not later than a second from now if the clock was set back. */
function nextProgressAt({ progressAt }: PendingStatus, now: number): number {
  return progressAt === undefined ? 0 : Math.min(progressAt, now) + DEFER_MS;
}

function deletionDueOf({ deletion }: PendingStatus, { metadata: { uid } }: Pod): number {
  return deletion === undefined || deletion.uid !== uid ? 0 : deletion.at + backoffMs(DELETION_BACKOFF, deletion.times);
}

/** The server has accepted the deletion of an API pod. The watch shows when the pod is gone. */
export function recordDeleted(pending: PendingStatus, uid: string, now: number): void {
  const times = pending.deletion?.uid === uid ? pending.deletion.times : 0;
  pending.deletion = { uid, times: times + 1, at: now };
}

/** Counts equal statuses in a row: another agent for this node or a webhook may keep reverting them. */
export function recordAccepted(
  pending: PendingStatus,
  { patch, status, isProgress }: PatchCall,
  response: Pod,
  now: number,
): void {
  if (patch === EMPTY_PATCH) return;
  if (isProgress) pending.progressAt = now;
  const { accepted } = pending;
  const isInRow =
    accepted !== undefined && now - accepted.at < REPEAT_WINDOW_MS && isSemanticallyEqual(accepted.status, status);
  pending.accepted = { status, times: isInRow ? accepted.times + 1 : 1, at: now };
  // A patch without effect (`1.0` for `1`, or reverted by a webhook) would be sent for ever.
  const again = patchOf(pending, response, status, now);
  const text = JSON.stringify(patch);
  pending.ineffectivePatch = again !== undefined && JSON.stringify(again) === text ? text : undefined;
}

/**
 * Recomputes the patch when flow control lets it through, which under load is seconds later. The patch is empty if the
 * change was reverted meanwhile.
 */
export function latestPatch(pending: PendingStatus, call: PatchCall, now: number): StatusPatch {
  const next = nextCall(pending, now);
  const isOfSame = next?.kind === "patch" && next.api.metadata.uid === call.api.metadata.uid;
  call.patch = isOfSame ? next.patch : EMPTY_PATCH;
  if (isOfSame) Object.assign(call, { status: next.status, isProgress: next.isProgress });
  return call.patch;
}

/** The API server will not accept the patch before something changes: do not repeat it for a while. */
export function recordRejected(pending: PendingStatus, { patch }: PatchCall, now: number): void {
  const others = [...pending.rejectedPatches].filter(([, until]) => until > now);
  pending.rejectedPatches = new Map([...others, [JSON.stringify(patch), now + REJECTED_RETRY_MS]]);
  pending.failures = 0;
}

/** The API pod is gone; the watch will show its deletion too. */
export function dropApiPod(pending: PendingStatus, uid: string | undefined): void {
  if (pending.api?.metadata.uid === uid) pending.api = undefined;
  pending.failures = 0;
}

/**
 * The final status that must reach the API server before the pod's containers are removed; undefined if it has it or
 * needs none.
 */
export function unsentFinalStatus({ status, stage, api }: PendingStatus): PodStatus | undefined {
  const isEnding = api === undefined ? stage !== "syncing" : api.metadata.deletionTimestamp !== undefined;
  return isEnding && status !== undefined && isTerminal(status) && !isTerminal(api?.status) ? status : undefined;
}
