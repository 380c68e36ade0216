import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { ActionFinished, ActionStarted } from "../../decide/pod/action-call.ts";

/** A pull that a pod waits for. */
export interface ActivePull {
  readonly image: string;
  /** When it was requested, in milliseconds since 1970. */
  readonly since: number;
  /** 1 for the first attempt. */
  readonly attempt: number;
}

export interface ActivePulls {
  onActionStarted(started: ActionStarted): void;
  onActionFinished(finished: ActionFinished): void;
  onPodRemoved(uid: PodUid): void;
  of(uid: PodUid): readonly ActivePull[];
}

export interface ActivePullsOptions {
  readonly clock: Clock;
  /** Called each time a pull passes one of the report marks. */
  readonly onSlowPull: (started: ActionStarted, pull: ActivePull, lastedMs: number) => void;
}

interface PullAttempts {
  attempts: number;
  pull: ActivePull | undefined;
  cancel: () => void;
}

/** A slow pull is reported at these durations, then every hour. */
const REPORT_AFTER_MS = [60_000, 300_000, 900_000, 3_600_000] as const;
const REPORT_PERIOD_MS = 3_600_000;

/**
 * Tracks the image pulls in progress, because the CRI reports no progress. One timer per pull, none while nothing is
 * pulled.
 */
export function createActivePulls({ clock, onSlowPull }: ActivePullsOptions): ActivePulls {
  const pods = new Map<PodUid, Map<string, PullAttempts>>();

  function entryOf(uid: PodUid, image: string): PullAttempts {
    const ofPod = pods.get(uid) ?? new Map<string, PullAttempts>();
    const entry = ofPod.get(image) ?? { attempts: 0, pull: undefined, cancel: () => {} };
    pods.set(uid, ofPod.set(image, entry));
    return entry;
  }

  function watch(started: ActionStarted, entry: PullAttempts, pull: ActivePull, mark = 0): void {
    const lastedMs = REPORT_AFTER_MS[mark] ?? REPORT_PERIOD_MS * (mark - REPORT_AFTER_MS.length + 2);
    entry.cancel = clock.wakeAt(pull.since + lastedMs, () => {
      onSlowPull(started, pull, lastedMs);
      watch(started, entry, pull, mark + 1);
    });
  }

  return {
    onActionStarted(started) {
      const { uid, action, startedAt } = started;
      if (action.kind !== "pullImage") return;
      const entry = entryOf(uid, action.image);
      entry.cancel();
      entry.attempts++;
      entry.pull = { image: action.image, since: startedAt, attempt: entry.attempts };
      watch(started, entry, entry.pull);
    },
    onActionFinished({ uid, action, result }) {
      if (action.kind !== "pullImage") return;
      const entry = pods.get(uid)?.get(action.image);
      entry?.cancel();
      if (entry !== undefined) entry.pull = undefined;
      // A failed pull is retried, and the next attempt continues the count.
      if (result === "cancelled" || result.ok) pods.get(uid)?.delete(action.image);
    },
    onPodRemoved(uid) {
      for (const { cancel } of pods.get(uid)?.values() ?? []) cancel();
      pods.delete(uid);
    },
    of: (uid) => [...(pods.get(uid)?.values() ?? [])].flatMap(({ pull }) => (pull === undefined ? [] : [pull])),
  };
}
