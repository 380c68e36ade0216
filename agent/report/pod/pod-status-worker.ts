import { createKeyedCoalescingWorker, type KeyedCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import type { Clock } from "../../../host/clock.ts";
import { messageOf } from "../../../host/error-message.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { hasCode, isOutage, KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import { isNewer } from "../../decide/sources/api-object.ts";
import { changesReadiness } from "../../decide/status/status-patch.ts";
import { decodePod } from "../decode-response.ts";
import { retryAfterMs } from "../retry.ts";
import {
  dropApiPod,
  latestPatch,
  nextCall,
  type PendingStatus,
  recordAccepted,
  recordDeleted,
  recordRejected,
  type StatusCall,
} from "./pending-status.ts";

export interface PodStatusOptions {
  readonly kube: Pick<KubeClient, "get" | "patch" | "delete">;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
  /** Saves the final status of a pod before the node loses its containers. Resolves when it is saved; never rejects. */
  readonly saveFinalStatus: (uid: PodUid, status: PodStatus) => Promise<void>;
  /** The API server has accepted a status, `waitedMs` after it began to differ. `pod` is the pod as it answered. */
  readonly onSaved?: (uid: PodUid, pod: Pod, waitedMs: number) => void;
}

const SEND_FAILED = "cannot send the pod's status to the API server";
const DELETE_FAILED = "cannot delete the pod from the API server";

/**
 * The worker of one pod's status: sends one request after the other until the API server is up to date. A failed
 * request is recomputed and retried later; until then a wake does nothing.
 */
export function createPodStatusWorker(
  settings: PodStatusOptions,
  stopping: AbortSignal,
): KeyedCoalescingWorker<PendingStatus> {
  const { clock, random } = settings;
  const worker = createKeyedCoalescingWorker(work);

  /** Never rejects. */
  async function work(pending: PendingStatus): Promise<void> {
    while (!stopping.aborted && pending.cancelRetry === undefined) {
      pending.cancelDelay?.();
      pending.cancelDelay = undefined;
      let call: StatusCall | undefined;
      try {
        const next = nextCall(pending, clock.now());
        if (next === undefined) pending.changedMs = undefined;
        if (next === undefined) return;
        if (next.kind === "wait" || next.kind === "patch") pending.changedMs ??= clock.monotonicMs();
        if (next.kind === "wait") return scheduleDelayed(pending, next.until);
        call = next;
        await send(settings, pending, call, stopping);
        // A successful read does not show that writes succeed.
        if (call.kind !== "get") {
          pending.failures = 0;
          pending.loggedErrors.clear();
        }
      } catch (error) {
        if (call === undefined) onPatchFailed(settings, pending, error);
        else await onSendFailed(settings, pending, call, error, stopping);
        if (pending.failures > 0) return waitToRetry(pending, error);
      }
    }
  }

  function scheduleDelayed(pending: PendingStatus, at: number): void {
    pending.cancelDelay = clock.wakeAt(at, () => {
      pending.cancelDelay = undefined;
      worker.wake(pending);
    });
  }

  function waitToRetry(pending: PendingStatus, error: unknown): void {
    if (stopping.aborted) return;
    const delayMs = retryAfterMs(pending.failures, error) * (1 + random() / 2);
    pending.cancelRetry = clock.wakeAt(clock.now() + delayMs, () => {
      pending.cancelRetry = undefined;
      worker.wake(pending);
    });
  }

  return worker;
}

async function send(
  settings: PodStatusOptions,
  pending: PendingStatus,
  call: StatusCall,
  signal: AbortSignal,
): Promise<void> {
  const { kube, clock } = settings;
  const { name = "", namespace, uid = "" } = call.api.metadata;
  const resource = pods(namespace);
  if (call.kind === "delete") {
    await kube.delete(resource, name, { gracePeriodSeconds: 0, preconditions: { uid } }, { signal });
    recordDeleted(pending, uid, clock.now());
    return;
  }
  if (call.kind === "get") {
    applyRead(pending, uid, decodePod(await kube.get(resource, name, { signal })));
    pending.mayApiBeStale = false;
    return;
  }
  const body = () => latestPatch(pending, call, clock.now());
  const patch = { type: "strategic", subresource: "status", uid, body } as const;
  // Readiness changes go first, because Services route by them.
  const isUrgent = () => changesReadiness(pending.api, pending.status);
  const response = decodeResponse(await kube.patch(resource, name, patch, { signal, isUrgent }), pending.api);
  const isStillThere = pending.api?.metadata.uid === uid;
  if (isStillThere && isNewer(response.metadata.resourceVersion, pending.api?.metadata.resourceVersion))
    pending.api = response;
  recordAccepted(pending, call, response, clock.now());
  const { uid: podUid, changedMs = clock.monotonicMs() } = pending;
  settings.onSaved?.(podUid, response, clock.monotonicMs() - changedMs);
  pending.changedMs = undefined;
}

/** Takes the pod as read, unless the watch has delivered a newer version during the read. */
function applyRead(pending: PendingStatus, uid: string | undefined, read: Pod): void {
  const { api } = pending;
  const isSame = api?.metadata.uid === uid;
  if (read.metadata.uid !== uid) dropApiPod(pending, uid);
  else if (isSame && !isNewer(api?.metadata.resourceVersion, read.metadata.resourceVersion)) pending.api = read;
}

/** Decodes the response, or returns the watch's object if it is the same version. */
function decodeResponse(response: Pod, shown: Pod | undefined): Pod {
  const { uid, resourceVersion } = (response.metadata as Pod["metadata"] | undefined) ?? {};
  const isShown =
    uid !== undefined && uid === shown?.metadata.uid && resourceVersion === shown.metadata.resourceVersion;
  return isShown ? shown : decodePod(response);
}

/** Handles a failed call. Afterwards `failures` is 0 if there is nothing to retry. Never rejects. */
async function onSendFailed(
  settings: PodStatusOptions,
  pending: PendingStatus,
  call: StatusCall,
  error: unknown,
  signal: AbortSignal,
): Promise<void> {
  const { kube, clock, log } = settings;
  const { name = "", namespace, uid } = call.api.metadata;
  pending.failures += 1;
  if (call.kind === "patch" && isResultUnknown(error)) pending.mayApiBeStale = true;
  if (hasCode(error, "NOT_FOUND") && call.kind !== "delete") return dropApiPod(pending, uid);
  if (hasCode(error, "CONFLICT", "NOT_FOUND")) {
    // Read the pod: either another pod has this name now, or other clients write to this one. Also, the API server
    // authorises a delete with its own cache, which may not have the pod yet.
    const response = kube.get(pods(namespace), name, { signal });
    const read = await response.then(decodePod).catch((failure: unknown) => failure);
    if (hasCode(read, "NOT_FOUND")) return dropApiPod(pending, uid);
    if (isPod(read)) applyRead(pending, uid, read);
    return;
  }
  if (!isOutage(error)) logOnce(log, pending, call.api, call.kind === "delete" ? DELETE_FAILED : SEND_FAILED, error);
  if (call.kind === "patch" && isInvalid(error)) recordRejected(pending, call, clock.now());
}

/** The patch could not be computed; only this pod is affected. */
function onPatchFailed({ log }: PodStatusOptions, pending: PendingStatus, error: unknown): void {
  pending.failures += 1;
  if (pending.api !== undefined) logOnce(log, pending, pending.api, SEND_FAILED, error);
}

function isResultUnknown(error: unknown): boolean {
  const isUnprocessed = error instanceof KubeError && error.isUnprocessed;
  return hasCode(error, "UNREACHABLE", "TIMEOUT", "CLOSED") && !isUnprocessed;
}

/** Only this answer says that the patch itself is wrong. Every other one may be due to something that passes. */
function isInvalid(error: unknown): boolean {
  return hasCode(error, "INVALID") && error instanceof KubeError && error.reason === "Invalid";
}

function isPod(value: unknown): value is Pod {
  return typeof value === "object" && value !== null && "metadata" in value;
}

function logOnce(log: Log, pending: PendingStatus, pod: Pod, logMessage: string, error: unknown): void {
  const message = messageOf(error);
  if (!pending.loggedErrors.shouldLog(message)) return;
  log.warn({ pod: fullNameOf(pod), uid: pending.uid, err: error }, logMessage);
}
