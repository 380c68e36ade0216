import { onTestFinished } from "bun:test";
import type { FakeKube } from "../../fakes/kube.ts";
import type { FakeRuntime } from "../../fakes/runtime.ts";
import type { AgentHarness } from "../harness.ts";
import { duplicateInstances } from "./duplicate-instances.ts";
import { type ExpectedRegression, regressionProblems } from "./expected-regressions.ts";
import { repeatedEvents } from "./repeated-events.ts";

interface Run extends Pick<AgentHarness, "statusRegressions"> {
  readonly runtime: Pick<FakeRuntime, "timeline">;
  readonly kube: { readonly objects: Pick<FakeKube["objects"], "history"> };
}

/**
 * Lets the test that runs fail at its end if two instances of a sandbox or container were live at once, if an event of a
 * container is repeated, or if the statuses in the API have regressed other than `expected` says.
 */
export function checkAtEnd(run: Run, expected: readonly ExpectedRegression[] | "any" = []): void {
  onTestFinished(() => {
    const problems = problemsOf(run, expected);
    if (problems.length > 0) throw new Error(["The run shows what its test does not expect:", ...problems].join("\n"));
  });
}

/**
 * One line for each problem of a run.
 * @internal
 */
export function problemsOf(run: Run, expected: readonly ExpectedRegression[] | "any"): readonly string[] {
  const { runtime, kube } = run;
  return [
    ...duplicateInstances(runtime.timeline),
    ...repeatedEvents({ history: kube.objects.history, timeline: runtime.timeline, deaths: 0 }),
    ...(expected === "any" ? [] : regressionProblems(run.statusRegressions(), expected)),
  ];
}
