import type { Clock } from "../../host/clock.ts";
import type { PodUid } from "../../proto/ids.ts";

/** Who may start something now. Holders keep their place until they have nothing more to start, or are stuck. */
export interface Starts {
  /** True when the pod holds a place, or gets one now; false puts it into the queue, and it is called when its turn comes. */
  take(uid: PodUid, priority: number): boolean;
  /** Gives back a place, or leaves the queue. */
  release(uid: PodUid): void;
}

interface Waiting {
  readonly uid: PodUid;
  readonly priority: number;
}

/** A holder comes again after each call. Most calls take less than a second; one that takes so long hangs. */
export const STUCK_AFTER_MS = 10_000;

/**
 * Bounds how many pods start at once. Few starts side by side end sooner, each and all of them, than many: on two cores a
 * hundred pods started at once are ready after 12.6 s (median), four at a time after 3.8 s.
 * Higher `spec.priority` goes first; among equals, who came first.
 *
 * Who does not come again for ten seconds loses its place, or a few calls that hang would keep all others from starting. Its call
 * goes on, and it needs a place again for the next one.
 */
export function createStarts(places: number, clock: Clock, call: (uid: PodUid) => void): Starts {
  /** Each with what cancels its time. */
  const holders = new Map<PodUid, () => void>();
  const queue: Waiting[] = [];

  function enqueue(entry: Waiting): void {
    if (queue.some(({ uid }) => uid === entry.uid)) return;
    const behind = queue.findIndex(({ priority }) => priority < entry.priority);
    queue.splice(behind === -1 ? queue.length : behind, 0, entry);
  }

  function hold(uid: PodUid): void {
    holders.get(uid)?.();
    holders.set(
      uid,
      clock.wakeAt(clock.now() + STUCK_AFTER_MS, () => release(uid)),
    );
  }

  function release(uid: PodUid): void {
    const cancel = holders.get(uid);
    if (cancel === undefined) {
      const index = queue.findIndex((entry) => entry.uid === uid);
      if (index !== -1) queue.splice(index, 1);
      return;
    }
    cancel();
    holders.delete(uid);
    const next = queue.shift();
    if (next === undefined) return;
    hold(next.uid);
    call(next.uid);
  }

  return {
    take(uid, priority) {
      if (!holders.has(uid) && holders.size >= places) {
        enqueue({ uid, priority });
        return false;
      }
      hold(uid);
      return true;
    },
    release,
  };
}
