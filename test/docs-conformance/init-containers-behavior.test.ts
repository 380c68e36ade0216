/*
 * https://kubernetes.io/docs/concepts/workloads/pods/init-containers/: how they behave in detail. What it says of others stands in
 * init-containers.test.ts.
 */
import { describe, expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { rest } from "../fakes/clock.ts";
import { conditionOf, container, containerOf, happenings, runPod, statusOf } from "./pod-case.ts";

const two = [container("first"), container("second")];
const short = { first: { exitsAfterMs: 2000 }, second: { exitsAfterMs: 3000 } };

describe("Detailed behavior", () => {
  test("none runs before the network is there", async () => {
    const { stage } = await runPod({
      spec: { initContainers: two },
      before(each) {
        each.networkProblem = "container runtime network not ready: NetworkReady=false";
      },
    });
    await stage.advance("1m");
    expect(stage.runtime.timeline).toEqual([]);
    stage.networkProblem = undefined;
    stage.agent.wakeAll();
    await stage.advance("1s");
    expect(happenings(stage, /first started/)).toHaveLength(1);
  });

  test("nor before the volumes are", async () => {
    const volumes = [{ name: "data", hostPath: { path: "/data", type: "Directory" } }] as const;
    const { stage } = await runPod({ spec: { initContainers: two, volumes } });
    await stage.advance("1m");
    expect(stage.runtime.timeline).toEqual([]);
    await stage.disk.at("/").makeFolder("/data", 0o755);
    await stage.advance("3m");
    expect(happenings(stage, /first started/)).toHaveLength(1);
  });

  test("they run in the order of the spec", async () => {
    const names = ["z", "m", "b", "y"];
    const programs = Object.fromEntries(names.map((name) => [name, { exitsAfterMs: 1000 }]));
    const { stage } = await runPod({ spec: { initContainers: names.map((name) => container(name)) }, programs });
    await stage.advance("1m");
    expect(happenings(stage, /started/).map((line) => line.split(" ")[1])).toEqual(["sandbox", ...names, "a"]);
  });

  test.each([
    ["fails to start", { startError: "no such file or directory" }, "RunContainerError"],
    ["exits with failure", { exitsAfterMs: 0, exitCode: 1 }, "Error"],
  ])("one that %s is tried again as the restart policy has it", async (_, program) => {
    for (const restartPolicy of ["Always", "OnFailure", "Never"] as const) {
      const { stage } = await runPod({ spec: { restartPolicy, initContainers: two }, programs: { first: program } });
      await stage.advance("9s");
      stage.runtime.programs.set("first", {});
      await stage.advance("60s");
      const [shown] = await stage.shown();
      const end =
        restartPolicy === "Never"
          ? /^web Failed: init first terminated/
          : /^web Pending: init first running \(restarts: 2\)/;
      expect(shown).toMatch(end);
    }
  });

  test("one that has succeeded is not, even where the policy is Always", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "Always", initContainers: two }, programs: short });
    await stage.advance("60m");
    expect(happenings(stage, /(first|second) started/)).toHaveLength(2);
  });

  test("the pod is not Ready before all have succeeded", async () => {
    const { stage } = await runPod({ spec: { initContainers: two } });
    await stage.exit("first", 0);
    await stage.advance("1m");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "False", reason: "ContainersNotReady" });
    await stage.exit("second", 0);
    await stage.advance("1s");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "True" });
  });

  test("while it is initialized it is Pending, and its condition Initialized False", async () => {
    const { stage } = await runPod({ spec: { initContainers: two } });
    await stage.exit("first", 0);
    await stage.advance("1m");
    expect((await statusOf(stage)).phase).toBe("Pending");
    expect(await conditionOf(stage, "Initialized")).toMatchObject({
      status: "False",
      reason: "ContainersNotInitialized",
      message: "containers with incomplete status: [second]",
    });
  });

  test("a pod that is restarted runs all of them again", async () => {
    const { stage } = await runPod({ spec: { initContainers: two }, programs: short });
    await stage.advance("10s");
    const [sandbox] = stage.runtime.sandboxes.keys();
    await stage.runtime.stopPodSandbox(sandbox!);
    await stage.advance("1m");
    expect(happenings(stage, /(first|second|a) started/)).toEqual([
      "0s first started",
      "2s second started",
      "5s a started",
      "10s first started",
      "12s second started",
      "15s a started",
    ]);
  });

  const setImage = async (stage: Awaited<ReturnType<typeof runPod>>["stage"], name: string) => {
    const body = { spec: { initContainers: [{ name, image: "busybox:2" }] } };
    await stage.kube.user.patch(pods("default"), "web", { type: "strategic", body });
    await rest();
  };

  test("another image of one that has run restarts nothing", async () => {
    const { stage } = await runPod({
      spec: { initContainers: two },
      programs: short,
      before: ({ runtime }) => void runtime.addImage("busybox:2"),
    });
    await stage.advance("10s");
    await setImage(stage, "first");
    await stage.advance("60m");
    expect(happenings(stage)).toEqual([
      "0s sandbox started",
      "0s first started",
      "2s first stopped",
      "2s second started",
      "5s second stopped",
      "5s a started",
    ]);
    expect(await stage.shown()).toEqual([
      "web Running, ready: init first terminated Completed 0, init second terminated Completed 0, a running",
    ]);
  });

  test("nor does that of one that runs", async () => {
    const { stage } = await runPod({
      spec: { initContainers: two },
      before: ({ runtime }) => void runtime.addImage("busybox:2"),
    });
    await setImage(stage, "first");
    await stage.advance("60m");
    expect(happenings(stage)).toEqual(["0s sandbox started", "0s first started"]);
  });

  test("another image of one that has not run yet is what it runs with", async () => {
    const { stage } = await runPod({
      spec: { initContainers: two },
      before: ({ runtime }) => void runtime.addImage("busybox:2"),
    });
    await setImage(stage, "second");
    await stage.exit("first", 0);
    await stage.advance("1s");
    expect((await containerOf(stage, "second")).image).toBe("busybox:2");
  });

  test("the deadline of a pod holds for init containers that fail for ever", async () => {
    const spec: Partial<PodSpec> = { activeDeadlineSeconds: 60, initContainers: two };
    const { stage } = await runPod({ spec, programs: { first: { exitsAfterMs: 0, exitCode: 1 } } });
    await stage.advance("2m");
    expect(await statusOf(stage)).toMatchObject({ phase: "Failed", reason: "DeadlineExceeded" });
    expect(Number.parseFloat(happenings(stage, /first started/).at(-1) ?? "")).toBeLessThan(60);
  });

  test("their time is a part of it", async () => {
    const spec: Partial<PodSpec> = { activeDeadlineSeconds: 60, initContainers: [container("first")] };
    const { stage } = await runPod({ spec, programs: { first: { exitsAfterMs: 50_000 } } });
    await stage.advance("2m");
    expect(happenings(stage, /a (started|stopped)/)).toEqual(["50s a started", "60s a stopped"]);
  });

  test("it ends a pod that runs as it should, too", async () => {
    const { stage } = await runPod({ spec: { activeDeadlineSeconds: 60, initContainers: two }, programs: short });
    await stage.advance("2m");
    expect(await stage.shown()).toEqual([
      "web Failed (DeadlineExceeded): init first terminated Completed 0, init second terminated Completed 0, a terminated Error 143",
    ]);
  });
});
