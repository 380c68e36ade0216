/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/: the states of containers, and their probes. What it says of others stands in
 * pod-lifecycle.test.ts.
 */
import { describe, expect, test } from "bun:test";
import { secrets } from "../../kube/resource.ts";
import { allContainerStatuses } from "../../proto/kubernetes/containers.ts";
import type { Probe } from "../../proto/kubernetes/gen/types.ts";
import { container, containerOf, happenings, runPod, sidecar } from "./pod-case.ts";

describe("Container states", () => {
  test("a node begins with the containers of a pod as soon as it is bound, by its container runtime", async () => {
    const { stage } = await runPod();
    expect(stage.runtime.calls.filter((call) => /^(run|create|start)/.test(call))).toEqual([
      "runPodSandbox default/web #0",
      "createContainer default/web/a #0",
      "startContainer default/web/a #0",
    ]);
  });

  test("a container is in one of three states", async () => {
    const spec = { initContainers: [container("i"), sidecar("s")], containers: [container("a")] };
    const programs = { i: { exitsAfterMs: 1000 }, a: { exitsAfterMs: 5000, exitCode: 1 } };
    const { stage, told } = await runPod({ spec, programs });
    await stage.advance("1m");
    const states = told.flatMap((status) => allContainerStatuses(status).map(({ state = {} }) => Object.keys(state)));
    expect(new Set(states.map((keys) => keys.join()))).toEqual(new Set(["waiting", "running", "terminated"]));
  });
});

describe("Waiting", () => {
  test("a container waits while its image is being pulled", async () => {
    const { stage } = await runPod({
      spec: { containers: [container("a", { image: "slow:1" })] },
      before({ runtime }) {
        runtime.registry.set("slow:1", undefined);
        runtime.hang("pullImage");
      },
    });
    await stage.advance("1m");
    expect((await containerOf(stage, "a")).state).toMatchObject({ waiting: { reason: "ContainerCreating" } });
  });

  test("and while it has not the data of its Secret", async () => {
    const env = [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "login", key: "token" } } }];
    const { stage } = await runPod({ spec: { containers: [container("a", { env })] } });
    await stage.advance("1m");
    expect((await containerOf(stage, "a")).state).toMatchObject({ waiting: { reason: "CreateContainerConfigError" } });
    const metadata = { name: "login", namespace: "default" };
    await stage.kube.user.create(secrets("default"), { metadata, data: { token: "MQ==" } });
    await stage.advance("1s");
    expect((await containerOf(stage, "a")).state).toMatchObject({ running: {} });
  });

  test("a reason says why", async () => {
    const spec = {
      initContainers: [container("i")],
      containers: [container("a"), container("b", { image: "gone:1" })],
    };
    const programs = { i: { exitsAfterMs: 1000 }, a: { exitsAfterMs: 5000, exitCode: 1 } };
    const { stage, told } = await runPod({ spec, programs });
    await stage.advance("5m");
    const reasons = told.flatMap((status) =>
      allContainerStatuses(status).flatMap(({ state }) => (state?.waiting ? [state.waiting.reason] : [])),
    );
    expect(new Set(reasons)).toEqual(
      new Set(["PodInitializing", "ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"]),
    );
  });
});

describe("Running", () => {
  test("a container that runs says since when", async () => {
    const { stage } = await runPod({ programs: { a: { exitsAfterMs: 5000 } } });
    await stage.advance("7s");
    const since = (await containerOf(stage, "a")).state?.running?.startedAt;
    expect(Date.parse(since ?? "")).toBe(stage.clock.now() - 2000);
  });

  test("a container whose postStart hook has not finished does not run yet", async () => {
    const lifecycle = { postStart: { exec: { command: ["warm-up"] } } };
    const { stage } = await runPod({
      spec: { containers: [container("a", { lifecycle })] },
      before: ({ runtime }) => void runtime.commands.set("warm-up", { lastsMs: 5000 }),
    });
    await stage.advance("4s");
    expect(await stage.shown()).toEqual(["web Pending: a waiting ContainerCreating"]);
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
  });
});

describe("Terminated", () => {
  test.each([
    [0, "Completed"],
    [7, "Error"],
  ])(
    "a container that has ended with code %d says so, with a reason, its start and its end",
    async (exitCode, reason) => {
      const { stage } = await runPod({
        spec: { restartPolicy: "Never" },
        programs: { a: { exitsAfterMs: 5000, exitCode } },
      });
      const startedAt = (await containerOf(stage, "a")).state?.running?.startedAt ?? "";
      await stage.advance("1m");
      const finishedAt = new Date(Date.parse(startedAt) + 5000).toISOString().replace(".000", "");
      expect((await containerOf(stage, "a")).state).toEqual({
        terminated: { exitCode, reason, startedAt, finishedAt, containerID: `fake://${stage.idOf("a")}` },
      });
    },
  );

  test("a preStop hook runs before its container has ended", async () => {
    const lifecycle = { preStop: { exec: { command: ["drain"] } } };
    const { stage } = await runPod({
      spec: { containers: [container("a", { lifecycle })] },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 4000 }),
    });
    await stage.remove("web");
    await stage.advance("3s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
    await stage.advance("30s");
    expect(happenings(stage, /a stopped/)).toEqual(["4s a stopped"]);
    expect(stage.runtime.calls).toContain("execSync default/web/a #0: drain");
  });
});

describe("How Pods handle problems with containers", () => {
  test("what the restart policy says of an exit is done", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "OnFailure" } });
    await stage.exit("a", 1);
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running (restarts: 1)"]);
    await stage.exit("a", 0);
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Succeeded: a terminated Completed 0 (restarts: 1)"]);
  });
});

const asking = (command: string, more: Probe = {}): Probe => ({ exec: { command: [command] }, ...more });

describe("Container probes", () => {
  test("a container is asked again and again", async () => {
    const spec = { containers: [container("a", { livenessProbe: asking("alive", { periodSeconds: 5 }) })] };
    const { stage } = await runPod({ spec });
    await stage.advance("59s");
    expect(stage.runtime.calls.filter((call) => call.endsWith(": alive"))).toHaveLength(12);
  });
});

describe("Startup probe", () => {
  const spec = {
    containers: [
      container("a", {
        startupProbe: asking("up", { failureThreshold: 3 }),
        livenessProbe: asking("alive"),
        readinessProbe: asking("ready"),
      }),
    ],
  };
  const asked = (calls: readonly string[]) => [
    ...new Set(calls.flatMap((call) => /#\d+: (\w+)$/.exec(call)?.[1] ?? [])),
  ];

  test("nothing else is asked until it succeeds, and then it is not asked again", async () => {
    const { stage } = await runPod({ spec, before: ({ runtime }) => void runtime.commands.set("up", { exitCode: 1 }) });
    await stage.advance("15s");
    expect(asked(stage.runtime.calls)).toEqual(["up"]);
    stage.runtime.commands.set("up", {});
    await stage.advance("10s");
    stage.runtime.calls.length = 0;
    await stage.advance("1m");
    expect(asked(stage.runtime.calls).toSorted()).toEqual(["alive", "ready"]);
  });

  test.each(["Always", "Never"] as const)(
    "where it fails the container is killed, and restartPolicy %s decides",
    async (restartPolicy) => {
      const { stage } = await runPod({
        spec: { ...spec, restartPolicy },
        before: ({ runtime }) => void runtime.commands.set("up", { exitCode: 1 }),
      });
      await stage.advance("21s");
      expect(happenings(stage, /a stopped/)).toEqual(["20s a stopped"]);
      const end = { Always: "web Running: a running (restarts: 1)", Never: "web Failed: a terminated Error 143" };
      expect(await stage.shown()).toEqual([end[restartPolicy]]);
    },
  );
});

describe("Liveness probe", () => {
  test("a container that fails it more often than is tolerated is restarted", async () => {
    const { stage } = await runPod({
      spec: { containers: [container("a", { livenessProbe: asking("alive", { failureThreshold: 2 }) })] },
      before: ({ runtime }) => void runtime.commands.set("alive", { exitCode: 1 }),
    });
    await stage.advance("11s");
    expect(happenings(stage, / a (started|stopped)/)).toEqual(["0s a started", "10s a stopped", "10s a started"]);
  });

  test("it does not wait for readiness", async () => {
    const probes = { livenessProbe: asking("alive", { failureThreshold: 1 }), readinessProbe: asking("ready") };
    const { stage } = await runPod({
      spec: { containers: [container("a", probes)] },
      before({ runtime }) {
        runtime.commands.set("ready", { exitCode: 1 });
        runtime.commands.set("alive", { exitCode: 1 });
      },
    });
    await stage.advance("1s");
    expect((await containerOf(stage, "a")).restartCount).toBe(1);
  });

  test("but for initialDelaySeconds", async () => {
    const livenessProbe = asking("alive", { failureThreshold: 1, initialDelaySeconds: 25 });
    const { stage } = await runPod({
      spec: { containers: [container("a", { livenessProbe })] },
      before: ({ runtime }) => void runtime.commands.set("alive", { exitCode: 1 }),
    });
    await stage.advance("24s");
    expect(stage.runtime.calls.filter((call) => call.endsWith(": alive"))).toEqual([]);
    await stage.advance("10s");
    expect((await containerOf(stage, "a")).restartCount).toBe(1);
  });
});

describe("Readiness probe", () => {
  test("it says when a container is ready, and is asked all its life", async () => {
    const { stage } = await runPod({
      spec: { containers: [container("a", { readinessProbe: asking("ready", { failureThreshold: 1 }) })] },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    const isReady = async () => (await containerOf(stage, "a")).ready;
    await stage.advance("30s");
    expect(await isReady()).toBe(false);
    stage.runtime.commands.set("ready", {});
    await stage.advance("10s");
    expect(await isReady()).toBe(true);
    await stage.advance("60m");
    stage.runtime.commands.set("ready", { exitCode: 1 });
    await stage.advance("10s");
    expect(await isReady()).toBe(false);
    expect(happenings(stage, /a stopped/)).toEqual([]);
  });
});
