import type { Clock } from "../../host/clock.ts";
import { createBucket, createPlaces, type Rate } from "../rate.ts";

/** Each lane waits only for itself; heartbeats wait for nobody. */
export type Lane = "heartbeat" | "main" | "events";

/** The kubelet's `kubeAPIQPS` and `kubeAPIBurst`, `eventRecordQPS` and `eventBurst`; undefined: no limit. */
export type Rates = Readonly<Record<Exclude<Lane, "heartbeat">, Rate | undefined>>;

export interface Lanes {
  /**
   * Resolves when it is the request's turn, with what is to be called when it is over. One that `lasts`, as a watch does, waits for
   * its turn and takes no place. One that `isUrgent` when a turn comes, or a place is free, goes before others of its lane, save
   * that every fourth goes to who waits longest. Rejects with the signal's reason.
   */
  enter(lane: Lane, lasts: boolean, signal: AbortSignal, isUrgent?: () => boolean): Promise<() => void>;
}

/**
 * How many may be under way. Beyond the number of streams that a server allows, 100 as a rule, they would be queued below us, and
 * heartbeats among them.
 */
const MAIN_PLACES = 64;
const EVENT_PLACES = 8;

export function createLanes(rates: Rates, clock: Clock): Lanes {
  const gates = {
    heartbeat: undefined,
    main: { bucket: createBucket(rates.main, clock), places: createPlaces(MAIN_PLACES) },
    events: { bucket: createBucket(rates.events, clock), places: createPlaces(EVENT_PLACES) },
  };
  const leaveNothing = () => {
    // It held no place.
  };
  return {
    async enter(lane, lasts, signal, isUrgent) {
      const gate = gates[lane];
      if (gate === undefined) return leaveNothing;
      await gate.bucket.take(signal, isUrgent);
      return lasts ? leaveNothing : await gate.places.enter(signal, isUrgent);
    },
  };
}
