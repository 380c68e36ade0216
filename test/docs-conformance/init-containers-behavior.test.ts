/*
 * https://kubernetes.io/docs/concepts/workloads/pods/init-containers/: the section "Detailed behavior".
 * init-containers.test.ts lists the statements that are not tested.
 */
import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import {
  conditionOf,
  container,
  containerOf,
  describeSection,
  formatTimeline,
  pendingInNextSandbox,
  podIPOfNextSandbox,
  runPod,
  runTimedPod,
  shortExitLag,
  statusOf,
  unreadyAtDeadline,
} from "./pod-case.ts";

const two = [container("first"), container("second")];
const short = { first: { exitsAfterMs: 2000 }, second: { exitsAfterMs: 3000 } };

describeSection("Detailed behavior", () => {
  test("init containers wait for the network", async () => {
    const { harness } = await runPod({
      spec: { initContainers: two },
      async before(each) {
        each.runtime.conditions.NetworkReady = false;
        // The agent asks the runtime every ten seconds.
        await each.advance("10s");
      },
    });
    await harness.advance("1m");
    expect(harness.runtime.timeline).toEqual([]);
    harness.runtime.conditions.NetworkReady = true;
    await harness.advance("30s");
    expect(formatTimeline(harness, /first started/)).toHaveLength(1);
  });

  test("init containers wait for the volumes", async () => {
    const volumes = [{ name: "data", hostPath: { path: "/data", type: "Directory" } }] as const;
    const { harness } = await runPod({ spec: { initContainers: two, volumes } });
    await harness.advance("1m");
    expect(harness.runtime.timeline).toEqual([]);
    await harness.disk.at("/").makeFolder("/data", 0o755);
    await harness.advance("3m");
    expect(formatTimeline(harness, /first started/)).toHaveLength(1);
  });

  test("init containers run in the order of the spec", async () => {
    const names = ["z", "m", "b", "y"];
    const programs = Object.fromEntries(names.map((name) => [name, { exitsAfterMs: 1000 }]));
    const { harness } = await runPod({ spec: { initContainers: names.map((name) => container(name)) }, programs });
    await harness.advance("1m");
    expect(formatTimeline(harness, /started/).map((line) => line.split(" ")[1])).toEqual(["sandbox", ...names, "a"]);
  });

  test.each([
    ["fails to start", { startError: "no such file or directory" }, "RunContainerError"],
    ["exits with failure", { exitsAfterMs: 0, exitCode: 1 }, "Error"],
  ])("an init container that %s is retried according to the restart policy", async (_, program) => {
    for (const restartPolicy of ["Always", "OnFailure", "Never"] as const) {
      const podSpec = { restartPolicy, initContainers: two };
      const { harness } = await runPod({ spec: podSpec, programs: { first: program }, options: shortExitLag });
      await harness.advance("9s");
      harness.runtime.programs.set("first", {});
      await harness.advance("60s");
      const [shown] = await harness.apiPods();
      const end =
        restartPolicy === "Never"
          ? /^web Failed: init first terminated/
          : /^web Pending: init first running \(restarts: 2\)/;
      expect(shown).toMatch(end);
    }
  });

  test("an init container that has succeeded is not restarted, even with Always", async () => {
    const { harness } = await runPod({ spec: { restartPolicy: "Always", initContainers: two }, programs: short });
    await harness.advance("60m");
    expect(formatTimeline(harness, /(first|second) started/)).toHaveLength(2);
  });

  test("the pod is not Ready before all init containers have succeeded", async () => {
    const { harness } = await runPod({ spec: { initContainers: two } });
    await harness.exit("first", 0);
    await harness.advance("1m");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "False", reason: "ContainersNotReady" });
    await harness.exit("second", 0);
    await harness.advance("1s");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "True" });
  });

  test("a pod is Pending with Initialized False while its init containers run", async () => {
    const { harness } = await runPod({ spec: { initContainers: two } });
    await harness.exit("first", 0);
    await harness.advance("1m");
    expect((await statusOf(harness)).phase).toBe("Pending");
    expect(await conditionOf(harness, "Initialized")).toMatchObject({
      status: "False",
      reason: "ContainersNotInitialized",
      message: "containers with incomplete status: [second]",
    });
  });

  test("a pod that is restarted runs all init containers again", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers: two },
      programs: short,
      options: { regressions: [...podIPOfNextSandbox, ...pendingInNextSandbox] },
    });
    await harness.advance("10s");
    const [sandbox] = harness.runtime.sandboxes.keys();
    void harness.runtime.stopPodSandbox(sandbox!);
    await harness.advance("1m");
    await expectTimeline(/(first|second|a) started/, [
      "0s first started",
      "2s second started",
      "5s a started",
      "10s first started",
      "12s second started",
      "15s a started",
    ]);
  });

  const setImage = async (harness: Awaited<ReturnType<typeof runPod>>["harness"], name: string) => {
    const body = { spec: { initContainers: [{ name, image: "busybox:2" }] } };
    await harness.kube.user.patch(pods("default"), "web", { type: "strategic", body });
    await settlePromises();
  };

  test("a new image of an init container that has completed restarts nothing", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers: two },
      programs: short,
      before: ({ runtime }) => void runtime.addImage("busybox:2"),
    });
    await harness.advance("10s");
    await setImage(harness, "first");
    await harness.advance("60m");
    await expectTimeline(/started|stopped/, [
      "0s sandbox started",
      "0s first started",
      "2s first stopped",
      "2s second started",
      "5s second stopped",
      "5s a started",
    ]);
    expect(await harness.apiPods()).toEqual([
      "web Running, ready: init first terminated Completed 0, init second terminated Completed 0, a running",
    ]);
  });

  test("a new image of an init container that is running restarts nothing", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers: two },
      before: ({ runtime }) => void runtime.addImage("busybox:2"),
    });
    await setImage(harness, "first");
    await harness.advance("60m");
    await expectTimeline(/started|stopped/, ["0s sandbox started", "0s first started"]);
  });

  test("an init container that has not started yet uses its new image", async () => {
    const { harness } = await runPod({
      spec: { initContainers: two },
      before: ({ runtime }) => void runtime.addImage("busybox:2"),
    });
    await setImage(harness, "second");
    await harness.exit("first", 0);
    await harness.advance("1s");
    expect((await containerOf(harness, "second")).image).toBe("busybox:2");
  });

  test("activeDeadlineSeconds ends a pod whose init container keeps failing", async () => {
    const spec: Partial<PodSpec> = { activeDeadlineSeconds: 60, initContainers: two };
    const { harness } = await runPod({ spec, programs: { first: { exitsAfterMs: 0, exitCode: 1 } } });
    await harness.advance("2m");
    expect(await statusOf(harness)).toMatchObject({ phase: "Failed", reason: "DeadlineExceeded" });
    expect(Number.parseFloat(formatTimeline(harness, /first started/).at(-1) ?? "")).toBeLessThan(60);
  });

  test("activeDeadlineSeconds includes the time of init containers", async () => {
    const spec: Partial<PodSpec> = { activeDeadlineSeconds: 60, initContainers: [container("first")] };
    const { harness, expectTimeline } = await runTimedPod({
      spec,
      programs: { first: { exitsAfterMs: 50_000 } },
      options: { regressions: unreadyAtDeadline },
    });
    await harness.advance("2m");
    await expectTimeline(/a (started|stopped)/, ["50s a started", "60s a stopped"]);
  });

  test("activeDeadlineSeconds also ends a pod that is initialized and running", async () => {
    const { harness } = await runPod({
      spec: { activeDeadlineSeconds: 60, initContainers: two },
      programs: short,
      options: { regressions: unreadyAtDeadline },
    });
    await harness.advance("2m");
    expect(await harness.apiPods()).toEqual([
      "web Failed (DeadlineExceeded): init first terminated Completed 0, init second terminated Completed 0, a terminated Error 143",
    ]);
  });
});
