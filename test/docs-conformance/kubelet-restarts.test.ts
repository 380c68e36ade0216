/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/: the sections about restarts of the kubelet.
 * pod-lifecycle.test.ts lists the statements that are not tested.
 */
import { expect, test } from "bun:test";
import type { Probe } from "../../proto/kubernetes/gen/types.ts";
import { apiPod, container, containerOf, describeSection, runPod, runTimedPod } from "./pod-case.ts";

const execProbe = (command: string, more: Probe = {}): Probe => ({ exec: { command: [command] }, ...more });

describeSection("Pod behavior during kubelet restarts", () => {
  test("containers keep running while the agent restarts", async () => {
    const { harness, expectTimeline } = await runTimedPod();
    const { containerID } = await containerOf(harness, "a");
    harness.kill();
    await harness.advance("1m");
    await harness.start();
    await harness.advance("1m");
    expect(await containerOf(harness, "a")).toMatchObject({ containerID, restartCount: 0, ready: true });
    await expectTimeline(/started|stopped/, ["0s sandbox started", "0s a started"]);
  });

  test("a stopped agent leaves its pods running", async () => {
    const { harness } = await runPod();
    await harness.stop();
    await harness.advance("60m");
    expect(harness.nodeSnapshot().filter((line) => line.startsWith("container"))).toEqual([
      "container web/a #0 running",
    ]);
  });
});

describeSection("Detection of kubelet restarts", () => {
  test("a container stays ready and started across a restart of the agent", async () => {
    const probes = { startupProbe: execProbe("up"), readinessProbe: execProbe("ready") };
    const { harness, statuses } = await runPod({ spec: { containers: [container("a", probes)] } });
    await harness.advance("30s");
    expect(await containerOf(harness, "a")).toMatchObject({ ready: true, started: true });
    const before = statuses.length;
    await harness.stop();
    await harness.start();
    await harness.advance("5m");
    expect(
      statuses.slice(before).flatMap(({ containerStatuses = [] }) => containerStatuses.filter(({ ready }) => !ready)),
    ).toEqual([]);
    expect(await containerOf(harness, "a")).toMatchObject({ ready: true, started: true });
  });

  test("a container stays ready and started when Berth takes over from another agent, although its probes are slow", async () => {
    const slow = { timeoutSeconds: 10 };
    const probes = { startupProbe: execProbe("up", slow), readinessProbe: execProbe("ready", slow) };
    const { harness, statuses } = await runPod({
      spec: { containers: [container("a", probes)] },
      before({ runtime }) {
        runtime.commands.set("up", { lastsMs: 2_000 });
        runtime.commands.set("ready", { lastsMs: 3_000 });
      },
    });
    await harness.advance("1m");
    await harness.stop();
    // Another agent leaves no marks; only the API server has what it found.
    const { uid } = (await apiPod(harness))?.metadata ?? {};
    await harness.disk.at("/").remove(`/pods/${uid}/containers/a`);
    const before = statuses.length;
    const resume = harness.kube.hang("watch");
    await harness.start();
    await harness.advance("500ms");
    resume();
    await harness.advance("1m");
    expect(statuses.slice(before).map(({ containerStatuses }) => containerStatuses)).toEqual([]);
    expect(await containerOf(harness, "a")).toMatchObject({ ready: true, started: true });
  });

  test("a container is still ready after the agent was down for an hour", async () => {
    const { harness } = await runPod({
      spec: { containers: [container("a", { readinessProbe: execProbe("ready") })] },
    });
    await harness.advance("30s");
    await harness.stop();
    await harness.advance("60m");
    await harness.start();
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });
});
