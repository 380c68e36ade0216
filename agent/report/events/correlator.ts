import { createBoundedMap } from "../../../host/lru-map.ts";
import type { Event } from "../../../proto/kubernetes/gen/types.ts";
import {
  type Allowance,
  combined,
  countSimilar,
  repeated,
  type Similar,
  seriesKey,
  similarKey,
  spamKey,
  takeToken,
} from "../../decide/events/event-correlation.ts";

/** An event that is told, and what has become of it. */
export interface Series {
  event: Event;
  /** The API server has it: what happens again only counts. */
  isMade: boolean;
}

export interface EventBook {
  /** What is to be told of an event that has just happened; undefined where too much was told already. */
  note(event: Event, now: number): Series | undefined;
}

const MOST_ENTRIES = 4096;

/** Remembers what was told, so that what happens again and again does not fill the cluster. Its memory is bounded. */
export function createEventBook(): EventBook {
  const similar = createBoundedMap<Similar>(MOST_ENTRIES);
  const series = createBoundedMap<Series>(MOST_ENTRIES);
  const allowances = createBoundedMap<Allowance>(MOST_ENTRIES);
  return {
    note(event, now) {
      const alike = similarKey(event);
      const counted = countSimilar(similar.get(alike), event.message ?? "", now);
      similar.set(alike, counted.similar);
      const key = counted.isCombined ? alike : seriesKey(event);
      const told = counted.isCombined ? combined(event) : event;
      const known = series.get(key);
      if (known !== undefined) known.event = repeated(known.event, told);
      const current = known ?? { event: told, isMade: false };
      series.set(key, current);
      const spam = spamKey(event);
      const { allowance, isAllowed } = takeToken(allowances.get(spam), now);
      allowances.set(spam, allowance);
      return isAllowed ? current : undefined;
    },
  };
}
