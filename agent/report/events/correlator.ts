import { createLruMap } from "../../../host/lru-map.ts";
import type { Event } from "../../../proto/kubernetes/gen/types.ts";
import {
  aggregated,
  aggregateKey,
  countInAggregate,
  type EventAggregate,
  eventKey,
  incremented,
  keyPrefixOf,
  type SpamFilterState,
  spamKey,
  takeToken,
} from "../../decide/events/event-correlation.ts";

/** An Event object that is being recorded. Repetitions update it. */
export interface EventRecord {
  event: Event;
  /** The API server has the object, so repetitions only patch its count. */
  isCreated: boolean;
}

export interface EventCorrelator {
  /** The Event to send for something that has just happened; undefined if the spam filter drops it. */
  correlate(event: Event, now: number): EventRecord | undefined;
  /** No further event is about this object. */
  forget(uid: string): void;
}

const MAX_ENTRIES = 4096;

/**
 * client-go's EventCorrelator: counts repeated events, aggregates similar ones and limits each source. Its memory is
 * bounded; what is about objects that are gone would fill it with some kilobytes for each of them.
 */
export function createEventCorrelator(): EventCorrelator {
  const aggregates = createLruMap<EventAggregate>(MAX_ENTRIES);
  const records = createLruMap<EventRecord>(MAX_ENTRIES);
  const spamFilters = createLruMap<SpamFilterState>(MAX_ENTRIES);
  return {
    correlate(event, now) {
      const groupKey = aggregateKey(event);
      const counted = countInAggregate(aggregates.get(groupKey), event.message ?? "", now);
      aggregates.set(groupKey, counted.aggregate);
      const key = counted.isAggregated ? groupKey : eventKey(event);
      const recorded = counted.isAggregated ? aggregated(event) : event;
      const known = records.get(key);
      if (known !== undefined) known.event = incremented(known.event, recorded);
      const current = known ?? { event: recorded, isCreated: false };
      records.set(key, current);
      const spam = spamKey(event);
      const { state, isAllowed } = takeToken(spamFilters.get(spam), now);
      spamFilters.set(spam, state);
      return isAllowed ? current : undefined;
    },
    forget(uid) {
      const prefix = keyPrefixOf(uid);
      for (const map of [aggregates, records, spamFilters])
        for (const [key] of map.entries()) if (key.startsWith(prefix)) map.delete(key);
    },
  };
}
