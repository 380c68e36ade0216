/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
 *
 * What it says of others:
 *   Pod Lifecycle                 pods of a node that has died are marked for deletion: the node lifecycle controller
 *   Pod lifetime                  a pod is scheduled once, and not before its scheduling gates are gone: the scheduler
 *   Pods and fault recovery       pods of a failed node are deleted, replacements are made and placed anywhere: controllers, the scheduler
 *   Pod phase                     Unknown, and Failed for all pods of a lost node: the node lifecycle controller; what `kubectl get` calls
 *                                 STATUS, and `--force`: kubectl
 *   Resizing Pods                 in place: no release of this agent yet; by replacement: controllers
 *   Container probes              an unready pod's address leaves its EndpointSlices: the EndpointSlice controller
 *   Pod behavior during kubelet   a restart is told from an outage by the Node's Ready condition, pods are evicted from a node that stays
 *   restarts                      away, `kubectl drain`: the node lifecycle controller, kubectl. The gate of the older behaviour
 *                                 (ChangeContainerStatusOnKubeletRestart): not carried out, which a warning says
 * Its other sections are pages of their own by now, or many, and have files of their own here: container-restarts, container-states,
 * kubelet-restarts, pod-condition, pod-termination.
 */
import { describe, expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import { makePod } from "../scenarios/harness.ts";
import {
  conditionOf,
  container,
  containerOf,
  happenings,
  runPod,
  setCondition,
  shownPod,
  statusOf,
} from "./pod-case.ts";

const phasesOf = (told: readonly { readonly phase?: string }[]) => [...new Set(told.map(({ phase }) => phase))];

describe("Pod Lifecycle", () => {
  test("a pod is Pending, then Running, then Succeeded if all its containers ended well", async () => {
    const { stage, told } = await runPod({ spec: { restartPolicy: "Never" }, programs: { a: { exitsAfterMs: 5000 } } });
    await stage.advance("10s");
    expect(phasesOf(told)).toEqual(["Pending", "Running", "Succeeded"]);
  });

  test("and Failed if any of them ended in failure", async () => {
    const spec = { restartPolicy: "Never" as const, containers: [container("a"), container("b")] };
    const { stage, told } = await runPod({
      spec,
      programs: { a: { exitsAfterMs: 1000 }, b: { exitsAfterMs: 2000, exitCode: 3 } },
    });
    await stage.advance("10s");
    expect(phasesOf(told)).toEqual(["Pending", "Running", "Failed"]);
  });

  test("a pod stays on its node until it has ended by its restart policy, or is deleted", async () => {
    const { stage, told } = await runPod({ programs: { a: { exitsAfterMs: 60_000 } } });
    await stage.advance("60m");
    expect(phasesOf(told)).toEqual(["Pending", "Running"]);
    await stage.remove("web");
    await stage.advance("1s");
    expect([await stage.shown(), stage.scene()]).toEqual([[], []]);
  });
});

describe("Pod lifetime", () => {
  test("while a pod runs, its containers are restarted when they fail", async () => {
    const { stage } = await runPod();
    await stage.exit("a", 1);
    await stage.advance("1s");
    expect(await containerOf(stage, "a")).toMatchObject({ restartCount: 1, ready: true, state: { running: {} } });
  });

  test("what is done about a container follows from its state", async () => {
    const spec = {
      restartPolicy: "OnFailure" as const,
      containers: ["done", "failed", "well"].map((name) => container(name)),
    };
    const { stage } = await runPod({ spec });
    await stage.exit("done", 0);
    await stage.exit("failed", 1);
    await stage.advance("1s");
    expect(await stage.shown()).toEqual([
      "web Running: done terminated Completed 0, failed running (restarts: 1), well running",
    ]);
  });

  test("the status has a set of conditions", async () => {
    const { stage } = await runPod();
    const types = (await statusOf(stage)).conditions?.map(({ type }) => type);
    expect(types).toEqual(["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]);
  });

  test("others may add to them what they know, and it stays", async () => {
    const { stage } = await runPod();
    await setCondition(stage, "example.com/fed", "True");
    await stage.exit("a", 1);
    await stage.advance("1m");
    expect(await conditionOf(stage, "example.com/fed")).toMatchObject({ status: "True" });
    expect((await containerOf(stage, "a")).restartCount).toBe(1);
  });

  test("a pod that is bound to no node yet does not run, and does once it is bound", async () => {
    const { stage } = await runPod({ spec: { nodeName: "other" } });
    const pod = { metadata: { name: "late", namespace: "default" }, spec: { containers: [container("a")] } };
    await stage.kube.user.create(pods("default"), pod);
    await stage.advance("1m");
    expect(stage.runtime.timeline).toEqual([]);
    stage.kube.bind("default", "late", "node");
    await stage.advance("1s");
    expect(await stage.shown()).toContain("late Running, ready: a running");
  });

  test("a pod that is bound to another node does not run here", async () => {
    const { stage } = await runPod({ spec: { nodeName: "other" } });
    await stage.advance("1m");
    expect([stage.runtime.timeline, stage.pods()]).toEqual([[], []]);
  });

  test("a pod runs until it stops", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "Never" } });
    await stage.advance("60m");
    expect((await statusOf(stage)).phase).toBe("Running");
    await stage.exit("a", 0);
    await stage.advance("1s");
    expect(happenings(stage)).toEqual([
      "0s sandbox started",
      "0s a started",
      "3600s a stopped",
      "3600s sandbox stopped",
    ]);
  });

  test("or until it is terminated", async () => {
    const { stage } = await runPod();
    await stage.advance("60m");
    await stage.remove("web");
    expect(happenings(stage)).toEqual([
      "0s sandbox started",
      "0s a started",
      "3600s a stopped",
      "3600s sandbox stopped",
    ]);
  });

  test("a pod that the node cannot start never starts", async () => {
    const { stage } = await runPod({ options: { maxPods: 0 } });
    stage.maxPods = 110;
    await stage.stop();
    await stage.start();
    await stage.advance("30m");
    expect(await stage.shown()).toEqual(["web Failed (OutOfpods): no containers"]);
    expect(stage.runtime.timeline).toEqual([]);
  });
});

describe("Pods and fault recovery", () => {
  test("of a pod only the container that has failed is restarted", async () => {
    const { stage } = await runPod({ spec: { containers: [container("a"), container("b")] } });
    const { containerID } = await containerOf(stage, "b");
    await stage.exit("a", 1);
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running (restarts: 1), b running"]);
    expect((await containerOf(stage, "b")).containerID).toBe(containerID!);
  });

  test("a pod that has failed for good is not healed", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "Never" } });
    await stage.exit("a", 1);
    await stage.advance("1s");
    const before = happenings(stage);
    await stage.stop();
    await stage.start();
    await stage.advance("60m");
    expect(await stage.shown()).toEqual(["web Failed: a terminated Error 1"]);
    expect(happenings(stage)).toEqual(before);
  });

  test("a pod does not survive its eviction", async () => {
    const { stage, told } = await runPod();
    // What the eviction API does: it says why, and deletes.
    await setCondition(stage, "DisruptionTarget", "True");
    await stage.remove("web");
    await stage.advance("1s");
    expect([await stage.shown(), stage.scene()]).toEqual([[], []]);
    expect(told.at(-1)).toMatchObject({
      phase: "Failed",
      conditions: expect.arrayContaining([expect.objectContaining({ type: "DisruptionTarget", status: "True" })]),
    });
  });

  test("a replacement may have the same name, and is another pod with another uid", async () => {
    const { stage } = await runPod();
    await stage.exit("a", 1);
    await stage.advance("1s");
    const uids = [(await shownPod(stage))?.metadata.uid];
    await stage.remove("web");
    await stage.advance("1s");
    await stage.apply("web");
    uids.push((await shownPod(stage))?.metadata.uid);
    expect(new Set(uids).size).toBe(2);
    expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
    expect(happenings(stage, /sandbox/)).toEqual([
      "0s sandbox created",
      "0s sandbox started",
      "1s sandbox stopped",
      "1s sandbox deleted",
      "2s sandbox created",
      "2s sandbox started",
    ]);
  });
});

describe("Associated lifetimes", () => {
  const spec = {
    volumes: [{ name: "scratch", emptyDir: {} }],
    containers: [container("a", { volumeMounts: [{ name: "scratch", mountPath: "/scratch" }] })],
  };

  test("a volume is there as long as its pod, whatever becomes of the containers", async () => {
    const { stage } = await runPod({ spec });
    const [file] = [...stage.runtime.containers.values()].flatMap(({ config }) =>
      config.mounts
        .filter(({ containerPath }) => containerPath === "/scratch")
        .map(({ hostPath }) => `${hostPath}/file`),
    );
    await stage.disk.at("/").write(file!, "kept", 0o644);
    await stage.exit("a", 1);
    await stage.advance("1m");
    expect(await stage.disk.at("/").read(file!, 10)).toBe("kept");
  });

  test("with the pod it is destroyed, and made anew for a replacement", async () => {
    const { stage } = await runPod({ spec });
    const scratch = () => stage.disk.paths().filter((path) => path.includes("scratch"));
    const [folder] = scratch();
    await stage.disk.at("/").write(`${folder}/file`, "lost", 0o644);
    await stage.remove("web");
    await stage.advance("1s");
    expect(scratch()).toEqual([]);
    await stage.apply("web", spec);
    expect(scratch()).toEqual([expect.not.stringContaining(folder!)]);
  });
});

describe("Pod phase", () => {
  test("Pending lasts as long as one of the containers has not been set up", async () => {
    const missing = container("b", { image: "gone:1" });
    const { stage } = await runPod({ spec: { containers: [container("a"), missing] } });
    await stage.advance("10m");
    expect(await stage.shown()).toEqual(["web Pending: a running, b waiting ImagePullBackOff"]);
  });

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

  test("Running begins when all containers have been created, and at least one runs", async () => {
    const { stage, told } = await runPod({ spec: { containers: [container("a"), container("b")] } });
    const running = told.find(({ phase }) => phase === "Running");
    expect(running?.containerStatuses?.map(({ containerID }) => containerID !== undefined)).toEqual([true, true]);
    expect(happenings(stage)).toEqual(["0s sandbox started", "0s a started", "0s b started"]);
  });

  test("Running goes on while containers are being restarted", async () => {
    const { stage, told } = await runPod({ programs: { a: { exitsAfterMs: 1000, exitCode: 1 } } });
    await stage.advance("30m");
    expect(phasesOf(told)).toEqual(["Pending", "Running"]);
  });

  test("Succeeded means that all containers have ended well, and will not be restarted", async () => {
    const spec = { restartPolicy: "OnFailure" as const, containers: [container("a"), container("b")] };
    const { stage } = await runPod({ spec, programs: { a: { exitsAfterMs: 1000 }, b: { exitsAfterMs: 2000 } } });
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Running: a terminated Completed 0, b running"]);
    await stage.advance("30m");
    expect(await stage.shown()).toEqual(["web Succeeded: a terminated Completed 0, b terminated Completed 0"]);
  });

  test("Failed means that all containers have ended, and one of them with another code than 0", async () => {
    const spec = { restartPolicy: "Never" as const, containers: [container("a"), container("b")] };
    const { stage } = await runPod({ spec, programs: { a: { exitsAfterMs: 1000, exitCode: 2 } } });
    await stage.advance("1m");
    expect(await stage.shown()).toEqual(["web Running: a terminated Error 2, b running"]);
    await stage.exit("b", 0);
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Failed: a terminated Error 2, b terminated Completed 0"]);
  });

  test("or that the system has ended one", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "Never" } });
    stage.runtime.exit(stage.idOf("a"), 137, "OOMKilled");
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Failed: a terminated OOMKilled 137"]);
  });

  test("CrashLoopBackOff is the state of a container, and no phase", async () => {
    const { stage } = await runPod({ programs: { a: { exitsAfterMs: 1000, exitCode: 1 } } });
    await stage.advance("5s");
    expect(await stage.shown()).toEqual(["web Running: a waiting CrashLoopBackOff (restarts: 1)"]);
  });

  test("a pod that is being deleted keeps its phase while its containers run", async () => {
    const { stage } = await runPod({ programs: { a: { onTerm: "ignores" } } });
    await stage.remove("web");
    await stage.advance("5s");
    const pod = await shownPod(stage);
    expect([pod?.metadata.deletionTimestamp !== undefined, pod?.status?.phase]).toEqual([true, "Running"]);
  });

  test("a pod that asks for no other grace has 30 seconds to end", async () => {
    const { stage } = await runPod({ programs: { a: { onTerm: "ignores" } } });
    await stage.remove("web");
    await stage.advance("1m");
    expect(happenings(stage, /stopped/)).toEqual(["30s a stopped", "30s sandbox stopped"]);
  });

  test.each([
    [0, "Succeeded"],
    [3, "Failed"],
  ] as const)("a deleted pod whose container ends with code %d is %s before it is gone", async (exitCode, phase) => {
    const { stage, told } = await runPod({ programs: { a: { onTerm: "ignores" } } });
    await stage.remove("web");
    await stage.exit("a", exitCode);
    await stage.advance("1s");
    expect([await shownPod(stage), told.at(-1)?.phase]).toEqual([undefined, phase]);
  });

  test("but for static pods", async () => {
    const { stage } = await runPod({ spec: { nodeName: "other" } });
    await stage.offer(makePod("fixed"));
    stage.agent.cluster?.node({ metadata: { uid: "node-uid" }, spec: {} });
    await stage.advance("1s");
    const lines: string[] = [];
    stage.kube.after.patch = async () => void lines.push(...(await stage.shown()));
    await stage.offer();
    await stage.advance("1s");
    expect(await shownPod(stage, "fixed-node")).toBeUndefined();
    expect(lines.filter((line) => /^fixed (Failed|Succeeded)/.test(line))).toEqual([]);
  });

  test("and for those that are deleted by force", async () => {
    const { stage, told } = await runPod();
    await stage.remove("web", 0);
    await stage.advance("1m");
    expect([phasesOf(told), stage.scene()]).toEqual([["Pending", "Running"], []]);
  });

  test("unless a finalizer keeps them", async () => {
    const { stage } = await runPod({ spec: { nodeName: "other" } });
    const metadata = { name: "kept", namespace: "default", finalizers: ["example.com/keep"] };
    await stage.kube.user.create(pods("default"), {
      metadata,
      spec: { nodeName: "node", containers: [container("a")] },
    });
    await stage.advance("1s");
    await stage.remove("kept", 0);
    await stage.advance("1m");
    expect((await statusOf(stage, "kept")).phase).toBe("Failed");
  });
});
