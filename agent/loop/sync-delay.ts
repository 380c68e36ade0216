import type { Clock, Instant } from "../../host/clock.ts";

/** When a pod's next sync is due, and when the one under way began; monotonic milliseconds. Undefined if there is none. */
export interface SyncTimes {
  readonly syncDueMs: number | undefined;
  readonly syncStartedMs: number | undefined;
}

/** The only timer of a pod's syncs, and the times of its syncs. */
export interface SyncTimer extends SyncTimes {
  cancelTimer: (() => void) | undefined;
  syncDueMs: number | undefined;
  syncStartedMs: number | undefined;
}

/** Calls `wake` at the given time. It replaces an earlier time; undefined removes the timer. */
export function setSyncTimer(clock: Clock, timer: SyncTimer, at: Instant | undefined, wake: () => void): void {
  timer.cancelTimer?.();
  timer.cancelTimer = undefined;
  timer.syncDueMs = undefined;
  if (at === undefined) return;
  // Setting the wall clock does not change when the timer ends.
  timer.syncDueMs = clock.monotonicMs() + Math.max(0, at - clock.now());
  timer.cancelTimer = clock.wakeAt(at, () => {
    timer.syncDueMs = undefined;
    wake();
  });
}

/**
 * How long the longest sync has been running, or the most overdue one has been due, in milliseconds; 0 if none runs and none
 * is overdue. A sync that runs also delays those that become due meanwhile.
 */
export function longestSyncDelayMs(pods: Iterable<SyncTimes>, nowMs: number): number {
  let longestMs = 0;
  for (const { syncDueMs = nowMs, syncStartedMs = nowMs } of pods)
    longestMs = Math.max(longestMs, nowMs - syncDueMs, nowMs - syncStartedMs);
  return longestMs;
}
