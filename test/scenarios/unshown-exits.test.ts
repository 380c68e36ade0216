// Exits that containerd's own event reports some time before the runtime's status shows them.
import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { ExpectedRegression } from "./harness/expected-regressions.ts";
import { type AgentHarness, createHarness } from "./harness.ts";

/** A node in a cluster that runs the pod `web`; the runtime's status lags behind each exit. */
async function runWeb(
  lagMs: number,
  spec: Parameters<AgentHarness["apply"]>[1] = {},
  regressions: readonly ExpectedRegression[] = [],
) {
  const harness = await createHarness({ isInCluster: true, exitLagMs: () => lagMs, regressions });
  await harness.start();
  await harness.apply("web", spec);
  await harness.advance("5s");
  return harness;
}

test("an exit is reported at once, and the container restarts when the status shows the exit", async () => {
  const harness = await runWeb(900);
  await harness.exit("a", 3);
  expect(await harness.apiPods()).toEqual(["web Running: a terminated Error 3"]);
  await harness.advance("800ms");
  expect(harness.runtime.containers.size).toBe(1);
  await harness.advance("1s");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  expect(harness.statusRegressions()).toEqual([]);
});

for (const [policy, exitCode, reported, later] of [
  ["Always", 3, "web Running: a terminated Error 3", "web Running, ready: a running (restarts: 1)"],
  ["Never", 0, "web Succeeded: a terminated Completed 0", "web Succeeded: a terminated Completed 0"],
] as const)
  test(`an agent that starts before the status shows a reported exit keeps it (restartPolicy ${policy})`, async () => {
    const harness = await runWeb(900, { restartPolicy: policy });
    await harness.exit("a", exitCode);
    expect(await harness.apiPods()).toEqual([reported]);
    harness.kill();
    await harness.start();
    expect(await harness.apiPods()).toEqual([reported]);
    await harness.advance("800ms");
    expect(await harness.apiPods()).toEqual([reported]);
    expect(harness.podReports().map(({ status }) => status.containerStatuses?.[0]?.state?.running)).toEqual([
      undefined,
    ]);
    await harness.advance("2s");
    expect(await harness.apiPods()).toEqual([later]);
    expect(harness.statusRegressions()).toEqual([]);
  });

test("an agent that starts before the status shows the exit keeps the back-off of a crash loop", async () => {
  const harness = await runWeb(900);
  await harness.exit("a", 3);
  await harness.advance("2s");
  await harness.exit("a", 3);
  const waiting = "web Running: a waiting CrashLoopBackOff (restarts: 1)";
  expect(await harness.apiPods()).toEqual([waiting]);
  harness.kill();
  await harness.start();
  await harness.advance("8s");
  expect(await harness.apiPods()).toEqual([waiting]);
  await harness.advance("4s");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 2)"]);
  expect(harness.statusRegressions()).toEqual([]);
});

for (const eventSource of ["containerd-events", "cri-events"] as const)
  test(`a pod that is deleted after an exit and before the status shows it keeps the exit code, with ${eventSource}`, async () => {
    const harness = await createHarness({ isInCluster: true, eventSource, exitLagMs: () => 900 });
    await harness.start();
    await harness.apply("web", { restartPolicy: "Never" });
    await harness.advance("5s");
    harness.runtime.exit(harness.containerIdOf("a"), 3);
    // The task is deleted by then: StopContainer returns at once, while the status still says that the container runs.
    await harness.advance("500ms");
    await harness.kube.user.delete(pods("default"), "web", { gracePeriodSeconds: 30 });
    await harness.advance("10s");
    expect(await harness.apiPods()).toEqual([]);
    const last = harness.kube.objects.history.findLast(({ resource }) => resource === "pods")?.object;
    expect(last?.["status"]).toMatchObject({
      phase: "Failed",
      containerStatuses: [{ state: { terminated: { exitCode: 3 } } }],
    });
    expect(harness.runtime.sandboxes.size).toBe(0);
    expect((await harness.events("web")).filter((line) => line.includes("Warning"))).toEqual([]);
  });

test("an exit that the runtime never shows is withdrawn 41 s after it, also by another agent", async () => {
  const why = "The runtime's status, which the kubelet alone reads, says for 41 s that the container runs.";
  const harness = await runWeb(3_600_000, {}, [{ pod: "web", label: "a", rule: "end", why }]);
  await harness.exit("a", 3);
  harness.kill();
  await harness.start();
  await harness.advance("38s");
  expect(await harness.apiPods()).toEqual(["web Running: a terminated Error 3"]);
  await harness.advance("4s");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  expect(harness.runtime.calls.filter((call) => call.startsWith("createContainer"))).toHaveLength(1);
});

test("a scenario that waits for exits advances by the time until the agent has seen them, too", async () => {
  const harness = await createHarness({ isInCluster: true, exitLagMs: () => 3000, waitsForExits: true });
  harness.runtime.programs.set("a", { exitsAfterMs: 1000, exitCode: 3 });
  await harness.start();
  await harness.apply("web", { restartPolicy: "Never" });
  const start = harness.clock.now();
  await harness.advance("2s");
  // The container and then its sandbox exit.
  expect(harness.clock.now() - start).toBeGreaterThan(2000 + 2 * 3000);
  harness.runtime.programs.delete("a");
  await harness.apply("other");
  await harness.exit("a", 1);
  expect(harness.runtime.hasUnshownExit).toBe(true);
  const restarted = "other Running, ready: a running (restarts: 1)";
  expect(await harness.apiPods()).toEqual([restarted, "web Failed: a terminated Error 3"]);
  expect(harness.runtime.hasUnshownExit).toBe(false);
});
