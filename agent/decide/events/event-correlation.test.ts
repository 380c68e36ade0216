import { expect, test } from "bun:test";
import type { Event } from "../../../proto/kubernetes/gen/types.ts";
import {
  aggregateKey,
  countInAggregate,
  type EventAggregate,
  eventKey,
  incremented,
  incrementPatch,
  newEvent,
  type SpamFilterState,
  spamKey,
  takeToken,
} from "./event-correlation.ts";

const minute = 60_000;
const start = Date.parse("2026-01-01T10:00:00Z");
const web = { kind: "Pod", apiVersion: "v1", namespace: "shop", name: "web", uid: "u" };
const eventOf = (more: Partial<Event> = {}, about: Partial<Event["involvedObject"]> = {}): Event => ({
  ...newEvent(
    { ...web, ...about },
    { type: "Normal", reason: "Pulled", message: "m" },
    { nodeName: "n", nanos: 255n },
    start,
  ),
  ...more,
});

test("an event has the fields that kubectl and controllers read", () => {
  expect(eventOf()).toEqual({
    apiVersion: "v1",
    kind: "Event",
    metadata: { name: "web.ff", namespace: "shop" },
    involvedObject: web,
    type: "Normal",
    reason: "Pulled",
    message: "m",
    source: { component: "kubelet", host: "n" },
    firstTimestamp: "2026-01-01T10:00:00Z",
    lastTimestamp: "2026-01-01T10:00:00Z",
    count: 1,
    reportingComponent: "kubelet",
    reportingInstance: "n",
  });
});

test("a node's event goes to the default namespace, and its name is cut to the maximum length", () => {
  const of = (about: Event["involvedObject"]) => newEvent(about, {}, { nodeName: "n", nanos: 255n }, start).metadata;
  expect(of({ kind: "Node", name: "n" }).namespace).toBe("default");
  expect(of({ name: "x".repeat(253) }).name).toHaveLength(253);
});

const keys: readonly [
  name: string,
  other: Event,
  isSame: readonly [series: boolean, similar: boolean, spam: boolean],
][] = [
  ["at another time", eventOf({ lastTimestamp: "2026-01-01T11:00:00Z", count: 5 }), [true, true, true]],
  ["of another container", eventOf({}, { fieldPath: "spec.containers{b}" }), [false, true, true]],
  ["with another message", eventOf({ message: "x" }), [false, true, true]],
  ["for another reason", eventOf({ reason: "x" }), [false, false, true]],
  ["of another type", eventOf({ type: "Warning" }), [false, false, false]],
  ["of another pod", eventOf({}, { uid: "v" }), [false, false, false]],
];
for (const [name, other, isSame] of keys)
  test(`an event ${name}: the same ${isSame[0]}, alike ${isSame[1]}, of one object ${isSame[2]}`, () => {
    const first = eventOf();
    expect([eventKey, aggregateKey, spamKey].map((key) => key(first) === key(other))).toEqual([...isSame]);
  });

/** The times (in minutes) at which messages occur, and which of them are aggregated. */
function combinedOf(messages: readonly [minutes: number, message: string][]): readonly number[] {
  let similar: EventAggregate | undefined;
  return messages.flatMap(([at, message], index) => {
    const counted = countInAggregate(similar, message, start + at * minute);
    similar = counted.aggregate;
    return counted.isAggregated ? [index + 1] : [];
  });
}
const many = (count: number, everyMinutes: number, message: (index: number) => string) =>
  Array.from({ length: count }, (_, index): [number, string] => [index * everyMinutes, message(index)]);

test("the tenth similar event with another message is aggregated, and all that follow", () => {
  expect(combinedOf(many(12, 1, String))).toEqual([10, 11, 12]);
});
test("a repeated message does not count again", () => {
  expect(combinedOf(many(50, 1, () => "same"))).toEqual([]);
});
test("after ten minutes without a similar event the count starts afresh", () => {
  expect(combinedOf([...many(9, 0, String), [10, "x"]])).toEqual([10]);
  expect(combinedOf([...many(9, 0, String), [10.1, "x"]])).toEqual([]);
});

/** How many of the events at these times (in minutes) are recorded. */
function reportedOf(times: readonly number[]): number {
  let allowance: SpamFilterState | undefined;
  return times.filter((at) => {
    const result = takeToken(allowance, start + at * minute);
    allowance = result.state;
    return result.isAllowed;
  }).length;
}
test("an object may record 25 events at once, then one in five minutes", () => {
  expect(reportedOf(Array(100).fill(0))).toBe(25);
  expect(reportedOf([...Array(26).fill(0), 4.9])).toBe(25);
  expect(reportedOf([...Array(26).fill(0), 5, 5.1])).toBe(26);
  expect(reportedOf([...Array(25).fill(0), ...Array(100).fill(10_000)])).toBe(50);
});
test("a clock that was set back removes no tokens", () => {
  expect(reportedOf([...Array(24).fill(0), -60])).toBe(25);
});

test("an event that occurs again keeps its name and first time, and counts", () => {
  const again = eventOf({ metadata: { name: "web.100", namespace: "shop" }, lastTimestamp: "2026-01-01T10:05:00Z" });
  const second = incremented(eventOf(), again);
  expect([second.metadata.name, second.firstTimestamp, second.lastTimestamp, second.count]).toEqual([
    "web.ff",
    "2026-01-01T10:00:00Z",
    "2026-01-01T10:05:00Z",
    2,
  ]);
  expect(incrementPatch(second)).toEqual({ count: 2, lastTimestamp: "2026-01-01T10:05:00Z", message: "m" });
});
