// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
import { describe, expect, test } from "bun:test";
import { conditionOf, container, containerOf, happenings, runPod, shownPod, sidecar, statusOf } from "./page.ts";

describe("Pod phase", () => {
  test("Pending lasts while an image is being pulled", async () => {
    const { stage } = await runPod({
      spec: { containers: [container("a", { image: "slow:1" })] },
      before({ runtime }) {
        runtime.registry.set("slow:1", undefined);
        runtime.hang("pullImage");
      },
    });
    await stage.advance("10m");
    expect((await statusOf(stage)).phase).toBe("Pending");
  });

  test("Running begins when all containers have been created and at least one runs", async () => {
    const { stage, told } = await runPod({ spec: { containers: [container("a"), container("b")] } });
    const running = told.find(({ phase }) => phase === "Running");
    expect(running?.containerStatuses?.map(({ containerID }) => containerID !== undefined)).toEqual([true, true]);
    expect(happenings(stage)).toEqual(["0s sandbox started", "0s a started", "0s b started"]);
  });

  test("Succeeded means that all containers have ended well, and will not be restarted", async () => {
    const { stage } = await runPod({
      spec: {
        restartPolicy: "OnFailure",
        containers: [container("a"), container("b")],
        initContainers: [sidecar("s")],
      },
      programs: { a: { exitsAfterMs: 1000 }, b: { exitsAfterMs: 2000 } },
    });
    await stage.advance("1s");
    expect((await statusOf(stage)).phase).toBe("Running");
    await stage.advance("30m");
    expect((await statusOf(stage)).phase).toBe("Succeeded");
    expect((await containerOf(stage, "a")).restartCount).toBe(0);
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "False", reason: "PodCompleted" });
  });

  test("a deleted pod gets a terminal phase before it is gone from the API", async () => {
    const { stage, told } = await runPod();
    await stage.remove("web");
    await stage.advance("30s");
    expect(await shownPod(stage)).toBeUndefined();
    expect(told.at(-1)?.phase).toBe("Failed");
  });
});
