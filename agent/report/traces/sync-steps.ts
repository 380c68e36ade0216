import type { PodUid } from "../../../proto/ids.ts";

/** The steps of a sync, in their order. The last step that a sync reaches lasts until the end of the sync. */
const syncSteps = ["observe", "decide", "report", "act"] as const;
type SyncStepName = (typeof syncSteps)[number];

export interface SyncStep {
  readonly name: SyncStepName;
  /** Epoch milliseconds, as `endedAt`. */
  readonly startedAt: number;
  readonly endedAt: number;
}

/** The steps of the sync under way of each pod. */
export interface SyncSteps {
  /** The step ends now. Without effect if it has already ended in this sync, or if the step before it has not. */
  end(uid: PodUid, name: SyncStepName): void;
  /** The sync has ended: returns its steps. The times are those of a monotonic clock. */
  endSync(uid: PodUid, times: { readonly startedMs: number; readonly endedMs: number }): readonly SyncStep[];
  forget(uid: PodUid): void;
}

export function createSyncSteps(now: () => number): SyncSteps {
  const ends = new Map<PodUid, readonly number[]>();
  return {
    end(uid, name) {
      const ended = ends.get(uid) ?? [];
      if (ended.length === syncSteps.indexOf(name)) ends.set(uid, [...ended, now()]);
    },
    endSync(uid, { startedMs, endedMs }) {
      const endedAt = now();
      const times = [endedAt - (endedMs - startedMs), ...(ends.get(uid) ?? []), endedAt];
      ends.delete(uid);
      return syncSteps.flatMap((name, at) => {
        const [from, until] = [times[at], times[at + 1]];
        return from === undefined || until === undefined ? [] : { name, startedAt: from, endedAt: until };
      });
    },
    forget: (uid) => void ends.delete(uid),
  };
}
