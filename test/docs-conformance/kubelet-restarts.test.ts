/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/: what a restart of the kubelet is to pods. What it says of others stands in
 * pod-lifecycle.test.ts.
 */
import { describe, expect, test } from "bun:test";
import type { Probe } from "../../proto/kubernetes/gen/types.ts";
import { container, containerOf, happenings, runPod } from "./pod-case.ts";

const asking = (command: string, more: Probe = {}): Probe => ({ exec: { command: [command] }, ...more });

describe("Pod behavior during kubelet restarts", () => {
  test("containers run on while the agent is restarted", async () => {
    const { stage } = await runPod();
    const { containerID } = await containerOf(stage, "a");
    stage.kill();
    await stage.advance("1m");
    await stage.start();
    await stage.advance("1m");
    expect(await containerOf(stage, "a")).toMatchObject({ containerID, restartCount: 0, ready: true });
    expect(happenings(stage)).toEqual(["0s sandbox started", "0s a started"]);
  });

  test("an agent that is stopped stops no pod before it ends", async () => {
    const { stage } = await runPod();
    await stage.stop();
    await stage.advance("60m");
    expect(stage.scene().filter((line) => line.startsWith("container"))).toEqual(["container web/a #0 running"]);
  });
});

describe("Detection of kubelet restarts", () => {
  test("what was ready is ready, and started, after a restart too", async () => {
    const probes = { startupProbe: asking("up"), readinessProbe: asking("ready") };
    const { stage, told } = await runPod({ spec: { containers: [container("a", probes)] } });
    await stage.advance("30s");
    expect(await containerOf(stage, "a")).toMatchObject({ ready: true, started: true });
    const before = told.length;
    await stage.stop();
    await stage.start();
    await stage.advance("5m");
    expect(
      told.slice(before).flatMap(({ containerStatuses = [] }) => containerStatuses.filter(({ ready }) => !ready)),
    ).toEqual([]);
    expect(await containerOf(stage, "a")).toMatchObject({ ready: true, started: true });
  });

  test("also after an outage", async () => {
    const { stage } = await runPod({ spec: { containers: [container("a", { readinessProbe: asking("ready") })] } });
    await stage.advance("30s");
    await stage.stop();
    await stage.advance("60m");
    await stage.start();
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
  });
});
