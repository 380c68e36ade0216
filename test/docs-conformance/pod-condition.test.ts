/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-condition/
 *
 * What it says of others:
 *   Structure of a Pod condition    `lastProbeTime`: nobody fills it in
 *   Lifecycle Pod conditions        a pod that is ready is a Service's to send to: the EndpointSlice controller
 *   DisruptionTarget                PreemptionByScheduler, DeletionByTaintManager, EvictionByEvictionAPI, DeletionByPodGC, and taking the
 *                                   condition back: the control plane; failure policies: Jobs. TerminationByKubelet comes with evictions,
 *                                   preemption and the shutdown of nodes, which are no part of this release yet
 *   PodResizePending and            resizes are no part of this release yet
 *   PodResizeInProgress
 *   Enhanced Pod readiness          the names of conditions: the API server's validation; setting them: whoever has invented them
 *   PodReadyToStartContainers       dynamic resources (DRA) are no part of this release yet. Images are pulled before it is True, too: see
 *                                   "images are fetched ahead" below
 */
import { describe, expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { PodStatus } from "../../proto/kubernetes/gen/types.ts";
import { rest } from "../fakes/clock.ts";
import { conditionOf, container, happenings, runPod, setCondition, shownPod, statusOf } from "./pod-case.ts";

const lifecycle = ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"];
const readinessProbe = { exec: { command: ["ready"] }, periodSeconds: 5, failureThreshold: 1 };
const isTrue = ({ conditions = [] }: PodStatus, type: string) =>
  conditions.some((condition) => condition.type === type && condition.status === "True");

describe("Pod Conditions", () => {
  test("a pod may be Running, and not ready", async () => {
    const { stage } = await runPod({
      spec: { containers: [container("a", { readinessProbe })] },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    await stage.advance("1m");
    expect((await statusOf(stage)).phase).toBe("Running");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "False" });
  });
});

describe("Structure of a Pod condition", () => {
  test("each has a type and a status, and those that are False for a reason say it in CamelCase, with a message", async () => {
    const { stage, told } = await runPod({
      spec: { initContainers: [container("i")] },
      programs: { i: { exitsAfterMs: 5000 }, a: { exitsAfterMs: 5000, exitCode: 1 } },
    });
    await stage.advance("1m");
    const all = told.flatMap(({ conditions = [] }) => conditions);
    for (const { type, status, reason, message } of all) {
      expect(lifecycle).toContain(type);
      expect(["True", "False"]).toContain(status);
      expect(reason ?? "None").toMatch(/^[A-Z][A-Za-z]+$/);
      expect(message === undefined).toBe(reason === undefined);
    }
    const said = all.flatMap(({ reason, message }) => (reason === undefined ? [] : [`${reason}: ${message}`]));
    expect(new Set(said)).toEqual(
      new Set([
        "ContainersNotInitialized: containers with incomplete status: [i]",
        "ContainersNotReady: containers with unready status: [a]",
      ]),
    );
  });

  test("lastTransitionTime is when it last went from one status to another", async () => {
    const { stage } = await runPod();
    const start = stage.clock.now();
    const since = async (type: string) =>
      Date.parse((await conditionOf(stage, type))?.lastTransitionTime ?? "") - start;
    await stage.advance("60s");
    expect([await since("Ready"), await since("PodScheduled")]).toEqual([0, 0]);
    await stage.exit("a", 1);
    await stage.advance("10s");
    expect([await since("Ready"), await since("PodScheduled")]).toEqual([60_000, 0]);
  });

  test("observedGeneration is the generation of the pod that it was recorded of", async () => {
    const { stage } = await runPod({ before: ({ runtime }) => void runtime.addImage("busybox:2") });
    const seen = async () => (await statusOf(stage)).conditions?.map(({ observedGeneration }) => observedGeneration);
    expect(await seen()).toEqual([1, 1, 1, 1, 1]);
    const body = { spec: { containers: [{ name: "a", image: "busybox:2" }] } };
    await stage.kube.user.patch(pods("default"), "web", { type: "strategic", body });
    await stage.advance("1s");
    expect((await shownPod(stage))?.metadata.generation).toBe(2);
    expect(await seen()).toEqual([2, 2, 2, 2, 2]);
    expect((await statusOf(stage)).observedGeneration).toBe(2);
  });
});

describe("Lifecycle Pod conditions", () => {
  test("they come true one after the other", async () => {
    const { stage, told } = await runPod({
      spec: { initContainers: [container("i")], containers: [container("a", { readinessProbe })] },
      programs: { i: { exitsAfterMs: 5000 } },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    await stage.advance("10s");
    stage.runtime.commands.set("ready", {});
    await stage.advance("10s");
    const whenTrue = lifecycle.map((type) => told.findIndex((status) => isTrue(status, type)));
    expect(whenTrue.every((index) => index >= 0)).toBe(true);
    expect(whenTrue).toEqual(whenTrue.toSorted((a, b) => a - b));
  });

  test("PodScheduled: the pod has a node", async () => {
    const { told } = await runPod();
    expect(told[0] !== undefined && isTrue(told[0], "PodScheduled")).toBe(true);
  });

  test("PodReadyToStartContainers: the sandbox is there, and has its network", async () => {
    const { stage } = await runPod({ before: ({ runtime }) => void runtime.hang("createContainer") });
    await stage.advance("2s");
    expect(await conditionOf(stage, "PodReadyToStartContainers")).toMatchObject({ status: "True" });
    expect((await statusOf(stage)).podIP).toBe("10.88.0.1");
  });

  test("Initialized: all init containers have succeeded", async () => {
    const { stage } = await runPod({ spec: { initContainers: [container("i"), container("j")] } });
    const isInitialized = async () => (await conditionOf(stage, "Initialized"))?.status;
    await stage.exit("i", 0);
    await stage.advance("1s");
    expect(await isInitialized()).toBe("False");
    await stage.exit("j", 0);
    await stage.advance("1s");
    expect(await isInitialized()).toBe("True");
  });

  test("a pod without init containers is initialized before it has a sandbox", async () => {
    const { stage } = await runPod({ before: ({ runtime }) => void runtime.hang("runPodSandbox") });
    await stage.advance("5s");
    expect(await conditionOf(stage, "Initialized")).toMatchObject({ status: "True" });
    expect(await conditionOf(stage, "PodReadyToStartContainers")).toMatchObject({ status: "False" });
  });

  test("ContainersReady: the readiness probes of all containers say so", async () => {
    const { stage } = await runPod({
      spec: { containers: [container("a", { readinessProbe }), container("b")] },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    await stage.advance("10s");
    expect(await conditionOf(stage, "ContainersReady")).toMatchObject({
      status: "False",
      reason: "ContainersNotReady",
      message: "containers with unready status: [a]",
    });
    stage.runtime.commands.set("ready", {});
    await stage.advance("5s");
    expect(await conditionOf(stage, "ContainersReady")).toMatchObject({ status: "True" });
  });

  test("Ready: it can serve", async () => {
    const { stage } = await runPod();
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "True" });
    await stage.remove("web");
    await stage.apply("web", { restartPolicy: "Never" });
    await stage.exit("a", 0);
    await stage.advance("1s");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "False", reason: "PodCompleted" });
  });
});

describe("PodReadyToStartContainers", () => {
  const volumes = [{ name: "data", hostPath: { path: "/data", type: "Directory" } }] as const;
  const isReady = "PodReadyToStartContainers";

  test("a pod that is not admitted gets no sandbox", async () => {
    const { stage } = await runPod({ options: { maxPods: 0 } });
    await stage.advance("1m");
    expect([stage.runtime.timeline, (await statusOf(stage)).reason]).toEqual([[], "OutOfpods"]);
  });

  test("nor one whose volumes are not there, before they are", async () => {
    const { stage } = await runPod({ spec: { volumes } });
    await stage.advance("1m");
    expect(stage.runtime.timeline).toEqual([]);
    expect(await conditionOf(stage, isReady)).toMatchObject({ status: "False" });
    await stage.disk.at("/").makeFolder("/data", 0o755);
    await stage.advance("2m");
    expect(await conditionOf(stage, isReady)).toMatchObject({ status: "True" });
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "True" });
  });

  test("it is False before there is a sandbox, and no container is created then", async () => {
    const { stage } = await runPod({ before: ({ runtime }) => void runtime.hang("runPodSandbox") });
    await stage.advance("1m");
    expect(await conditionOf(stage, isReady)).toMatchObject({ status: "False" });
    expect(stage.runtime.calls.filter((call) => call.startsWith("createContainer"))).toEqual([]);
  });

  test("images are fetched ahead, while the sandbox is made", async () => {
    const { stage } = await runPod({
      spec: { containers: [container("a", { image: "far:1" })] },
      before({ runtime }) {
        runtime.registry.set("far:1", undefined);
        runtime.hang("runPodSandbox");
      },
    });
    await stage.advance("1s");
    expect(stage.runtime.images.has("far:1")).toBe(true);
  });

  test("it is False again when the node has rebooted, until there is a new sandbox with a network of its own", async () => {
    const { stage, told } = await runPod();
    const { podIP } = await statusOf(stage);
    stage.kill();
    for (const id of stage.runtime.sandboxes.keys()) await stage.runtime.stopPodSandbox(id);
    const before = told.length;
    const resume = stage.runtime.hang("runPodSandbox");
    await stage.start();
    await stage.advance("2s");
    expect(told.slice(before).some((status) => !isTrue(status, isReady))).toBe(true);
    resume();
    await rest();
    await stage.advance("15s");
    expect(await conditionOf(stage, isReady)).toMatchObject({ status: "True" });
    expect((await statusOf(stage)).podIP).not.toBe(podIP!);
  });

  test("and when the sandbox alone has gone", async () => {
    const { stage } = await runPod();
    const [id] = stage.runtime.sandboxes.keys();
    const resume = stage.runtime.hang("runPodSandbox");
    stage.runtime.exitSandbox(id!);
    await stage.advance("2s");
    expect(await conditionOf(stage, isReady)).toMatchObject({ status: "False" });
    resume();
    await stage.advance("15s");
    expect(await conditionOf(stage, isReady)).toMatchObject({ status: "True" });
    expect(happenings(stage, /sandbox started/)).toHaveLength(2);
  });
});

describe("DisruptionTarget", () => {
  test.each(["PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC"])(
    "%s stays said until the pod is gone",
    async (reason) => {
      const { stage, told } = await runPod();
      const conditions = [
        { type: "DisruptionTarget", status: "True", reason, lastTransitionTime: "2026-01-01T00:00:00Z" },
      ];
      const patch = { type: "strategic", subresource: "status", body: { status: { conditions } } } as const;
      await stage.kube.user.patch(pods("default"), "web", patch);
      await stage.remove("web");
      await stage.advance("1s");
      expect(told.at(-1)?.phase).toBe("Failed");
      expect(told.at(-1)?.conditions?.find(({ type }) => type === "DisruptionTarget")).toMatchObject({
        status: "True",
        reason,
      });
    },
  );

  test("one that is taken back stays taken back", async () => {
    const { stage } = await runPod();
    await setCondition(stage, "DisruptionTarget", "True");
    await setCondition(stage, "DisruptionTarget", "False");
    await stage.exit("a", 1);
    await stage.advance("1m");
    expect(await conditionOf(stage, "DisruptionTarget")).toMatchObject({ status: "False" });
  });

  test("a pod that exceeds its own limits has none", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "Never" } });
    stage.runtime.exit(stage.idOf("a"), 137, "OOMKilled");
    await stage.advance("1s");
    expect((await statusOf(stage)).phase).toBe("Failed");
    expect(await conditionOf(stage, "DisruptionTarget")).toBeUndefined();
  });
});

describe("Enhanced Pod readiness", () => {
  const gate = "example.com/fed";
  const spec = { readinessGates: [{ conditionType: gate }] };

  test("a pod whose gate nobody has spoken of is not ready", async () => {
    const { stage } = await runPod({ spec });
    await stage.advance("1m");
    expect(await conditionOf(stage, "Ready")).toMatchObject({
      status: "False",
      reason: "ReadinessGatesNotReady",
      message: `corresponding condition of pod readiness gate "${gate}" does not exist.`,
    });
  });

  test("nor one whose gate is False", async () => {
    const { stage } = await runPod({ spec });
    await setCondition(stage, gate, "False");
    await stage.advance("1m");
    expect(await conditionOf(stage, "Ready")).toMatchObject({
      status: "False",
      reason: "ReadinessGatesNotReady",
      message: `the status of pod readiness gate "${gate}" is not "True", but False`,
    });
  });

  test("its containers are ready all the same", async () => {
    const { stage } = await runPod({ spec });
    await stage.advance("1m");
    expect(await conditionOf(stage, "ContainersReady")).toMatchObject({ status: "True" });
  });

  test("it is ready when all of its gates are True", async () => {
    const { stage } = await runPod({
      spec: { readinessGates: [{ conditionType: gate }, { conditionType: "example.com/seen" }] },
    });
    await setCondition(stage, gate, "True");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "False" });
    await setCondition(stage, "example.com/seen", "True");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "True" });
  });

  test("and its containers too", async () => {
    const { stage } = await runPod({
      spec: { ...spec, containers: [container("a", { readinessProbe })] },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    await setCondition(stage, gate, "True");
    await stage.advance("10s");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "False", reason: "ContainersNotReady" });
    stage.runtime.commands.set("ready", {});
    await stage.advance("10s");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "True" });
  });
});
