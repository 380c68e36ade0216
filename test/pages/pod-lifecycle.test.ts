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
 * Its other sections are pages of their own by now, and have files of their own here: container-restarts, pod-condition, pod-termination.
 */
import { describe, expect, test } from "bun:test";
import { pods, secrets } from "../../kube/resource.ts";
import { allContainerStatuses } from "../../proto/kubernetes/containers.ts";
import type { Probe } from "../../proto/kubernetes/gen/types.ts";
import { makePod } from "../scenarios/stage.ts";
import {
  conditionOf,
  container,
  containerOf,
  happenings,
  runPod,
  setCondition,
  shownPod,
  sidecar,
  statusOf,
} from "./page.ts";

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
