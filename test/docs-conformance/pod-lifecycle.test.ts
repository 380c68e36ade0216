/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
 *
 * Not tested, since it concerns others or is not implemented:
 *   Pod Lifecycle                 pods of a dead node are marked for deletion: the node lifecycle controller
 *   Pod lifetime                  a pod is scheduled once, after its scheduling gates are removed: the scheduler
 *   Pods and fault recovery       pods of a failed node are deleted, replacements are created on any node: controllers,
 *                                 the scheduler
 *   Pod phase                     Unknown, and Failed for the pods of a lost node: the node lifecycle controller;
 *                                 STATUS of `kubectl get` and `--force`: kubectl
 *   Resizing Pods                 in place: test/scenarios/resize.test.ts; by replacement: controllers
 *   Container probes              an unready pod's address is removed from its EndpointSlices: the EndpointSlice
 *                                 controller
 *   Pod behavior during kubelet   the Node's Ready condition distinguishes a restart from an outage, pods are evicted
 *   restarts                      from a lost node, `kubectl drain`: the node lifecycle controller, kubectl. The gate
 *                                 of the older behaviour (ChangeContainerStatusOnKubeletRestart) is not implemented,
 *                                 and a warning reports that
 * The other sections have their own files: container-restarts, container-states, kubelet-restarts, pod-condition,
 * pod-termination.
 */
import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import { makePod } from "../scenarios/harness.ts";
import {
  apiPod,
  conditionOf,
  container,
  containerOf,
  describeSection,
  formatTimeline,
  runPod,
  runTimedPod,
  setCondition,
  statusOf,
} from "./pod-case.ts";

const phasesOf = (statuses: readonly { readonly phase?: string }[]) => [...new Set(statuses.map(({ phase }) => phase))];

describeSection("Pod Lifecycle", () => {
  test("a pod is Pending, then Running, then Succeeded if all its containers succeeded", async () => {
    const { harness, statuses } = await runPod({
      spec: { restartPolicy: "Never" },
      programs: { a: { exitsAfterMs: 5000 } },
    });
    await harness.advance("10s");
    expect(phasesOf(statuses)).toEqual(["Pending", "Running", "Succeeded"]);
  });

  test("a pod is Failed if any of its containers failed", async () => {
    const spec = { restartPolicy: "Never" as const, containers: [container("a"), container("b")] };
    const { harness, statuses } = await runPod({
      spec,
      programs: { a: { exitsAfterMs: 1000 }, b: { exitsAfterMs: 2000, exitCode: 3 } },
    });
    await harness.advance("10s");
    expect(phasesOf(statuses)).toEqual(["Pending", "Running", "Failed"]);
  });

  test("a pod stays on its node until it ends according to its restart policy or is deleted", async () => {
    const { harness, statuses } = await runPod({ programs: { a: { exitsAfterMs: 60_000 } } });
    await harness.advance("60m");
    expect(phasesOf(statuses)).toEqual(["Pending", "Running"]);
    await harness.deletePod("web");
    await harness.advance("1s");
    expect([await harness.apiPods(), harness.nodeSnapshot()]).toEqual([[], []]);
  });
});

describeSection("Pod lifetime", () => {
  test("a failed container of a running pod is restarted", async () => {
    const { harness } = await runPod();
    await harness.exit("a", 1);
    await harness.advance("1s");
    expect(await containerOf(harness, "a")).toMatchObject({ restartCount: 1, ready: true, state: { running: {} } });
  });

  test("the node acts on each container according to its state", async () => {
    const spec = {
      restartPolicy: "OnFailure" as const,
      containers: ["done", "failed", "well"].map((name) => container(name)),
    };
    const { harness } = await runPod({ spec });
    await harness.exit("done", 0);
    await harness.exit("failed", 1);
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual([
      "web Running: done terminated Completed 0, failed running (restarts: 1), well running",
    ]);
  });

  test("the status has the standard conditions", async () => {
    const { harness } = await runPod();
    const types = (await statusOf(harness)).conditions?.map(({ type }) => type);
    expect(types).toEqual(["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]);
  });

  test("a custom condition of another client is kept", async () => {
    const { harness } = await runPod();
    await setCondition(harness, "example.com/fed", "True");
    await harness.exit("a", 1);
    await harness.advance("1m");
    expect(await conditionOf(harness, "example.com/fed")).toMatchObject({ status: "True" });
    expect((await containerOf(harness, "a")).restartCount).toBe(1);
  });

  test("a pod runs only once it is bound to the node", async () => {
    const { harness } = await runPod({ spec: { nodeName: "other" } });
    const pod = { metadata: { name: "late", namespace: "default" }, spec: { containers: [container("a")] } };
    await harness.kube.user.create(pods("default"), pod);
    await harness.advance("1m");
    expect(harness.runtime.timeline).toEqual([]);
    harness.kube.bind("default", "late", "node");
    await harness.advance("1s");
    expect(await harness.apiPods()).toContain("late Running, ready: a running");
  });

  test("a pod that is bound to another node does not run on this node", async () => {
    const { harness } = await runPod({ spec: { nodeName: "other" } });
    await harness.advance("1m");
    expect([harness.runtime.timeline, harness.podReports()]).toEqual([[], []]);
  });

  test("a pod runs until its containers exit", async () => {
    const { harness, expectTimeline } = await runTimedPod({ spec: { restartPolicy: "Never" } });
    await harness.advance("60m");
    expect((await statusOf(harness)).phase).toBe("Running");
    await harness.exit("a", 0);
    await harness.advance("1s");
    await expectTimeline(/started|stopped/, [
      "0s sandbox started",
      "0s a started",
      "3600s a stopped",
      "3600s sandbox stopped",
    ]);
  });

  test("a pod runs until it is deleted", async () => {
    const { harness, expectTimeline } = await runTimedPod();
    await harness.advance("60m");
    await harness.deletePod("web");
    await expectTimeline(/started|stopped/, [
      "0s sandbox started",
      "0s a started",
      "3600s a stopped",
      "3600s sandbox stopped",
    ]);
  });

  test("a pod that the node cannot start never starts", async () => {
    const { harness } = await runPod({ options: { maxPods: 0 } });
    harness.maxPods = 110;
    await harness.stop();
    await harness.start();
    await harness.advance("30m");
    expect(await harness.apiPods()).toEqual(["web Failed (OutOfpods): no containers"]);
    expect(harness.runtime.timeline).toEqual([]);
  });
});

describeSection("Pods and fault recovery", () => {
  test("only the failed container of a pod is restarted", async () => {
    const { harness } = await runPod({ spec: { containers: [container("a"), container("b")] } });
    const { containerID } = await containerOf(harness, "b");
    await harness.exit("a", 1);
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1), b running"]);
    expect((await containerOf(harness, "b")).containerID).toBe(containerID!);
  });

  test("a Failed pod is never started again", async () => {
    const { harness } = await runPod({ spec: { restartPolicy: "Never" } });
    await harness.exit("a", 1);
    await harness.advance("1s");
    const before = formatTimeline(harness);
    await harness.stop();
    await harness.start();
    await harness.advance("60m");
    expect(await harness.apiPods()).toEqual(["web Failed: a terminated Error 1"]);
    expect(formatTimeline(harness)).toEqual(before);
  });

  test("an evicted pod is stopped and removed", async () => {
    const { harness, statuses } = await runPod();
    // The eviction API sets DisruptionTarget and then deletes the pod.
    await setCondition(harness, "DisruptionTarget", "True");
    await harness.deletePod("web");
    await harness.advance("1s");
    expect([await harness.apiPods(), harness.nodeSnapshot()]).toEqual([[], []]);
    expect(statuses.at(-1)).toMatchObject({
      phase: "Failed",
      conditions: expect.arrayContaining([expect.objectContaining({ type: "DisruptionTarget", status: "True" })]),
    });
  });

  test("a replacement with the same name is another pod with another uid", async () => {
    const { harness, expectTimeline } = await runTimedPod();
    await harness.exit("a", 1);
    await harness.advance("1s");
    const uids = [(await apiPod(harness))?.metadata.uid];
    await harness.deletePod("web");
    await harness.advance("1s");
    await harness.apply("web");
    uids.push((await apiPod(harness))?.metadata.uid);
    expect(new Set(uids).size).toBe(2);
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
    await expectTimeline(/sandbox/, [
      "0s sandbox created",
      "0s sandbox started",
      "1s sandbox stopped",
      "1s sandbox deleted",
      "2s sandbox created",
      "2s sandbox started",
    ]);
  });
});

describeSection("Associated lifetimes", () => {
  const spec = {
    volumes: [{ name: "scratch", emptyDir: {} }],
    containers: [container("a", { volumeMounts: [{ name: "scratch", mountPath: "/scratch" }] })],
  };

  test("a volume exists as long as its pod, also across container restarts", async () => {
    const { harness } = await runPod({ spec });
    const [file] = [...harness.runtime.containers.values()].flatMap(({ config }) =>
      config.mounts
        .filter(({ containerPath }) => containerPath === "/scratch")
        .map(({ hostPath }) => `${hostPath}/file`),
    );
    await harness.disk.at("/").write(file!, "kept", 0o644);
    await harness.exit("a", 1);
    await harness.advance("1m");
    expect(await harness.disk.at("/").read(file!, 10)).toBe("kept");
  });

  test("a volume is destroyed with its pod and created again for a replacement", async () => {
    const { harness } = await runPod({ spec });
    const scratch = () => harness.disk.paths().filter((path) => /\/volumes\/.*scratch/.test(path));
    const [folder] = scratch();
    await harness.disk.at("/").write(`${folder}/file`, "lost", 0o644);
    await harness.deletePod("web");
    await harness.advance("1s");
    expect(scratch()).toEqual([]);
    await harness.apply("web", spec);
    expect(scratch()).toEqual([expect.not.stringContaining(folder!)]);
  });
});

describeSection("Pod phase", () => {
  test("a pod is Pending until all of its containers have been created", async () => {
    const missing = container("b", { image: "gone:1" });
    const { harness } = await runPod({ spec: { containers: [container("a"), missing] } });
    await harness.advance("10m");
    expect(await harness.apiPods()).toEqual(["web Pending: a running, b waiting ImagePullBackOff"]);
  });

  test("a pod is Pending while an image is being pulled", async () => {
    const { harness } = await runPod({
      spec: { containers: [container("a", { image: "slow:1" })] },
      before({ runtime }) {
        runtime.registry.set("slow:1", undefined);
        runtime.hang("pullImage");
      },
    });
    await harness.advance("10m");
    expect((await statusOf(harness)).phase).toBe("Pending");
  });

  test("a pod is Running once all containers have been created and one is running", async () => {
    const { statuses, expectTimeline } = await runTimedPod({
      spec: { containers: [container("a"), container("b")] },
    });
    const running = statuses.find(({ phase }) => phase === "Running");
    expect(running?.containerStatuses?.map(({ containerID }) => containerID !== undefined)).toEqual([true, true]);
    await expectTimeline(/started|stopped/, ["0s sandbox started", "0s a started", "0s b started"]);
  });

  test("a pod stays Running while containers restart", async () => {
    const { harness, statuses } = await runPod({ programs: { a: { exitsAfterMs: 1000, exitCode: 1 } } });
    await harness.advance("30m");
    expect(phasesOf(statuses)).toEqual(["Pending", "Running"]);
  });

  test("a pod is Succeeded when all containers have succeeded and will not restart", async () => {
    const spec = { restartPolicy: "OnFailure" as const, containers: [container("a"), container("b")] };
    const { harness } = await runPod({ spec, programs: { a: { exitsAfterMs: 1000 }, b: { exitsAfterMs: 20_000 } } });
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Running: a terminated Completed 0, b running"]);
    await harness.advance("30m");
    expect(await harness.apiPods()).toEqual(["web Succeeded: a terminated Completed 0, b terminated Completed 0"]);
  });

  test("a pod is Failed when all containers have exited, at least one of them not with 0", async () => {
    const spec = { restartPolicy: "Never" as const, containers: [container("a"), container("b")] };
    const { harness } = await runPod({ spec, programs: { a: { exitsAfterMs: 1000, exitCode: 2 } } });
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual(["web Running: a terminated Error 2, b running"]);
    await harness.exit("b", 0);
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Failed: a terminated Error 2, b terminated Completed 0"]);
  });

  test("a pod is Failed when the system has killed a container", async () => {
    const { harness } = await runPod({ spec: { restartPolicy: "Never" } });
    harness.runtime.exit(harness.containerIdOf("a"), 137, "OOMKilled");
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Failed: a terminated OOMKilled 137"]);
  });

  test("CrashLoopBackOff is a container's reason; the pod stays Running", async () => {
    const { harness } = await runPod({ programs: { a: { exitsAfterMs: 1000, exitCode: 1 } } });
    await harness.advance("5s");
    expect(await harness.apiPods()).toEqual(["web Running: a waiting CrashLoopBackOff (restarts: 1)"]);
  });

  test("a pod that is being deleted keeps its phase while its containers run", async () => {
    const { harness } = await runPod({ programs: { a: { onTerm: "ignores" } } });
    await harness.deletePod("web");
    await harness.advance("5s");
    const pod = await apiPod(harness);
    expect([pod?.metadata.deletionTimestamp !== undefined, pod?.status?.phase]).toEqual([true, "Running"]);
  });

  test("the default grace period is 30 seconds", async () => {
    const { harness, expectTimeline } = await runTimedPod({ programs: { a: { onTerm: "ignores" } } });
    await harness.deletePod("web");
    await harness.advance("1m");
    await expectTimeline(/stopped/, ["30s a stopped", "30s sandbox stopped"]);
  });

  test.each([
    [0, "Succeeded"],
    [3, "Failed"],
  ] as const)("a deleted pod whose container exits with %d is %s before it is removed", async (exitCode, phase) => {
    const { harness, statuses } = await runPod({ programs: { a: { onTerm: "ignores" } } });
    await harness.deletePod("web");
    await harness.exit("a", exitCode);
    await harness.advance("1s");
    expect([await apiPod(harness), statuses.at(-1)?.phase]).toEqual([undefined, phase]);
  });

  test("a removed static pod gets no final phase before its mirror pod is deleted", async () => {
    const { harness } = await runPod({ spec: { nodeName: "other" } });
    await harness.setManifests(makePod("fixed"));
    harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
    await harness.advance("1s");
    const lines: string[] = [];
    harness.kube.after.patch = async () => void lines.push(...(await harness.apiPods()));
    await harness.setManifests();
    await harness.advance("1s");
    expect(await apiPod(harness, "fixed-node")).toBeUndefined();
    expect(lines.filter((line) => /^fixed (Failed|Succeeded)/.test(line))).toEqual([]);
  });

  test("a force-deleted pod gets no final phase", async () => {
    const { harness, statuses } = await runPod();
    await harness.deletePod("web", 0);
    await harness.advance("1m");
    expect([phasesOf(statuses), harness.nodeSnapshot()]).toEqual([["Pending", "Running"], []]);
  });

  test("a force-deleted pod with a finalizer gets a final phase", async () => {
    const { harness } = await runPod({ spec: { nodeName: "other" } });
    const metadata = { name: "kept", namespace: "default", finalizers: ["example.com/keep"] };
    await harness.kube.user.create(pods("default"), {
      metadata,
      spec: { nodeName: "node", containers: [container("a")] },
    });
    await harness.advance("1s");
    await harness.deletePod("kept", 0);
    await harness.advance("1m");
    expect((await statusOf(harness, "kept")).phase).toBe("Failed");
  });
});
