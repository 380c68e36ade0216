import { settledWithin } from "../../../host/async/settled-within.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { type ListSnapshot, replaces } from "../../decide/sources/api-object.ts";
import { mirroredUid } from "../../decide/sources/api-pod.ts";
import { isUnobservedStatus } from "../../decide/status/status.ts";
import { emptyPendingStatus, type PendingStatus, resetPending, unsentFinalStatus } from "./pending-status.ts";
import { createPodStatusWorker, type PodStatusOptions } from "./pod-status-worker.ts";

const SAVE_AFTER_MS = 1_000;

/**
 * Sends the statuses of this node's pods to the API server (the kubelet's status manager). Works in the background;
 * never throws.
 */
export interface PodStatusReporter {
  /** Sets the latest status of a pod; an older one that was not sent yet is dropped. */
  report(desired: DesiredPod, status: PodStatus, stage: StageKind): void;
  /**
   * A pod of this node in the API; a mirror pod stands for its static pod. `snapshot`: the complete list that contained
   * it.
   */
  onObserved(pod: Pod, snapshot?: ListSnapshot): void;
  onDeleted(pod: Pod): void;
  /**
   * Resolves when the final status of a deleted pod was sent or saved, so the node may lose its containers. Never
   * rejects.
   */
  ensureFinalStatusSaved(uid: PodUid): Promise<void>;
  /** Nothing is left of the pod on the node. */
  onPodRemoved(uid: PodUid): void;
  /** The API server is reachable again: retries everything that waits. */
  onRecovered(): void;
  /** Resolves when no request is in flight. */
  settled(): Promise<void>;
  /** Sends nothing more and aborts the requests in flight. */
  stop(): void;
}

/**
 * Holds the latest status of each pod. One request per pod is in flight at a time; pods do not wait for each other. A
 * patch is the difference to the last known API object, so no read is needed, and carries the uid, so it never hits a
 * new pod of the same name.
 */
export function createPodStatusReporter(settings: PodStatusOptions): PodStatusReporter {
  const pendingStatuses = new Map<PodUid, PendingStatus>();
  const stopping = new AbortController();
  const worker = createPodStatusWorker(settings, stopping.signal);

  function pendingOf(uid: PodUid): PendingStatus {
    const known = pendingStatuses.get(uid);
    if (known !== undefined) return known;
    const pending = emptyPendingStatus(uid);
    pendingStatuses.set(uid, pending);
    return pending;
  }

  function drop(pending: PendingStatus): void {
    cancelTimers(pending);
    pending.status = undefined;
    pendingStatuses.delete(pending.uid);
  }

  return {
    report(desired, status, stage) {
      const pending = pendingOf(desired.uid);
      // Ignore reports after cleanup: the final status has already been queued.
      if (isUnobservedStatus(status) || pending.stage === "finished") return;
      pending.status = status;
      pending.stage = stage;
      worker.wake(pending);
    },
    onObserved(pod, snapshot) {
      const pending = pendingOf(trackedUid(pod));
      if (!replaces(pod.metadata.resourceVersion, pending.api?.metadata.resourceVersion, snapshot)) return;
      pending.api = pod;
      pending.ineffectivePatch = undefined;
      if (snapshot?.isRolledBack) pending.deletion = undefined;
      worker.wake(pending);
    },
    onDeleted(pod) {
      const pending = pendingStatuses.get(trackedUid(pod));
      if (pending === undefined) return;
      if (pending.api?.metadata.uid === pod.metadata.uid) pending.api = undefined;
      // A response may have shown the deletion before the watch did.
      if (pending.api !== undefined) return;
      if (pending.status === undefined || pending.stage === "finished") drop(pending);
    },
    async ensureFinalStatusSaved(uid) {
      const pending = pendingStatuses.get(uid);
      // Wait: most responses arrive within a second, and then no write to disk is needed.
      if (pending !== undefined && unsentFinalStatus(pending) !== undefined)
        await settledWithin(worker.settled(pending), SAVE_AFTER_MS, settings.clock);
      const end = pending && unsentFinalStatus(pending);
      if (end !== undefined) await settings.saveFinalStatus(uid, end);
    },
    onPodRemoved(uid) {
      const pending = pendingStatuses.get(uid);
      if (pending === undefined) return;
      if (pending.api === undefined) return drop(pending);
      // Keep the state of an API pod until the API deletes it.
      if (mirroredUid(pending.api) === undefined) return;
      // Keep a mirror too: if its manifest returns before the mirror is deleted, no watch event would show the mirror
      // again.
      cancelTimers(pending);
      resetPending(pending);
    },
    onRecovered() {
      for (const pending of pendingStatuses.values()) {
        pending.cancelRetry?.();
        pending.cancelRetry = undefined;
        worker.wake(pending);
      }
    },
    settled: () => worker.settled(),
    stop() {
      stopping.abort();
      for (const pending of pendingStatuses.values()) cancelTimers(pending);
    },
  };
}

function cancelTimers(pending: PendingStatus): void {
  pending.cancelRetry?.();
  pending.cancelDelay?.();
  pending.cancelRetry = undefined;
  pending.cancelDelay = undefined;
}

/** The uid under which a pod is tracked: a mirror pod's is that of its static pod. */
function trackedUid(pod: Pod): PodUid {
  return (mirroredUid(pod) ?? pod.metadata.uid ?? "") as PodUid;
}
