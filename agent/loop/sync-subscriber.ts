import type { PodUid } from "../../proto/ids.ts";
import type { PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { ActionFinished, ActionStarted } from "../decide/pod/action-call.ts";
import type { DesiredPodView } from "../decide/pod/desired.ts";
import type { PodOutcome } from "../decide/pod/memory.ts";
import type { ObservedPod } from "../decide/pod/observed.ts";
import type { BlockedReason } from "../decide/pod/plan.ts";
import type { Decision } from "../decide/pod/pod.ts";
import type { StageKind } from "../decide/pod/stage.ts";

/** A status that was decided for a desired pod. */
export interface DecidedStatus {
  readonly uid: PodUid;
  readonly desired: DesiredPodView;
  readonly status: PodStatus;
  readonly stage: StageKind;
  /** How the pod ends or has ended; undefined while that is open. */
  readonly outcome: PodOutcome | undefined;
  readonly blockedReason: BlockedReason | undefined;
  readonly unusableImages: Decision["unusableImages"];
  /** The new record of the pod's resources; absent if it has not changed. */
  readonly resize?: Decision["resize"];
}

/** When a sync began and ended, by the monotonic clock. */
export interface SyncTimes {
  readonly startedMs: number;
  readonly endedMs: number;
}

/** A component that follows the syncs of the pods. It decides nothing about the pod of the sync that it follows. */
export interface SyncSubscriber {
  /** The pod was observed. */
  onObserved?(observed: ObservedPod, desired: DesiredPodView | undefined): void;
  onStatusDecided?(decided: DecidedStatus): void;
  onActionStarted?(started: ActionStarted): void;
  onActionFinished?(finished: ActionFinished): void;
  /** The observation or the decision failed, so that the sync could not act; or a subscriber failed. */
  onSyncFailed?(uid: PodUid, error: unknown): void;
  /** Nothing is left of the pod. */
  onPodFinished?(uid: PodUid): void;
  /** A sync has ended, whatever it has done; also the last one of a pod, after `onPodFinished`. */
  onSynced?(uid: PodUid, times: SyncTimes): void;
}

/**
 * Calls the subscribers one after the other, in their order; no sync waits for what they do then. An exception in
 * `onObserved` or `onStatusDecided` fails the sync. The sync cannot repeat the other steps: there an exception is reported
 * with `onSyncFailed`, and the subscribers behind are called nevertheless.
 */
export function createSyncNotifier(subscribers: readonly SyncSubscriber[]): Required<SyncSubscriber> {
  const onSyncFailed = (uid: PodUid, error: unknown): void => {
    for (const each of subscribers) each.onSyncFailed?.(uid, error);
  };
  const callEach = (uid: PodUid, call: (subscriber: SyncSubscriber) => void): void => {
    for (const each of subscribers)
      try {
        call(each);
      } catch (error) {
        onSyncFailed(uid, error);
      }
  };
  return {
    onObserved(observed, desired) {
      for (const each of subscribers) each.onObserved?.(observed, desired);
    },
    onStatusDecided(decided) {
      for (const each of subscribers) each.onStatusDecided?.(decided);
    },
    onActionStarted: (started) => callEach(started.uid, (each) => each.onActionStarted?.(started)),
    onActionFinished: (finished) => callEach(finished.uid, (each) => each.onActionFinished?.(finished)),
    onPodFinished: (uid) => callEach(uid, (each) => each.onPodFinished?.(uid)),
    onSynced: (uid, times) => callEach(uid, (each) => each.onSynced?.(uid, times)),
    onSyncFailed,
  };
}
