import { onTestFinished } from "bun:test";
import type { FakeKube } from "../../fakes/kube.ts";
import type { FakeRuntime } from "../../fakes/runtime.ts";
import type { AgentHarness } from "../harness.ts";
import { duplicateInstances } from "./duplicate-instances.ts";
import { type ExpectedRegression, regressionProblems } from "./expected-regressions.ts";
import { repeatedEvents } from "./repeated-events.ts";

/** What runtime and API server have seen of a run. */
export interface RecordedRun {
  readonly runtime: Pick<FakeRuntime, "timeline">;
  readonly kube: { readonly objects: Pick<FakeKube["objects"], "history"> };
}

/** What is checked of the run of each test. */
export interface CheckedRun extends RecordedRun, Pick<AgentHarness, "starts" | "statusRegressions"> {}

/**
 * Lets the test that runs fail at its end if two instances of a sandbox or container were live at once, if an event of a
 * container is repeated, or if a status in the API regresses that `expected` does not name, or one that it names does not.
 */
export function checkAtEnd(run: CheckedRun, expected: readonly ExpectedRegression[] = []): void {
  onTestFinished(() => {
    const problems = problemsOf(run, expected);
    if (problems.length > 0) throw new Error(["The run shows what its test does not expect:", ...problems].join("\n"));
  });
}

/** One line for each problem of a run so far. */
export function problemsOf(run: CheckedRun, expected: readonly ExpectedRegression[]): readonly string[] {
  return [
    ...duplicateInstances(run.runtime.timeline),
    ...repeatedEventsOf(run, Math.max(0, run.starts - 1)),
    ...regressionProblems(run.statusRegressions(), expected),
  ];
}

/** The events of a run that are repeated, although the agent has died only so often. */
export const repeatedEventsOf = ({ kube, runtime }: RecordedRun, deaths: number): readonly string[] =>
  repeatedEvents({ history: kube.objects.history, timeline: runtime.timeline, deaths });
