import type { Event } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";

/*
 * Limits repeated events, as client-go's EventCorrelator does:
 *
 *   the same event again           one event, whose count grows
 *   equal except for the message   from the tenth within ten minutes on one event, "(combined from similar events): …"
 *   too many about one object      25 at once, then one every five minutes; the others are dropped
 *
 * This file has the arithmetic, with client-go's numbers; the caller keeps the state.
 */

/** Equal for events that differ only in their time. */
export function eventKey(event: Event): string {
  const { involvedObject: object, type, reason, message } = event;
  return key([...objectKey(event), object.fieldPath, type, reason, message]);
}

/** Equal for events that differ only in their time and message. */
export function aggregateKey(event: Event): string {
  return key([...objectKey(event), event.type, event.reason]);
}

/** Equal for all events of one type about one object. */
export function spamKey(event: Event): string {
  return key([...objectKey(event), event.type]);
}

function objectKey({ involvedObject: { kind, namespace, name, uid, apiVersion } }: Event) {
  return [uid, kind, namespace, name, apiVersion];
}

/** What the keys of all events about an object begin with. */
export function keyPrefixOf(uid: string): string {
  return `${JSON.stringify([uid]).slice(0, -1)},`;
}

function key(parts: readonly (string | undefined)[]): string {
  return JSON.stringify(parts);
}

/** The state of one aggregate: similar events with different messages. */
export interface EventAggregate {
  readonly messages: ReadonlySet<string>;
  readonly lastAt: number;
}

const MAX_DISTINCT_MESSAGES = 10;
const AGGREGATE_INTERVAL_MS = 600_000;

/**
 * Counts an event in its aggregate. `isAggregated`: there are too many different messages, so the event has to be
 * combined.
 */
export function countInAggregate(
  previous: EventAggregate | undefined,
  message: string,
  now: number,
): { readonly aggregate: EventAggregate; readonly isAggregated: boolean } {
  const isOld = previous === undefined || now - previous.lastAt > AGGREGATE_INTERVAL_MS;
  const messages = new Set(isOld ? [] : previous.messages).add(message);
  const isAggregated = messages.size >= MAX_DISTINCT_MESSAGES;
  if (isAggregated) messages.delete(message);
  return { aggregate: { messages, lastAt: now }, isAggregated };
}

/** The event that stands for many similar ones. */
export function aggregated(event: Event): Event {
  return { ...event, message: `(combined from similar events): ${event.message ?? ""}` };
}

/** The token bucket of the events about one object. */
export interface SpamFilterState {
  readonly tokens: number;
  readonly filledAt: number;
}

const BURST = 25;
const REFILL_MS = 300_000;

/** Takes a token if there is one. A clock that was set back neither adds nor removes tokens. */
export function takeToken(
  previous: SpamFilterState | undefined,
  now: number,
): { readonly state: SpamFilterState; readonly isAllowed: boolean } {
  const { tokens, filledAt } = previous ?? { tokens: BURST, filledAt: now };
  const filled = Math.min(BURST, tokens + Math.max(0, now - filledAt) / REFILL_MS);
  const isAllowed = filled >= 1;
  return { state: { tokens: isAllowed ? filled - 1 : filled, filledAt: now }, isAllowed };
}

/** The event after it has occurred once more: its first name and time, a higher count. */
export function incremented(first: Event, latest: Event): Event {
  return {
    ...latest,
    metadata: first.metadata,
    ...(first.firstTimestamp === undefined ? {} : { firstTimestamp: first.firstTimestamp }),
    count: (first.count ?? 1) + 1,
  };
}

/** The patch that records one more occurrence. */
export function incrementPatch({ count, lastTimestamp, message }: Event): Readonly<Record<string, unknown>> {
  return { count, lastTimestamp, message };
}

export interface NewEventInput {
  readonly nodeName: string;
  /** Nanoseconds since the epoch, as with client-go. Grows with every event, so that names are unique. */
  readonly nanos: bigint;
}

const COMPONENT = "kubelet";
const MAX_NAME_LENGTH = 253;

/** The API object of an event that occurs for the first time. */
export function newEvent(
  object: Event["involvedObject"],
  { type, reason, message }: Pick<Event, "type" | "reason" | "message">,
  { nodeName, nanos }: NewEventInput,
  now: number,
): Event {
  const time = formatTime(now);
  const suffix = `.${nanos.toString(16)}`;
  const name = `${(object.name ?? "").slice(0, MAX_NAME_LENGTH - suffix.length)}${suffix}`;
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name, namespace: object.namespace || "default" },
    involvedObject: object,
    ...(type === undefined ? {} : { type }),
    ...(reason === undefined ? {} : { reason }),
    ...(message === undefined ? {} : { message }),
    source: { component: COMPONENT, host: nodeName },
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
    reportingComponent: COMPONENT,
    reportingInstance: nodeName,
  };
}
