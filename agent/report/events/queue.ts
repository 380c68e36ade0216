import type { Series } from "./correlator.ts";

/** What waits to be sent, the oldest first. An event that happens again meanwhile takes no second place. */
export interface EventQueue {
  readonly size: () => number;
  add(series: Series): void;
  /** Takes out the oldest of each of so many objects at most: what happens to one of them is told in order. */
  take(mostObjects: number): readonly Series[];
  /** They become the first again, but those that have happened once more meanwhile. */
  putBack(taken: readonly Series[]): void;
  /** How many had to be dropped since this was asked last. */
  dropped(): number;
  clear(): void;
}

/** The oldest are dropped when there are more than `mostWaiting`. */
export function createEventQueue(mostWaiting: number): EventQueue {
  const waiting = new Set<Series>();
  let dropped = 0;
  return {
    size: () => waiting.size,
    add(series) {
      waiting.add(series);
      const [oldest] = waiting;
      if (waiting.size <= mostWaiting || oldest === undefined) return;
      waiting.delete(oldest);
      dropped += 1;
    },
    take(mostObjects) {
      const taken = new Map<string, Series>();
      for (const series of waiting) {
        if (taken.size === mostObjects) break;
        const object = objectOf(series);
        if (!taken.has(object)) taken.set(object, series);
      }
      for (const series of taken.values()) waiting.delete(series);
      return [...taken.values()];
    },
    putBack(taken) {
      const others = [...waiting];
      const all = [...taken.filter((series) => !waiting.has(series)), ...others];
      const kept = all.slice(-mostWaiting);
      dropped += all.length - kept.length;
      waiting.clear();
      for (const series of kept) waiting.add(series);
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

function objectOf({ event: { involvedObject } }: Series): string {
  const { kind, namespace, name, uid } = involvedObject;
  return JSON.stringify([kind, namespace, name, uid]);
}
