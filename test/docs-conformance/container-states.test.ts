/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/: the sections about container states and probes.
 * pod-lifecycle.test.ts lists the statements that are not tested.
 */
import { expect, test } from "bun:test";
import { secrets } from "../../kube/resource.ts";
import { allContainerStatuses } from "../../proto/kubernetes/containers.ts";
import type { Probe } from "../../proto/kubernetes/gen/types.ts";
import {
  container,
  containerOf,
  describeSection,
  formatTimeline,
  runPod,
  runTimedPod,
  sidecar,
  unreadyByProbe,
} from "./pod-case.ts";

describeSection("Container states", () => {
  test("the node creates the containers of a pod with its container runtime as soon as the pod is bound", async () => {
    const { harness } = await runPod();
    expect(harness.runtime.calls.filter((call) => /^(run|create|start)/.test(call))).toEqual([
      "runPodSandbox default/web #0",
      "createContainer default/web/a #0",
      "startContainer default/web/a #0",
    ]);
  });

  test("a container is always waiting, running or terminated", async () => {
    const spec = { initContainers: [container("i"), sidecar("s")], containers: [container("a")] };
    const programs = { i: { exitsAfterMs: 1000 }, a: { exitsAfterMs: 5000, exitCode: 1 } };
    const { harness, statuses } = await runPod({ spec, programs });
    await harness.advance("1m");
    const states = statuses.flatMap((status) =>
      allContainerStatuses(status).map(({ state = {} }) => Object.keys(state)),
    );
    expect(new Set(states.map((keys) => keys.join()))).toEqual(new Set(["waiting", "running", "terminated"]));
  });
});

describeSection("Waiting", () => {
  test("a container waits while its image is being pulled", async () => {
    const { harness } = await runPod({
      spec: { containers: [container("a", { image: "slow:1" })] },
      before({ runtime }) {
        runtime.registry.set("slow:1", undefined);
        runtime.hang("pullImage");
      },
    });
    await harness.advance("1m");
    expect((await containerOf(harness, "a")).state).toMatchObject({ waiting: { reason: "ContainerCreating" } });
  });

  test("a container waits for the Secret of its environment", async () => {
    const env = [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "login", key: "token" } } }];
    const { harness } = await runPod({ spec: { containers: [container("a", { env })] } });
    await harness.advance("1m");
    expect((await containerOf(harness, "a")).state).toMatchObject({
      waiting: { reason: "CreateContainerConfigError" },
    });
    const metadata = { name: "login", namespace: "default" };
    await harness.kube.user.create(secrets("default"), { metadata, data: { token: "MQ==" } });
    await harness.advance("1s");
    expect((await containerOf(harness, "a")).state).toMatchObject({ running: {} });
  });

  test("a waiting container has a reason", async () => {
    const spec = {
      initContainers: [container("i")],
      containers: [container("a"), container("b", { image: "gone:1" })],
    };
    const programs = { i: { exitsAfterMs: 1000 }, a: { exitsAfterMs: 5000, exitCode: 1 } };
    const { harness, statuses } = await runPod({ spec, programs });
    await harness.advance("5m");
    const reasons = statuses.flatMap((status) =>
      allContainerStatuses(status).flatMap(({ state }) => (state?.waiting ? [state.waiting.reason] : [])),
    );
    expect(new Set(reasons)).toEqual(
      new Set(["PodInitializing", "ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"]),
    );
  });
});

describeSection("Running", () => {
  test("a running container has a start time", async () => {
    const { harness } = await runPod({ programs: { a: { exitsAfterMs: 5000 } } });
    await harness.advance("7s");
    const since = (await containerOf(harness, "a")).state?.running?.startedAt;
    const started = harness.runtime.timeline.findLast(({ change }) => change === "started")?.at ?? 0;
    expect(Date.parse(since ?? "")).toBe(Math.floor(started / 1000) * 1000);
  });

  test("a container is not Running before its postStart hook has finished", async () => {
    const lifecycle = { postStart: { exec: { command: ["warm-up"] } } };
    const { harness } = await runPod({
      spec: { containers: [container("a", { lifecycle })] },
      before: ({ runtime }) => void runtime.commands.set("warm-up", { lastsMs: 5000 }),
    });
    await harness.advance("4s");
    expect(await harness.apiPods()).toEqual(["web Pending: a waiting ContainerCreating"]);
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });
});

describeSection("Terminated", () => {
  test.each([
    [0, "Completed"],
    [7, "Error"],
  ])(
    "a container that exited with code %d reports the code, a reason, its start and its end",
    async (exitCode, reason) => {
      const { harness } = await runPod({
        spec: { restartPolicy: "Never" },
        programs: { a: { exitsAfterMs: 5000, exitCode } },
      });
      const startedAt = (await containerOf(harness, "a")).state?.running?.startedAt ?? "";
      await harness.advance("1m");
      const finishedAt = new Date(Date.parse(startedAt) + 5000).toISOString().replace(".000", "");
      expect((await containerOf(harness, "a")).state).toEqual({
        terminated: { exitCode, reason, startedAt, finishedAt, containerID: `fake://${harness.containerIdOf("a")}` },
      });
    },
  );

  test("a preStop hook runs before its container enters Terminated", async () => {
    const lifecycle = { preStop: { exec: { command: ["drain"] } } };
    const { harness, expectTimeline } = await runTimedPod({
      spec: { containers: [container("a", { lifecycle })] },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 4000 }),
    });
    await harness.deletePod("web");
    await harness.advance("3s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
    await harness.advance("30s");
    await expectTimeline(/a stopped/, ["4s a stopped"]);
    expect(harness.runtime.calls).toContain("execSync default/web/a #0: drain");
  });
});

describeSection("How Pods handle problems with containers", () => {
  test("the restart policy decides about each exit", async () => {
    const { harness } = await runPod({ spec: { restartPolicy: "OnFailure" } });
    await harness.exit("a", 1);
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
    await harness.exit("a", 0);
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Succeeded: a terminated Completed 0 (restarts: 1)"]);
  });
});

const execProbe = (command: string, more: Probe = {}): Probe => ({ exec: { command: [command] }, ...more });

describeSection("Container probes", () => {
  test("a probe runs periodically", async () => {
    const spec = { containers: [container("a", { livenessProbe: execProbe("alive", { periodSeconds: 5 }) })] };
    const { harness } = await runPod({ spec });
    await harness.advance("1m");
    expect(harness.runtime.calls.filter((call) => call.endsWith(": alive"))).toHaveLength(12);
  });
});

describeSection("Startup probe", () => {
  const spec = {
    containers: [
      container("a", {
        startupProbe: execProbe("up", { failureThreshold: 3 }),
        livenessProbe: execProbe("alive"),
        readinessProbe: execProbe("ready"),
      }),
    ],
  };
  const probeCommands = (calls: readonly string[]) => [
    ...new Set(calls.flatMap((call) => /#\d+: (\w+)$/.exec(call)?.[1] ?? [])),
  ];

  test("other probes start after the startup probe succeeds, and the startup probe does not run again", async () => {
    const { harness } = await runPod({
      spec,
      before: ({ runtime }) => void runtime.commands.set("up", { exitCode: 1 }),
    });
    await harness.advance("15s");
    expect(probeCommands(harness.runtime.calls)).toEqual(["up"]);
    harness.runtime.commands.set("up", {});
    await harness.advance("10s");
    harness.runtime.calls.length = 0;
    await harness.advance("1m");
    expect(probeCommands(harness.runtime.calls).toSorted()).toEqual(["alive", "ready"]);
  });

  test.each(["Always", "Never"] as const)(
    "a failed startup probe kills the container, and restartPolicy %s decides about a restart",
    async (restartPolicy) => {
      const { harness, expectTimeline } = await runTimedPod({
        spec: { ...spec, restartPolicy },
        before: ({ runtime }) => void runtime.commands.set("up", { exitCode: 1 }),
      });
      await harness.advance("31s");
      await expectTimeline(/a stopped/, ["30s a stopped"]);
      const end = { Always: "web Running: a running (restarts: 1)", Never: "web Failed: a terminated Error 143" };
      expect(await harness.apiPods()).toEqual([end[restartPolicy]]);
    },
  );
});

describeSection("Liveness probe", () => {
  test("a container is restarted when its liveness probe fails failureThreshold times", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { containers: [container("a", { livenessProbe: execProbe("alive", { failureThreshold: 2 }) })] },
      before: ({ runtime }) => void runtime.commands.set("alive", { exitCode: 1 }),
    });
    await harness.advance("21s");
    await expectTimeline(/ a (started|stopped)/, ["0s a started", "20s a stopped", "20s a started"]);
  });

  test("the liveness probe does not wait for readiness", async () => {
    const probes = { livenessProbe: execProbe("alive", { failureThreshold: 1 }), readinessProbe: execProbe("ready") };
    const { harness } = await runPod({
      spec: { containers: [container("a", probes)] },
      before({ runtime }) {
        runtime.commands.set("ready", { exitCode: 1 });
        runtime.commands.set("alive", { exitCode: 1 });
      },
    });
    await harness.advance("11s");
    expect((await containerOf(harness, "a")).restartCount).toBe(1);
  });

  test("the liveness probe waits for initialDelaySeconds", async () => {
    const livenessProbe = execProbe("alive", { failureThreshold: 1, initialDelaySeconds: 25 });
    const { harness } = await runPod({
      spec: { containers: [container("a", { livenessProbe })] },
      before: ({ runtime }) => void runtime.commands.set("alive", { exitCode: 1 }),
    });
    await harness.advance("25s");
    expect(harness.runtime.calls.filter((call) => call.endsWith(": alive"))).toEqual([]);
    await harness.advance("10s");
    expect((await containerOf(harness, "a")).restartCount).toBe(1);
  });
});

describeSection("Readiness probe", () => {
  test("the readiness probe sets the container's readiness for its whole lifetime", async () => {
    const { harness } = await runPod({
      spec: { containers: [container("a", { readinessProbe: execProbe("ready", { failureThreshold: 1 }) })] },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
      options: { regressions: unreadyByProbe },
    });
    const isReady = async () => (await containerOf(harness, "a")).ready;
    await harness.advance("30s");
    expect(await isReady()).toBe(false);
    harness.runtime.commands.set("ready", {});
    await harness.advance("10s");
    expect(await isReady()).toBe(true);
    await harness.advance("60m");
    harness.runtime.commands.set("ready", { exitCode: 1 });
    await harness.advance("10s");
    expect(await isReady()).toBe(false);
    expect(formatTimeline(harness, /a stopped/)).toEqual([]);
  });
});
