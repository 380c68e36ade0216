import { expect, test } from "bun:test";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { observedRuntime } from "../../../test/fakes/observed-node.ts";
import { createNodeSummary } from "./node-summary.ts";

function createFixture() {
  const clock = new FakeClock();
  const report = createNodeSummary(clock);
  let changes = 0;
  const unsubscribe = report.subscribe(() => changes++);
  const changed = () => {
    const count = changes;
    changes = 0;
    return count;
  };
  return { clock, report, changed, unsubscribe };
}

const start = "2026-01-01T00:00:00Z";

test("the runtime is connecting until its first list, then ready", () => {
  const { report, changed } = createFixture();
  expect(report.report()).toEqual({ refused: [], runtime: { state: "connecting", since: start } });
  report.onRuntimeReady();
  expect([report.report().runtime, changed()]).toEqual([{ state: "ready" }, 1]);
});

test("the runtime is away since its connection broke, with the latest reason, until it is listed again", async () => {
  const { clock, report, changed } = createFixture();
  report.onRuntimeReady();
  report.onRuntimeAway("connection refused");
  await clock.advance(60_000);
  report.onRuntimeAway("connect ENOENT");
  expect(report.report().runtime).toEqual({ state: "away", since: start, message: "connect ENOENT" });
  report.onRuntimeReady();
  report.onRuntimeAway("connection refused");
  expect(report.report().runtime).toMatchObject({ state: "away", since: "2026-01-01T00:01:00Z" });
  expect(changed()).toBe(5);
});

test("a runtime that is connected and does not respond is not ready since then", async () => {
  const { clock, report, changed } = createFixture();
  const noResponse = "Status: no answer within 10000 ms";
  report.onRuntimeObserved({ runtime: { ...observedRuntime, isReady: false, noResponse } });
  expect(report.report().runtime.state).toBe("connecting");
  report.onRuntimeReady();
  expect(report.report().runtime).toEqual({ state: "notReady", since: start, message: noResponse });
  await clock.advance(20_000);
  report.onRuntimeObserved({ runtime: { ...observedRuntime, isReady: false, noResponse } });
  expect(report.report().runtime).toMatchObject({ since: start });
  report.onRuntimeAway("connection refused");
  expect(report.report().runtime.state).toBe("away");
  report.onRuntimeReady();
  report.onRuntimeObserved({ runtime: observedRuntime });
  expect([report.report().runtime, changed()]).toEqual([{ state: "ready" }, 4]);
});

test("the network is not ready while the runtime says so, and unknown while the runtime is away or does not respond", () => {
  const { report, changed } = createFixture();
  const network = { type: "NetworkReady", status: false, reason: "NetworkPluginNotReady", message: "no network" };
  const conditions = [...(observedRuntime.conditions ?? []).filter(({ type }) => type !== network.type), network];
  report.onRuntimeReady();
  report.onRuntimeObserved({ runtime: { ...observedRuntime, conditions } });
  expect([report.report().networkProblem, changed()]).toEqual(["NetworkPluginNotReady: no network", 2]);
  report.onRuntimeAway("connection refused");
  expect(report.report().networkProblem).toBeUndefined();
  report.onRuntimeReady();
  expect(report.report().networkProblem).toBe("NetworkPluginNotReady: no network");
  report.onRuntimeObserved({ runtime: { ...observedRuntime, conditions, isReady: false, noResponse: "frozen" } });
  expect(report.report().networkProblem).toBeUndefined();
  report.onRuntimeObserved({ runtime: observedRuntime });
  expect([report.report().networkProblem, changed()]).toEqual([undefined, 4]);
});

test("subscribers are called only when the rejected manifests change", () => {
  const { report, changed, unsubscribe } = createFixture();
  const refused = [{ file: "/m/a.yaml", problem: "it is empty" }];
  for (let time = 0; time < 3; time++) report.setRejected([...refused]);
  expect([report.report().refused, changed()]).toEqual([refused, 1]);
  unsubscribe();
  report.setRejected([]);
  expect([report.report().refused, changed()]).toEqual([[], 0]);
});
