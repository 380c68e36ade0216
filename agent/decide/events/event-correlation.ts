import type { Event } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/time.ts";

/*
 * How events that are told again and again are kept from filling the cluster, as client-go does it and users know it:
 *
 *   the same again            one event, whose count grows
 *   alike but for the message from the tenth within ten minutes on: one event, "(combined from similar events): …"
 *   too many of one object    25 at once, then one every five minutes; the rest is counted, and not told
 *
 * This is the arithmetic; the numbers are client-go's. Who remembers, and for how long, is the business of whoever calls.
 */

/** Equal for events that are the same but for their time. */
export function seriesKey(event: Event): string {
  const { involvedObject: about, type, reason, message } = event;
  return key([...aboutKey(event), about.fieldPath, type, reason, message]);
}

/** Equal for events that are alike but for their message. */
export function similarKey(event: Event): string {
  return key([...aboutKey(event), event.type, event.reason]);
}

/** Equal for all events of one kind about one object. */
export function spamKey(event: Event): string {
  return key([...aboutKey(event), event.type]);
}

function aboutKey({ involvedObject: { kind, namespace, name, uid, apiVersion } }: Event) {
  return [kind, namespace, name, uid, apiVersion];
}

function key(parts: readonly (string | undefined)[]): string {
  return JSON.stringify(parts);
}

/** What is remembered of events that are alike. */
export interface Similar {
  readonly messages: ReadonlySet<string>;
  readonly lastAt: number;
}

const MOST_MESSAGES = 10;
const ALIKE_WITHIN_MS = 600_000;

/** Whether an event is one of too many that are alike, and what is to be remembered. */
export function countSimilar(
  known: Similar | undefined,
  message: string,
  now: number,
): { readonly similar: Similar; readonly isCombined: boolean } {
  const isOld = known === undefined || now - known.lastAt > ALIKE_WITHIN_MS;
  const messages = new Set(isOld ? [] : known.messages).add(message);
  const isCombined = messages.size >= MOST_MESSAGES;
  if (isCombined) messages.delete(message);
  return { similar: { messages, lastAt: now }, isCombined };
}

/** The event that stands for many that are alike. */
export function combined(event: Event): Event {
  return { ...event, message: `(combined from similar events): ${event.message ?? ""}` };
}

/** How much one object may still have told of itself. */
export interface Allowance {
  readonly tokens: number;
  readonly filledAt: number;
}

const BURST = 25;
const REFILL_MS = 300_000;

/** Whether an event may be told now. A clock that was set back fills nothing, and takes nothing away. */
export function takeToken(
  known: Allowance | undefined,
  now: number,
): { readonly allowance: Allowance; readonly isAllowed: boolean } {
  const { tokens, filledAt } = known ?? { tokens: BURST, filledAt: now };
  const filled = Math.min(BURST, tokens + Math.max(0, now - filledAt) / REFILL_MS);
  const isAllowed = filled >= 1;
  return { allowance: { tokens: isAllowed ? filled - 1 : filled, filledAt: now }, isAllowed };
}

/** The event as it stands after it has happened once more: its first name and time, a higher count. */
export function repeated(first: Event, again: Event): Event {
  return {
    ...again,
    metadata: first.metadata,
    ...(first.firstTimestamp === undefined ? {} : { firstTimestamp: first.firstTimestamp }),
    count: (first.count ?? 1) + 1,
  };
}

/** What of an event changes when it happens again. */
export function repetitionPatch({ count, lastTimestamp, message }: Event): Readonly<Record<string, unknown>> {
  return { count, lastTimestamp, message };
}

export interface Teller {
  readonly nodeName: string;
  /** Grows with every event, so that no two have one name: nanoseconds since the epoch, as client-go has them. */
  readonly nanos: bigint;
}

const COMPONENT = "kubelet";
const LONGEST_NAME = 253;

/** An event as the API takes it, told for the first time. */
export function newEvent(
  about: Event["involvedObject"],
  { type, reason, message }: Pick<Event, "type" | "reason" | "message">,
  { nodeName, nanos }: Teller,
  now: number,
): Event {
  const time = formatTime(now);
  const suffix = `.${nanos.toString(16)}`;
  const name = `${(about.name ?? "").slice(0, LONGEST_NAME - suffix.length)}${suffix}`;
  return {
    apiVersion: "v1",
    kind: "Event",
    metadata: { name, namespace: about.namespace || "default" },
    involvedObject: about,
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
