import type { PodUid } from "../../proto/ids.ts";
import type { PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { ActionFinished, ActionStarted } from "../decide/pod/action-call.ts";
import type { DesiredPodView } from "../decide/pod/desired.ts";
import type { ObservedPod } from "../decide/pod/observed.ts";
import type { BlockedReason } from "../decide/pod/plan.ts";
import type { StageKind } from "../decide/pod/stage.ts";

/** A status that was decided for a desired pod. */
export interface DecidedStatus {
  readonly uid: PodUid;
  readonly desired: DesiredPodView;
  readonly status: PodStatus;
  readonly stage: StageKind;
  readonly blockedReason: BlockedReason | undefined;
}

/** A component that follows the syncs of the pods. It decides nothing about the pod of the sync that it follows. */
export interface SyncSubscriber {
  /**
   * The pod was observed. The sync waits until all subscribers have kept up: with a link, a record or a timer that
   * belongs to what was observed. A rejection fails the sync.
   */
  onObserved?(observed: ObservedPod, desired: DesiredPodView | undefined): Promise<void> | undefined;
  onStatusDecided?(decided: DecidedStatus): void;
  onActionStarted?(started: ActionStarted): void;
  onActionFinished?(finished: ActionFinished): void;
  /** The observation or the decision failed, so that the sync could not act. */
  onSyncFailed?(uid: PodUid, error: unknown): void;
  /** Nothing is left of the pod. */
  onPodFinished?(uid: PodUid): void;
}

/** Calls the subscribers one after the other, in their order. */
export function createSyncNotifier(subscribers: readonly SyncSubscriber[]): Required<SyncSubscriber> {
  return {
    onObserved(observed, desired) {
      const pending = subscribers.flatMap((each) => each.onObserved?.(observed, desired) ?? []);
      return pending.length === 0 ? undefined : Promise.all(pending).then(() => undefined);
    },
    onStatusDecided(decided) {
      for (const each of subscribers) each.onStatusDecided?.(decided);
    },
    onActionStarted(started) {
      for (const each of subscribers) each.onActionStarted?.(started);
    },
    onActionFinished(finished) {
      for (const each of subscribers) each.onActionFinished?.(finished);
    },
    onSyncFailed(uid, error) {
      for (const each of subscribers) each.onSyncFailed?.(uid, error);
    },
    onPodFinished(uid) {
      for (const each of subscribers) each.onPodFinished?.(uid);
    },
  };
}
