import { expect, test } from "bun:test";
import type { RuntimeChange } from "../../fakes/runtime-events.ts";
import { problemsOf } from "./checks-at-end.ts";

const at = Date.parse("2026-01-01T00:00:00Z");
const change = (id: string, what: RuntimeChange["change"]): RuntimeChange => ({
  ...{ at, kind: "container", change: what, id, role: "1/a" },
});
const run = (timeline: RuntimeChange[], regressions: readonly string[] = []) => ({
  runtime: { timeline },
  kube: { objects: { history: [] } },
  statusRegressions: () => regressions,
});
const restarted = [change("one", "created"), change("one", "stopped"), change("two", "created")];
const duplicated = [change("one", "created"), change("two", "created"), change("one", "stopped")];
const regression = "web: phase regressed: Running → Pending";

test("a run fails in which two instances were live at once, whatever regressions its test expects", () => {
  expect(problemsOf(run(restarted), [])).toEqual([]);
  for (const expected of [[], "any"] as const)
    expect(problemsOf(run(duplicated), expected)).toEqual(["Live at once as container 1/a: one, two"]);
});

test("a run fails whose status regresses, unless its test expects any regression", () => {
  expect(problemsOf(run(restarted, [regression]), [])).toEqual([regression]);
  expect(problemsOf(run(restarted, [regression]), "any")).toEqual([]);
});
