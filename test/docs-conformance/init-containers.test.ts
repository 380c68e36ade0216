/*
 * https://kubernetes.io/docs/concepts/workloads/pods/init-containers/
 *
 * How they behave in detail is in init-containers-behavior.test.ts. What the page says of others:
 *   Differences from regular containers   no probes and no hooks: the API server's validation, and for static pods that of manifests
 *   Using init containers                 how to make use of them: whoever writes them
 *   Detailed behavior                     that their ports belong to no Service, what of them may be changed, that names are unique:
 *                                         the EndpointSlice controller, the API server. What their code should bear: whoever writes it
 *   Resource sharing within containers    scheduling and quotas by effective requests: the scheduler, the API server
 *   Init containers and Linux cgroups     a pod's own cgroup comes with the hierarchy of cgroups, which is no part of this release yet
 */
import { describe, expect, test } from "bun:test";
import { secrets } from "../../kube/resource.ts";
import type { Container } from "../../proto/kubernetes/gen/types.ts";
import { container, containerOf, happenings, runPod, shownPod, statusOf } from "./pod-case.ts";

const two = [container("first"), container("second")];
const short = { first: { exitsAfterMs: 2000 }, second: { exitsAfterMs: 3000 } };
const limits = (cpu: string): Pick<Container, "resources"> => ({ resources: { requests: { cpu }, limits: { cpu } } });

describe("Init Containers", () => {
  test("they run before the containers of the application", async () => {
    const { stage } = await runPod({ spec: { initContainers: [container("first")] }, programs: short });
    await stage.advance("10s");
    expect(happenings(stage, /(first|a) (started|stopped)/)).toEqual([
      "0s first started",
      "2s first stopped",
      "2s a started",
    ]);
  });
});

describe("Understanding init containers", () => {
  test("a pod may have several", async () => {
    const { stage } = await runPod({ spec: { initContainers: two }, programs: short });
    await stage.advance("10s");
    expect(await stage.shown()).toEqual([
      "web Running, ready: init first terminated Completed 0, init second terminated Completed 0, a running",
    ]);
  });

  test("they run to completion", async () => {
    const { stage } = await runPod({ spec: { initContainers: two } });
    await stage.advance("60m");
    expect(await stage.shown()).toEqual([
      "web Pending: init first running, init second waiting PodInitializing, a waiting PodInitializing",
    ]);
  });

  test("each has to succeed before the next one starts", async () => {
    const { stage } = await runPod({
      spec: { initContainers: two },
      programs: { first: { exitsAfterMs: 0, exitCode: 1 } },
    });
    await stage.advance("60m");
    expect(happenings(stage, /(second|a) created/)).toEqual([]);
  });

  test("one that fails is restarted until it succeeds", async () => {
    const { stage } = await runPod({
      spec: { initContainers: two },
      programs: { first: { exitsAfterMs: 0, exitCode: 1 } },
    });
    await stage.advance("10m");
    stage.runtime.programs.set("first", { exitsAfterMs: 0 });
    stage.runtime.programs.set("second", { exitsAfterMs: 0 });
    await stage.advance("10m");
    expect(await stage.shown()).toEqual([
      "web Running, ready: init first terminated Completed 0 (restarts: 7), init second terminated Completed 0, a running",
    ]);
  });

  test("where the pod never restarts, one that fails has failed the pod", async () => {
    const { stage } = await runPod({
      spec: { restartPolicy: "Never", initContainers: two },
      programs: { first: { exitsAfterMs: 0, exitCode: 1 } },
    });
    await stage.advance("60m");
    expect(await stage.shown()).toEqual([
      "web Failed: init first terminated Error 1, init second waiting PodInitializing, a waiting PodInitializing",
    ]);
  });

  test("their status is in status.initContainerStatuses, in the order of the spec", async () => {
    const { stage } = await runPod({ spec: { initContainers: [container("z"), container("y")] } });
    const { initContainerStatuses, containerStatuses } = await statusOf(stage);
    expect(initContainerStatuses?.map(({ name }) => name)).toEqual(["z", "y"]);
    expect(containerStatuses?.map(({ name }) => name)).toEqual(["a"]);
  });
});

describe("Differences from regular containers", () => {
  test("they have the limits, volumes and security settings that they ask for", async () => {
    const first = container("first", {
      ...limits("500m"),
      volumeMounts: [{ name: "data", mountPath: "/data" }],
      securityContext: { runAsUser: 1234, readOnlyRootFilesystem: true },
    });
    const { stage } = await runPod({ spec: { initContainers: [first], volumes: [{ name: "data", emptyDir: {} }] } });
    const [made] = [...stage.runtime.containers.values()].map(({ config }) => config);
    expect(made?.linux?.resources?.cpuQuota).toBe(50_000n);
    expect(made?.mounts.map(({ containerPath }) => containerPath)).toContain("/data");
    expect(made?.linux?.securityContext).toMatchObject({ runAsUser: { value: 1234n }, readonlyRootfs: true });
  });

  test("the pod is not ready before they have run to completion", async () => {
    const { stage, told } = await runPod({ spec: { initContainers: two }, programs: short });
    await stage.advance("10s");
    const isReady = told.map(
      ({ conditions = [] }) => conditions.find(({ type }) => type === "Ready")?.status === "True",
    );
    const areDone = told.map(({ initContainerStatuses = [] }) => initContainerStatuses.every(({ ready }) => ready));
    expect(isReady.at(-1)).toBe(true);
    expect(isReady.some((value, index) => value && areDone[index] !== true)).toBe(false);
  });

  test("they run one after the other, and then the containers of the application all begin", async () => {
    const spec = { initContainers: two, containers: [container("a"), container("b")] };
    const { stage } = await runPod({ spec, programs: short });
    await stage.advance("10s");
    expect(happenings(stage, /(first|second|a|b) (started|stopped)/)).toEqual([
      "0s first started",
      "2s first stopped",
      "2s second started",
      "5s second stopped",
      "5s a started",
      "5s b started",
    ]);
  });
});

describe("Differences from sidecar containers", () => {
  test("they do not run beside the application", async () => {
    const { stage } = await runPod({ spec: { initContainers: two }, programs: short });
    await stage.advance("60m");
    expect(stage.scene().filter((line) => /container .* running/.test(line))).toEqual(["container web/a #0 running"]);
  });

  test("they share the network of the pod, and its volumes", async () => {
    const volumeMounts = [{ name: "data", mountPath: "/data" }];
    const { stage } = await runPod({
      spec: {
        volumes: [{ name: "data", emptyDir: {} }],
        initContainers: [container("first", { volumeMounts })],
        containers: [container("a", { volumeMounts })],
      },
      programs: short,
    });
    await stage.advance("10s");
    const made = [...stage.runtime.containers.values()];
    expect(new Set(made.map(({ sandbox }) => sandbox.id)).size).toBe(1);
    const folders = made.flatMap(({ config }) =>
      config.mounts.filter(({ containerPath }) => containerPath === "/data"),
    );
    expect([folders.length, new Set(folders.map(({ hostPath }) => hostPath)).size]).toEqual([2, 1]);
  });
});

describe("Using init containers", () => {
  test("they have images of their own", async () => {
    const { stage } = await runPod({
      spec: { initContainers: [container("first", { image: "tools:1" })] },
      programs: short,
      before: ({ runtime }) => void runtime.addImage("tools:1"),
    });
    await stage.advance("10s");
    expect([(await containerOf(stage, "first")).image, (await containerOf(stage, "a")).image]).toEqual([
      "tools:1",
      "busybox:1",
    ]);
  });

  test("and Secrets that the application is not told of", async () => {
    const env = [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "login", key: "token" } } }];
    const { stage } = await runPod({
      spec: { initContainers: [container("first", { env })] },
      programs: short,
      before: async ({ kube: { user } }) => {
        const metadata = { name: "login", namespace: "default" };
        await user.create(secrets("default"), { metadata, data: { token: "MQ==" } });
      },
    });
    await stage.advance("10s");
    const told = [...stage.runtime.containers.values()].map(({ config }) =>
      config.envs.some(({ key }) => key === "TOKEN"),
    );
    expect(told).toEqual([true, false]);
  });
});

describe("Init containers in use", () => {
  test("while the first one waits for something, the pod is Pending, and the others say PodInitializing", async () => {
    const { stage } = await runPod({ spec: { initContainers: two } });
    await stage.advance("6m");
    expect((await containerOf(stage, "first")).state).toMatchObject({ running: {} });
    for (const name of ["second", "a"]) {
      expect(await containerOf(stage, name)).toMatchObject({
        ready: false,
        state: { waiting: { reason: "PodInitializing" } },
      });
    }
    expect((await statusOf(stage)).phase).toBe("Pending");
  });

  test("when they have what they waited for, the pod is Running", async () => {
    const { stage } = await runPod({ spec: { initContainers: two } });
    await stage.advance("6m");
    for (const name of ["first", "second"]) {
      await stage.exit(name, 0);
      await stage.advance("1s");
    }
    expect((await statusOf(stage)).phase).toBe("Running");
  });

  test("their events are told as those of other containers", async () => {
    const { stage } = await runPod({ spec: { initContainers: [container("first")] } });
    expect(await stage.events("web")).toEqual([
      expect.stringMatching(/^1x Normal Pulled/),
      "1x Normal Created: Container created",
      "1x Normal Started: Container started",
    ]);
  });
});

describe("Resource sharing within containers", () => {
  // The node of these tests has four CPUs.
  const ofInit = (...cpus: readonly string[]) => cpus.map((cpu, index) => container(`i${index}`, limits(cpu)));
  const ofApp = (...cpus: readonly string[]) => cpus.map((cpu, index) => container(`a${index}`, limits(cpu)));

  test.each([
    ["the highest of the init containers", { initContainers: ofInit("3000m", "3000m") }, true],
    ["which has to fit", { initContainers: ofInit("100m", "4500m") }, false],
    ["the sum of the containers of the application", { containers: ofApp("2200m", "2200m") }, false],
    ["whichever is higher", { initContainers: ofInit("3900m"), containers: ofApp("1900m", "1900m") }, true],
  ] as const)("the node counts a pod by %s", async (_, spec, fits) => {
    const { stage } = await runPod({ spec });
    await stage.advance("1s");
    expect((await statusOf(stage)).reason).toBe(fits ? undefined : "OutOfcpu");
  });

  test("what they have asked for is kept for the pod all its life", async () => {
    const spec = { initContainers: ofInit("3000m"), containers: ofApp("100m") };
    const { stage } = await runPod({ spec, programs: { i0: { exitsAfterMs: 0 } } });
    await stage.advance("1s");
    await stage.apply("next", { containers: ofApp("2000m") });
    await stage.advance("1s");
    expect((await statusOf(stage, "next")).reason).toBe("OutOfcpu");
  });

  test("they count for the QoS class as all others do", async () => {
    const { stage } = await runPod({ spec: { initContainers: ofInit("100m"), containers: ofApp("100m") } });
    expect((await statusOf(stage)).qosClass).toBe("Burstable");
    const all = { resources: { limits: { cpu: "100m", memory: "64Mi" }, requests: { cpu: "100m", memory: "64Mi" } } };
    await stage.apply("sure", { initContainers: [container("i", all)], containers: [container("a", all)] });
    expect((await statusOf(stage, "sure")).qosClass).toBe("Guaranteed");
    await stage.apply("less", { initContainers: [container("i")], containers: [container("a", all)] });
    expect((await statusOf(stage, "less")).qosClass).toBe("Burstable");
  });
});

describe("Pod restart reasons", () => {
  test("the sandbox was restarted", async () => {
    const { stage } = await runPod({ spec: { initContainers: two }, programs: short });
    await stage.advance("10s");
    const [sandbox] = stage.runtime.sandboxes.keys();
    stage.runtime.exitSandbox(sandbox!);
    await stage.advance("2m");
    expect(happenings(stage, /(first|second|a) started/).map((line) => line.split(" ")[1])).toEqual([
      "first",
      "second",
      "a",
      "first",
      "second",
      "a",
    ]);
  });

  test("that the record of their success is lost is none, as long as anything tells that they have run", async () => {
    const { stage } = await runPod({ spec: { initContainers: two }, programs: short });
    await stage.advance("10s");
    for (const name of ["first", "second"]) stage.runtime.loseContainer(stage.idOf(name));
    await stage.exit("a", 1);
    await stage.advance("10m");
    expect(happenings(stage, /(first|second) started/)).toHaveLength(2);
    expect(await stage.shown()).toEqual([
      "web Running, ready: init first terminated Completed 0, init second terminated Completed 0, a running (restarts: 1)",
    ]);
    expect(await shownPod(stage)).toBeDefined();
  });
});
