/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-condition/
 *
 * Not tested, since it concerns others or is not implemented:
 *   Structure of a Pod condition    `lastProbeTime`: unused in Kubernetes
 *   Lifecycle Pod conditions        Services send traffic to ready pods: the EndpointSlice controller
 *   DisruptionTarget                PreemptionByScheduler, DeletionByTaintManager, EvictionByEvictionAPI,
 *                                   DeletionByPodGC, and resetting the condition: the control plane; failure policies:
 *                                   the Job controller. TerminationByKubelet comes with eviction, preemption and node
 *                                   shutdown, which are not part of this release yet
 *   PodResizePending and            test/scenarios/resize.test.ts
 *   PodResizeInProgress
 *   Enhanced Pod readiness          names of conditions: the API server's validation; setting them: their owners
 *   PodReadyToStartContainers       dynamic resource allocation is not part of this release yet. Images are also pulled
 *                                   before it is True: see "images are pulled while the sandbox is created" below
 */
import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { PodStatus } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import {
  apiPod,
  conditionOf,
  container,
  describeSection,
  formatTimeline,
  podIPOfNextSandbox,
  runPod,
  setCondition,
  statusOf,
} from "./pod-case.ts";

const lifecycle = ["PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"];
const readinessProbe = { exec: { command: ["ready"] }, periodSeconds: 5, failureThreshold: 1 };
const isTrue = ({ conditions = [] }: PodStatus, type: string) =>
  conditions.some((condition) => condition.type === type && condition.status === "True");

describeSection("Pod Conditions", () => {
  test("a pod can be Running and not ready", async () => {
    const { harness } = await runPod({
      spec: { containers: [container("a", { readinessProbe })] },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    await harness.advance("1m");
    expect((await statusOf(harness)).phase).toBe("Running");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "False" });
  });
});

describeSection("Structure of a Pod condition", () => {
  test("each condition has a type and a status; a reason is CamelCase and comes with a message", async () => {
    const { harness, statuses } = await runPod({
      spec: { initContainers: [container("i")] },
      programs: { i: { exitsAfterMs: 5000 }, a: { exitsAfterMs: 5000, exitCode: 1 } },
    });
    await harness.advance("1m");
    const all = statuses.flatMap(({ conditions = [] }) => conditions);
    for (const { type, status, reason, message } of all) {
      expect(lifecycle).toContain(type);
      expect(["True", "False"]).toContain(status);
      expect(reason ?? "None").toMatch(/^[A-Z][A-Za-z]+$/);
      expect(message === undefined).toBe(reason === undefined);
    }
    const reasons = all.flatMap(({ reason, message }) => (reason === undefined ? [] : [`${reason}: ${message}`]));
    expect(new Set(reasons)).toEqual(
      new Set([
        "ContainersNotInitialized: containers with incomplete status: [i]",
        "ContainersNotReady: containers with unready status: [a]",
      ]),
    );
  });

  test("lastTransitionTime is the time of the last change of status", async () => {
    const { harness } = await runPod({ spec: { restartPolicy: "Never" } });
    const start = harness.clock.now();
    const since = async (type: string) =>
      Date.parse((await conditionOf(harness, type))?.lastTransitionTime ?? "") - start;
    await harness.advance("60s");
    expect([await since("Ready"), await since("PodScheduled")]).toEqual([0, 0]);
    await harness.exit("a", 1);
    await harness.advance("10s");
    expect([await since("Ready"), await since("PodScheduled")]).toEqual([60_000, 0]);
  });

  test("observedGeneration is the pod's generation at the time of the report", async () => {
    const { harness } = await runPod({ before: ({ runtime }) => void runtime.addImage("busybox:2") });
    const generations = async () =>
      (await statusOf(harness)).conditions?.map(({ observedGeneration }) => observedGeneration);
    expect(await generations()).toEqual([1, 1, 1, 1, 1]);
    const body = { spec: { containers: [{ name: "a", image: "busybox:2" }] } };
    await harness.kube.user.patch(pods("default"), "web", { type: "strategic", body });
    await harness.advance("1s");
    expect((await apiPod(harness))?.metadata.generation).toBe(2);
    expect(await generations()).toEqual([2, 2, 2, 2, 2]);
    expect((await statusOf(harness)).observedGeneration).toBe(2);
  });
});

describeSection("Lifecycle Pod conditions", () => {
  test("the conditions become True in their documented order", async () => {
    const { harness, statuses } = await runPod({
      spec: { initContainers: [container("i")], containers: [container("a", { readinessProbe })] },
      programs: { i: { exitsAfterMs: 5000 } },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    await harness.advance("10s");
    harness.runtime.commands.set("ready", {});
    await harness.advance("10s");
    const whenTrue = lifecycle.map((type) => statuses.findIndex((status) => isTrue(status, type)));
    expect(whenTrue.every((index) => index >= 0)).toBe(true);
    expect(whenTrue).toEqual(whenTrue.toSorted((a, b) => a - b));
  });

  test("PodScheduled is True once the pod has a node", async () => {
    const { statuses } = await runPod();
    expect(statuses[0] !== undefined && isTrue(statuses[0], "PodScheduled")).toBe(true);
  });

  test("PodReadyToStartContainers is True once the sandbox runs with a network", async () => {
    const { harness } = await runPod({ before: ({ runtime }) => void runtime.hang("createContainer") });
    await harness.advance("2s");
    expect(await conditionOf(harness, "PodReadyToStartContainers")).toMatchObject({ status: "True" });
    expect((await statusOf(harness)).podIP).toBe("10.88.0.1");
  });

  test("Initialized is True once all init containers have succeeded", async () => {
    const { harness } = await runPod({ spec: { initContainers: [container("i"), container("j")] } });
    const isInitialized = async () => (await conditionOf(harness, "Initialized"))?.status;
    await harness.exit("i", 0);
    await harness.advance("1s");
    expect(await isInitialized()).toBe("False");
    await harness.exit("j", 0);
    await harness.advance("1s");
    expect(await isInitialized()).toBe("True");
  });

  test("a pod without init containers is Initialized before it has a sandbox", async () => {
    const { harness } = await runPod({ before: ({ runtime }) => void runtime.hang("runPodSandbox") });
    await harness.advance("5s");
    expect(await conditionOf(harness, "Initialized")).toMatchObject({ status: "True" });
    expect(await conditionOf(harness, "PodReadyToStartContainers")).toMatchObject({ status: "False" });
  });

  test("ContainersReady is True once all containers are ready", async () => {
    const { harness } = await runPod({
      spec: { containers: [container("a", { readinessProbe }), container("b")] },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    await harness.advance("10s");
    expect(await conditionOf(harness, "ContainersReady")).toMatchObject({
      status: "False",
      reason: "ContainersNotReady",
      message: "containers with unready status: [a]",
    });
    harness.runtime.commands.set("ready", {});
    await harness.advance("5s");
    expect(await conditionOf(harness, "ContainersReady")).toMatchObject({ status: "True" });
  });

  test("Ready is True for a running pod and False for a completed one", async () => {
    const { harness } = await runPod();
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "True" });
    await harness.deletePod("web");
    await harness.showExits();
    await harness.apply("web", { restartPolicy: "Never" });
    await harness.exit("a", 0);
    await harness.advance("1s");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "False", reason: "PodCompleted" });
  });
});

describeSection("PodReadyToStartContainers", () => {
  const volumes = [{ name: "data", hostPath: { path: "/data", type: "Directory" } }] as const;
  const isReady = "PodReadyToStartContainers";

  test("a pod that is not admitted gets no sandbox", async () => {
    const { harness } = await runPod({ options: { maxPods: 0 } });
    await harness.advance("1m");
    expect([harness.runtime.timeline, (await statusOf(harness)).reason]).toEqual([[], "OutOfpods"]);
  });

  test("a pod gets no sandbox before its volumes are mounted", async () => {
    const { harness } = await runPod({ spec: { volumes } });
    await harness.advance("1m");
    expect(harness.runtime.timeline).toEqual([]);
    expect(await conditionOf(harness, isReady)).toMatchObject({ status: "False" });
    await harness.disk.at("/").makeFolder("/data", 0o755);
    await harness.advance("2m");
    expect(await conditionOf(harness, isReady)).toMatchObject({ status: "True" });
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "True" });
  });

  test("the condition is False and no container is created before there is a sandbox", async () => {
    const { harness } = await runPod({ before: ({ runtime }) => void runtime.hang("runPodSandbox") });
    await harness.advance("1m");
    expect(await conditionOf(harness, isReady)).toMatchObject({ status: "False" });
    expect(harness.runtime.calls.filter((call) => call.startsWith("createContainer"))).toEqual([]);
  });

  test("images are pulled while the sandbox is created", async () => {
    const { harness } = await runPod({
      spec: { containers: [container("a", { image: "far:1" })] },
      before({ runtime }) {
        runtime.registry.set("far:1", undefined);
        runtime.hang("runPodSandbox");
      },
    });
    await harness.advance("1s");
    expect(harness.runtime.images.has("far:1")).toBe(true);
  });

  test("the condition is False after a reboot until there is a new sandbox with its own network", async () => {
    const { harness, statuses } = await runPod({ options: { regressions: podIPOfNextSandbox } });
    const { podIP } = await statusOf(harness);
    harness.kill();
    for (const id of harness.runtime.sandboxes.keys()) void harness.runtime.stopPodSandbox(id);
    const before = statuses.length;
    const resume = harness.runtime.hang("runPodSandbox");
    await harness.start();
    await harness.advance("2s");
    expect(statuses.slice(before).some((status) => !isTrue(status, isReady))).toBe(true);
    resume();
    await settlePromises();
    await harness.advance("15s");
    expect(await conditionOf(harness, isReady)).toMatchObject({ status: "True" });
    expect((await statusOf(harness)).podIP).not.toBe(podIP!);
  });

  test("the condition is False after the sandbox died until there is a new one", async () => {
    const { harness } = await runPod({ options: { regressions: podIPOfNextSandbox } });
    const [id] = harness.runtime.sandboxes.keys();
    const resume = harness.runtime.hang("runPodSandbox");
    harness.runtime.exitSandbox(id!);
    await harness.advance("2s");
    expect(await conditionOf(harness, isReady)).toMatchObject({ status: "False" });
    resume();
    await harness.advance("15s");
    expect(await conditionOf(harness, isReady)).toMatchObject({ status: "True" });
    expect(formatTimeline(harness, /sandbox started/)).toHaveLength(2);
  });
});

describeSection("DisruptionTarget", () => {
  test.each(["PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC"])(
    "%s is kept until the pod is removed",
    async (reason) => {
      const { harness, statuses } = await runPod();
      const conditions = [
        { type: "DisruptionTarget", status: "True", reason, lastTransitionTime: "2026-01-01T00:00:00Z" },
      ];
      const patch = { type: "strategic", subresource: "status", body: { status: { conditions } } } as const;
      await harness.kube.user.patch(pods("default"), "web", patch);
      await harness.deletePod("web");
      await harness.advance("1s");
      expect(statuses.at(-1)?.phase).toBe("Failed");
      expect(statuses.at(-1)?.conditions?.find(({ type }) => type === "DisruptionTarget")).toMatchObject({
        status: "True",
        reason,
      });
    },
  );

  test("a DisruptionTarget that another client sets to False stays False", async () => {
    const { harness } = await runPod();
    await setCondition(harness, "DisruptionTarget", "True");
    await setCondition(harness, "DisruptionTarget", "False");
    await harness.exit("a", 1);
    await harness.advance("1m");
    expect(await conditionOf(harness, "DisruptionTarget")).toMatchObject({ status: "False" });
  });

  test("a pod that is OOM-killed has no DisruptionTarget", async () => {
    const { harness } = await runPod({ spec: { restartPolicy: "Never" } });
    harness.runtime.exit(harness.containerIdOf("a"), 137, "OOMKilled");
    await harness.advance("1s");
    expect((await statusOf(harness)).phase).toBe("Failed");
    expect(await conditionOf(harness, "DisruptionTarget")).toBeUndefined();
  });
});

describeSection("Enhanced Pod readiness", () => {
  const gate = "example.com/fed";
  const spec = { readinessGates: [{ conditionType: gate }] };

  test("a pod is not ready while the condition of its readiness gate does not exist", async () => {
    const { harness } = await runPod({ spec });
    await harness.advance("1m");
    expect(await conditionOf(harness, "Ready")).toMatchObject({
      status: "False",
      reason: "ReadinessGatesNotReady",
      message: `corresponding condition of pod readiness gate "${gate}" does not exist.`,
    });
  });

  test("a pod is not ready while its readiness gate is False", async () => {
    const { harness } = await runPod({ spec });
    await setCondition(harness, gate, "False");
    await harness.advance("1m");
    expect(await conditionOf(harness, "Ready")).toMatchObject({
      status: "False",
      reason: "ReadinessGatesNotReady",
      message: `the status of pod readiness gate "${gate}" is not "True", but False`,
    });
  });

  test("readiness gates do not affect ContainersReady", async () => {
    const { harness } = await runPod({ spec });
    await harness.advance("1m");
    expect(await conditionOf(harness, "ContainersReady")).toMatchObject({ status: "True" });
  });

  test("a pod is ready when all of its readiness gates are True", async () => {
    const { harness } = await runPod({
      spec: { readinessGates: [{ conditionType: gate }, { conditionType: "example.com/seen" }] },
    });
    await setCondition(harness, gate, "True");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "False" });
    await setCondition(harness, "example.com/seen", "True");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "True" });
  });

  test("a pod with True readiness gates is not ready while its containers are not ready", async () => {
    const { harness } = await runPod({
      spec: { ...spec, containers: [container("a", { readinessProbe })] },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    await setCondition(harness, gate, "True");
    await harness.advance("10s");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "False", reason: "ContainersNotReady" });
    harness.runtime.commands.set("ready", {});
    await harness.advance("10s");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "True" });
  });
});
