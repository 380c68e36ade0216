import { expect, test } from "bun:test";
import type { StoredChange } from "../../fakes/kube-objects.ts";
import type { RuntimeChange } from "../../fakes/runtime-events.ts";
import { type CheckedRun, problemsOf } from "./checks-at-end.ts";

const at = Date.parse("2026-01-01T00:00:00Z");
const change = (id: string, what: RuntimeChange["change"]): RuntimeChange => ({
  ...{ at, kind: "container", change: what, id, role: "1/a" },
});
const restarted = [change("one", "created"), change("one", "stopped"), change("two", "created")];
const regression = "web: phase regressed: Running → Pending";
const eventOf = (reason: string, name: string) => ({
  ...{ resource: "events", type: "ADDED", before: undefined },
  object: {
    ...{ metadata: { name }, reason, message: "", firstTimestamp: "2026-01-01T00:00:00Z" },
    lastTimestamp: "2026-01-01T00:00:00Z",
    involvedObject: { namespace: "default", name: "web", uid: "1", fieldPath: "spec.containers{a}" },
  },
});

interface RunParts {
  readonly timeline?: RuntimeChange[];
  readonly events?: readonly ReturnType<typeof eventOf>[];
  readonly regressions?: readonly string[];
  readonly starts?: number;
}
const run = ({ timeline = restarted, events = [], regressions = [], starts = 1 }: RunParts): CheckedRun => ({
  ...{ starts, runtime: { timeline }, statusRegressions: () => regressions },
  kube: { objects: { history: events as unknown as StoredChange[] } },
});

test.each<[what: string, parts: RunParts, problems: readonly string[]]>([
  ["a restart", {}, []],
  [
    "two instances that are live at once",
    { timeline: [change("one", "created"), change("two", "created"), change("one", "stopped")] },
    ["Live at once as container 1/a: one, two"],
  ],
  ["a status that regresses", { regressions: [regression] }, [regression]],
  [
    "an event without an instance",
    { timeline: [], events: [eventOf("Created", "web.1")] },
    ["Created of default/web/a is repeated: it was created 0 times"],
  ],
  [
    "three pulls for two instances",
    { events: ["web.1", "web.2", "web.3"].map((name) => eventOf("Pulled", name)) },
    ["Pulled of default/web/a is repeated: it has occurred 3 times, before 2 creations"],
  ],
  ["three pulls after a death", { starts: 2, events: ["1", "2", "3"].map((name) => eventOf("Pulled", name)) }, []],
])("a run with %s: %j", (_, parts, problems) => {
  expect(problemsOf(run(parts), [])).toEqual([...problems]);
});

test("a run that shows a regression as its test expects it has no problem, and one that does not has", () => {
  const expected = [{ pod: "web", rule: "phase", why: "The pod starts over." }];
  expect(problemsOf(run({ regressions: [regression] }), expected)).toEqual([]);
  expect(problemsOf(run({}), expected)).toEqual(["web: phase is expected to regress, and did not"]);
});
