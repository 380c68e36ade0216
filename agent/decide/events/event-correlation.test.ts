import { expect, test } from "bun:test";
import type { Event } from "../../../proto/kubernetes/gen/types.ts";
import {
  type Allowance,
  countSimilar,
  newEvent,
  repeated,
  repetitionPatch,
  type Similar,
  seriesKey,
  similarKey,
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

test("an event carries what kubectl and controllers look at", () => {
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

test("an event of a node stands in the default namespace; a name is never too long", () => {
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
    expect([seriesKey, similarKey, spamKey].map((key) => key(first) === key(other))).toEqual([...isSame]);
  });

/** The times (in minutes) at which messages come, and which of them are combined. */
function combinedOf(messages: readonly [minutes: number, message: string][]): readonly number[] {
  let similar: Similar | undefined;
  return messages.flatMap(([at, message], index) => {
    const counted = countSimilar(similar, message, start + at * minute);
    similar = counted.similar;
    return counted.isCombined ? [index + 1] : [];
  });
}
const many = (count: number, everyMinutes: number, message: (index: number) => string) =>
  Array.from({ length: count }, (_, index): [number, string] => [index * everyMinutes, message(index)]);

test("of events that are alike but for their message the tenth is combined, and all that follow", () => {
  expect(combinedOf(many(12, 1, String))).toEqual([10, 11, 12]);
});
test("the same message again is not one more", () => {
  expect(combinedOf(many(50, 1, () => "same"))).toEqual([]);
});
test("after ten minutes without one the count begins anew; up to then it goes on", () => {
  expect(combinedOf([...many(9, 0, String), [10, "x"]])).toEqual([10]);
  expect(combinedOf([...many(9, 0, String), [10.1, "x"]])).toEqual([]);
});

/** How many of the events at these times (in minutes) are told. */
function toldOf(times: readonly number[]): number {
  let allowance: Allowance | undefined;
  return times.filter((at) => {
    const taken = takeToken(allowance, start + at * minute);
    allowance = taken.allowance;
    return taken.isAllowed;
  }).length;
}
test("one object tells 25 events at once, then one in five minutes", () => {
  expect(toldOf(Array(100).fill(0))).toBe(25);
  expect(toldOf([...Array(26).fill(0), 4.9])).toBe(25);
  expect(toldOf([...Array(26).fill(0), 5, 5.1])).toBe(26);
  expect(toldOf([...Array(25).fill(0), ...Array(100).fill(10_000)])).toBe(50);
});
test("a clock that was set back takes nothing away", () => {
  expect(toldOf([...Array(24).fill(0), -60])).toBe(25);
});

test("an event that happens again keeps its name and its first time, and counts", () => {
  const again = eventOf({ metadata: { name: "web.100", namespace: "shop" }, lastTimestamp: "2026-01-01T10:05:00Z" });
  const second = repeated(eventOf(), again);
  expect([second.metadata.name, second.firstTimestamp, second.lastTimestamp, second.count]).toEqual([
    "web.ff",
    "2026-01-01T10:00:00Z",
    "2026-01-01T10:05:00Z",
    2,
  ]);
  expect(repetitionPatch(second)).toEqual({ count: 2, lastTimestamp: "2026-01-01T10:05:00Z", message: "m" });
});
