import type { EventRecord } from "./correlator.ts";

/** The events that wait to be sent, oldest first. A repeated event that still waits is not queued twice. */
export interface EventQueue {
  readonly size: () => number;
  add(record: EventRecord): void;
  /**
   * Removes and returns the oldest event of each of at most `maxObjects` objects, so each object's events stay in
   * order.
   */
  take(maxObjects: number): readonly EventRecord[];
  /** Puts events back at the front, except those that were queued again meanwhile. */
  requeue(batch: readonly EventRecord[]): void;
  /** The number of events dropped since the last call. */
  dropped(): number;
  clear(): void;
}

/** A queue that drops the oldest events beyond `maxWaiting`. */
export function createEventQueue(maxWaiting: number): EventQueue {
  const waiting = new Set<EventRecord>();
  let dropped = 0;
  return {
    size: () => waiting.size,
    add(record) {
      waiting.add(record);
      const [oldest] = waiting;
      if (waiting.size <= maxWaiting || oldest === undefined) return;
      waiting.delete(oldest);
      dropped += 1;
    },
    take(maxObjects) {
      const batch = new Map<string, EventRecord>();
      for (const record of waiting) {
        if (batch.size === maxObjects) break;
        const object = objectOf(record);
        if (!batch.has(object)) batch.set(object, record);
      }
      for (const record of batch.values()) waiting.delete(record);
      return [...batch.values()];
    },
    requeue(batch) {
      const others = [...waiting];
      const all = [...batch.filter((record) => !waiting.has(record)), ...others];
      const kept = all.slice(-maxWaiting);
      dropped += all.length - kept.length;
      waiting.clear();
      for (const record of kept) waiting.add(record);
    },
    dropped() {
      const count = dropped;
      dropped = 0;
      return count;
    },
    clear() {
      dropped += waiting.size;
      waiting.clear();
    },
  };
}

function objectOf({ event: { involvedObject } }: EventRecord): string {
  const { kind, namespace, name, uid } = involvedObject;
  return JSON.stringify([kind, namespace, name, uid]);
}
