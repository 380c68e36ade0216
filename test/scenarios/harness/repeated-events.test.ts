import { expect, test } from "bun:test";
import type { Event } from "../../../proto/kubernetes/gen/types.ts";
import { type RepeatedEventsInput, repeatedEvents } from "./repeated-events.ts";

type Change = RepeatedEventsInput["history"][number];

const timeAt = (second: number) => `2026-01-01T00:00:${String(second).padStart(2, "0")}Z`;

/** An Event of container a of the pod `web` that occurs at these seconds, each of which the API server gets in turn. */
function recorded(reason: string, seconds: readonly number[], more: Partial<Event> = {}): readonly Change[] {
  const involvedObject = { kind: "Pod", namespace: "default", name: "web", uid: "1", fieldPath: "spec.containers{a}" };
  const states = seconds.map(
    (second, index): Event => ({
      metadata: { name: `web.${reason}` },
      ...{ involvedObject, reason, count: index + 1 },
      ...{ firstTimestamp: timeAt(seconds[0] ?? 0), lastTimestamp: timeAt(second) },
      ...more,
    }),
  );
  return states.map((state, index) => ({
    resource: "events",
    type: index === 0 ? "ADDED" : "MODIFIED",
    object: state as unknown as Change["object"],
    before: states[index - 1] as unknown as Change["before"],
  }));
}

/** The changes of container a of the pod `web` at these seconds. */
const changed = (change: "created" | "started", ...seconds: readonly number[]): RepeatedEventsInput["timeline"] =>
  seconds.map((second) => ({ at: Date.parse(timeAt(second)) + 300, kind: "container", change, role: "1/a" }));

const repeated = (history: readonly Change[], timeline: RepeatedEventsInput["timeline"], deaths = 0) =>
  repeatedEvents({ history, timeline, deaths });

test.each([
  ["Created", "created"],
  ["Started", "started"],
] as const)("each instance may have one %s, or none if the agent died before it", (reason, change) => {
  const timeline = changed(change, 1, 5, 9);
  for (const seconds of [[1, 5, 9], [5, 9], [1, 9], []])
    expect(repeated(recorded(reason, seconds), timeline)).toEqual([]);
});

test.each([
  ["Created", "created"],
  ["Started", "started"],
] as const)("a second %s of an instance is repeated, also by the next agent", (reason, change) => {
  const line = (times: number) => `${reason} of default/web/a is repeated: it was ${change} ${times} times`;
  expect(repeated(recorded(reason, [1, 1]), changed(change, 1))).toEqual([line(1)]);
  expect(repeated([...recorded(reason, [1]), ...recorded(reason, [2])], changed(change, 1), 1)).toEqual([line(1)]);
  expect(repeated(recorded(reason, [1]), [], 1)).toEqual([line(0)]);
});

test("an instance without an event does not explain a second event of the next instance", () => {
  const problem = "Created of default/web/a is repeated: it was created 2 times";
  expect(repeated(recorded("Created", [6, 7]), changed("created", 1, 5), 1)).toEqual([problem]);
  expect(repeated(recorded("Created", [1, 4]), changed("created", 1, 5), 1)).toEqual([problem]);
});

test("instances of one second have one event each", () => {
  expect(repeated(recorded("Started", [1, 1]), changed("started", 1, 1))).toEqual([]);
  expect(repeated(recorded("Started", [1, 1, 1]), changed("started", 1, 1))).toHaveLength(1);
});

test("events that the API server gets together after an outage belong to the instances since the one before", () => {
  const together = recorded("Started", [9], { count: 3, firstTimestamp: timeAt(1) });
  expect(repeated(together, changed("started", 1, 5, 9))).toEqual([]);
  expect(repeated(together, changed("started", 1, 9))).toHaveLength(1);
});

test("an instance of another pod or container explains no event", () => {
  const history = recorded("Created", [1]);
  for (const role of ["2/a", "1/b"]) {
    const timeline = changed("created", 1).map((each) => ({ ...each, role }));
    expect(repeated(history, timeline)).toHaveLength(1);
  }
});

test("Pulled may occur once before each creation, also one that fails, and once more for each death", () => {
  const failed = recorded("Failed", [2], { message: "Error: secret not found" });
  const pulled = recorded("Pulled", [1, 2, 3]);
  expect(repeated([...pulled, ...failed], changed("created", 1, 3))).toEqual([]);
  expect(repeated(pulled, changed("created", 1, 3), 1)).toEqual([]);
  const problem = (creations: number) =>
    `Pulled of default/web/a is repeated: it has occurred 3 times, before ${creations} creations`;
  expect(repeated(pulled, changed("created", 1, 3))).toEqual([problem(2)]);
  expect(repeated(pulled, changed("created", 1), 1)).toEqual([problem(1)]);
});

test("a pull that fails is no creation that fails", () => {
  for (const message of ["Error: ErrImagePull", 'Failed to pull image "busybox:1": it is gone'])
    expect(repeated([...recorded("Pulled", [3, 4]), ...recorded("Failed", [1, 2], { message })], [])).toHaveLength(1);
});

test("the first Pulled may precede the container that it is for, a second one may not", () => {
  expect(repeated(recorded("Pulled", [1]), [])).toEqual([]);
  expect(repeated(recorded("Pulled", [1, 2]), [])).toHaveLength(1);
});

test("events of the whole pod, and other objects, are not judged", () => {
  const involvedObject = { kind: "Pod", namespace: "default", name: "web", uid: "1" };
  expect(repeated(recorded("Pulled", [1, 2], { involvedObject }), [])).toEqual([]);
  expect(
    repeated(
      recorded("Created", [1]).map((each) => ({ ...each, resource: "pods" })),
      [],
    ),
  ).toEqual([]);
});
