/*
 * https://kubernetes.io/docs/concepts/workloads/pods/init-containers/
 *
 * "Detailed behavior" is tested in init-containers-behavior.test.ts. Not tested, since it concerns others or is not
 * implemented:
 *   Differences from regular containers   no probes and no hooks: the API server's validation, and that of manifests
 *                                         for static pods
 *   Using init containers                 how to use them: their authors
 *   Detailed behavior                     ports in Services, mutable fields, unique names: the EndpointSlice
 *                                         controller, the API server. Idempotent code: its authors
 *   Resource sharing within containers    scheduling and quotas by effective requests: the scheduler, the API server
 *   Init containers and Linux cgroups     pod cgroups are not part of this release yet
 */
import { expect, test } from "bun:test";
import { secrets } from "../../kube/resource.ts";
import type { Container } from "../../proto/kubernetes/gen/types.ts";
import {
  apiPod,
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
} from "./pod-case.ts";

const two = [container("first"), container("second")];
const short = { first: { exitsAfterMs: 2000 }, second: { exitsAfterMs: 3000 } };
const limits = (cpu: string): Pick<Container, "resources"> => ({ resources: { requests: { cpu }, limits: { cpu } } });

describeSection("Init Containers", () => {
  test("init containers run before the app containers", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers: [container("first")] },
      programs: short,
    });
    await harness.advance("10s");
    await expectTimeline(/(first|a) (started|stopped)/, ["0s first started", "2s first stopped", "2s a started"]);
  });
});

describeSection("Understanding init containers", () => {
  test("a pod can have several init containers", async () => {
    const { harness } = await runPod({ spec: { initContainers: two }, programs: short });
    await harness.advance("10s");
    expect(await harness.apiPods()).toEqual([
      "web Running, ready: init first terminated Completed 0, init second terminated Completed 0, a running",
    ]);
  });

  test("an init container that does not exit delays the pod", async () => {
    const { harness } = await runPod({ spec: { initContainers: two } });
    await harness.advance("60m");
    expect(await harness.apiPods()).toEqual([
      "web Pending: init first running, init second waiting PodInitializing, a waiting PodInitializing",
    ]);
  });

  test("each init container must succeed before the next one starts", async () => {
    const { harness } = await runPod({
      spec: { initContainers: two },
      programs: { first: { exitsAfterMs: 0, exitCode: 1 } },
    });
    await harness.advance("60m");
    expect(formatTimeline(harness, /(second|a) created/)).toEqual([]);
  });

  test("an init container that fails is restarted until it succeeds", async () => {
    const { harness } = await runPod({
      spec: { initContainers: two },
      programs: { first: { exitsAfterMs: 0, exitCode: 1 } },
      options: shortExitLag,
    });
    await harness.advance("10m");
    harness.runtime.programs.set("first", { exitsAfterMs: 0 });
    harness.runtime.programs.set("second", { exitsAfterMs: 0 });
    await harness.advance("10m");
    expect(await harness.apiPods()).toEqual([
      "web Running, ready: init first terminated Completed 0 (restarts: 7), init second terminated Completed 0, a running",
    ]);
  });

  test("with restartPolicy Never a failed init container fails the pod", async () => {
    const { harness } = await runPod({
      spec: { restartPolicy: "Never", initContainers: two },
      programs: { first: { exitsAfterMs: 0, exitCode: 1 } },
    });
    await harness.advance("60m");
    expect(await harness.apiPods()).toEqual([
      "web Failed: init first terminated Error 1, init second waiting PodInitializing, a waiting PodInitializing",
    ]);
  });

  test("status.initContainerStatuses lists the init containers in the order of the spec", async () => {
    const { harness } = await runPod({ spec: { initContainers: [container("z"), container("y")] } });
    const { initContainerStatuses, containerStatuses } = await statusOf(harness);
    expect(initContainerStatuses?.map(({ name }) => name)).toEqual(["z", "y"]);
    expect(containerStatuses?.map(({ name }) => name)).toEqual(["a"]);
  });
});

describeSection("Differences from regular containers", () => {
  test("init containers support resource limits, volumes and security settings", async () => {
    const first = container("first", {
      ...limits("500m"),
      volumeMounts: [{ name: "data", mountPath: "/data" }],
      securityContext: { runAsUser: 1234, readOnlyRootFilesystem: true },
    });
    const { harness } = await runPod({ spec: { initContainers: [first], volumes: [{ name: "data", emptyDir: {} }] } });
    const [made] = [...harness.runtime.containers.values()].map(({ config }) => config);
    expect(made?.linux?.resources?.cpuQuota).toBe(50_000n);
    expect(made?.mounts.map(({ containerPath }) => containerPath)).toContain("/data");
    expect(made?.linux?.securityContext).toMatchObject({ runAsUser: { value: 1234n }, readonlyRootfs: true });
  });

  test("the pod is not ready before its init containers have completed", async () => {
    const { harness, statuses } = await runPod({ spec: { initContainers: two }, programs: short });
    await harness.advance("10s");
    const isReady = statuses.map(
      ({ conditions = [] }) => conditions.find(({ type }) => type === "Ready")?.status === "True",
    );
    const areDone = statuses.map(({ initContainerStatuses = [] }) => initContainerStatuses.every(({ ready }) => ready));
    expect(isReady.at(-1)).toBe(true);
    expect(isReady.some((value, index) => value && areDone[index] !== true)).toBe(false);
  });

  test("init containers run one after the other, and then all app containers start", async () => {
    const spec = { initContainers: two, containers: [container("a"), container("b")] };
    const { harness, expectTimeline } = await runTimedPod({ spec, programs: short });
    await harness.advance("10s");
    await expectTimeline(/(first|second|a|b) (started|stopped)/, [
      "0s first started",
      "2s first stopped",
      "2s second started",
      "5s second stopped",
      "5s a started",
      "5s b started",
    ]);
  });
});

describeSection("Differences from sidecar containers", () => {
  test("init containers do not run at the same time as app containers", async () => {
    const { harness } = await runPod({ spec: { initContainers: two }, programs: short });
    await harness.advance("60m");
    expect(harness.nodeSnapshot().filter((line) => /container .* running/.test(line))).toEqual([
      "container web/a #0 running",
    ]);
  });

  test("init containers share the pod's network and volumes", async () => {
    const volumeMounts = [{ name: "data", mountPath: "/data" }];
    const { harness } = await runPod({
      spec: {
        volumes: [{ name: "data", emptyDir: {} }],
        initContainers: [container("first", { volumeMounts })],
        containers: [container("a", { volumeMounts })],
      },
      programs: short,
    });
    await harness.advance("10s");
    const made = [...harness.runtime.containers.values()];
    expect(new Set(made.map(({ sandbox }) => sandbox.id)).size).toBe(1);
    const folders = made.flatMap(({ config }) =>
      config.mounts.filter(({ containerPath }) => containerPath === "/data"),
    );
    expect([folders.length, new Set(folders.map(({ hostPath }) => hostPath)).size]).toEqual([2, 1]);
  });
});

describeSection("Using init containers", () => {
  test("an init container can use a different image", async () => {
    const { harness } = await runPod({
      spec: { initContainers: [container("first", { image: "tools:1" })] },
      programs: short,
      before: ({ runtime }) => void runtime.addImage("tools:1"),
    });
    await harness.advance("10s");
    expect([(await containerOf(harness, "first")).image, (await containerOf(harness, "a")).image]).toEqual([
      "tools:1",
      "busybox:1",
    ]);
  });

  test("an init container can use a Secret that the app container does not get", async () => {
    const env = [{ name: "TOKEN", valueFrom: { secretKeyRef: { name: "login", key: "token" } } }];
    const { harness } = await runPod({
      spec: { initContainers: [container("first", { env })] },
      programs: short,
      before: async ({ kube: { user } }) => {
        const metadata = { name: "login", namespace: "default" };
        await user.create(secrets("default"), { metadata, data: { token: "MQ==" } });
      },
    });
    await harness.advance("10s");
    const haveToken = [...harness.runtime.containers.values()].map(({ config }) =>
      config.envs.some(({ key }) => key === "TOKEN"),
    );
    expect(haveToken).toEqual([true, false]);
  });
});

describeSection("Init containers in use", () => {
  test("while the first init container runs, the pod is Pending and the other containers wait with PodInitializing", async () => {
    const { harness } = await runPod({ spec: { initContainers: two } });
    await harness.advance("6m");
    expect((await containerOf(harness, "first")).state).toMatchObject({ running: {} });
    for (const name of ["second", "a"]) {
      expect(await containerOf(harness, name)).toMatchObject({
        ready: false,
        state: { waiting: { reason: "PodInitializing" } },
      });
    }
    expect((await statusOf(harness)).phase).toBe("Pending");
  });

  test("the pod is Running after its init containers have completed", async () => {
    const { harness } = await runPod({ spec: { initContainers: two } });
    await harness.advance("6m");
    for (const name of ["first", "second"]) {
      await harness.exit(name, 0);
      await harness.advance("1s");
    }
    expect((await statusOf(harness)).phase).toBe("Running");
  });

  test("init containers cause the same events as other containers", async () => {
    const { harness } = await runPod({ spec: { initContainers: [container("first")] } });
    expect(await harness.events("web")).toEqual([
      expect.stringMatching(/^1x Normal Pulled/),
      "1x Normal Created: Container created",
      "1x Normal Started: Container started",
    ]);
  });
});

describeSection("Resource sharing within containers", () => {
  // The node has four CPUs.
  const ofInit = (...cpus: readonly string[]) => cpus.map((cpu, index) => container(`i${index}`, limits(cpu)));
  const ofApp = (...cpus: readonly string[]) => cpus.map((cpu, index) => container(`a${index}`, limits(cpu)));

  test.each([
    ["the highest request of the init containers", { initContainers: ofInit("3000m", "3000m") }, true],
    [
      "the highest request of the init containers, if it does not fit",
      { initContainers: ofInit("100m", "4500m") },
      false,
    ],
    ["the sum of the app containers' requests", { containers: ofApp("2200m", "2200m") }, false],
    ["the higher of the two", { initContainers: ofInit("3900m"), containers: ofApp("1900m", "1900m") }, true],
  ] as const)("the effective request of a pod is %s", async (_, spec, fits) => {
    const { harness } = await runPod({ spec });
    await harness.advance("1s");
    expect((await statusOf(harness)).reason).toBe(fits ? undefined : "OutOfcpu");
  });

  test("the requests of init containers are reserved for the pod's whole lifetime", async () => {
    const spec = { initContainers: ofInit("3000m"), containers: ofApp("100m") };
    const { harness } = await runPod({ spec, programs: { i0: { exitsAfterMs: 0 } } });
    await harness.advance("1s");
    await harness.apply("next", { containers: ofApp("2000m") });
    await harness.advance("1s");
    expect((await statusOf(harness, "next")).reason).toBe("OutOfcpu");
  });

  test("init containers count for the QoS class as app containers do", async () => {
    const { harness } = await runPod({ spec: { initContainers: ofInit("100m"), containers: ofApp("100m") } });
    expect((await statusOf(harness)).qosClass).toBe("Burstable");
    const all = { resources: { limits: { cpu: "100m", memory: "64Mi" }, requests: { cpu: "100m", memory: "64Mi" } } };
    await harness.apply("sure", { initContainers: [container("i", all)], containers: [container("a", all)] });
    expect((await statusOf(harness, "sure")).qosClass).toBe("Guaranteed");
    await harness.apply("less", { initContainers: [container("i")], containers: [container("a", all)] });
    expect((await statusOf(harness, "less")).qosClass).toBe("Burstable");
  });
});

describeSection("Pod restart reasons", () => {
  test("a restart of the sandbox runs the init containers again", async () => {
    const { harness } = await runPod({
      spec: { initContainers: two },
      programs: short,
      options: { regressions: [...podIPOfNextSandbox, ...pendingInNextSandbox] },
    });
    await harness.advance("10s");
    const [sandbox] = harness.runtime.sandboxes.keys();
    harness.runtime.exitSandbox(sandbox!);
    await harness.advance("2m");
    expect(formatTimeline(harness, /(first|second|a) started/).map((line) => line.split(" ")[1])).toEqual([
      "first",
      "second",
      "a",
      "first",
      "second",
      "a",
    ]);
  });

  test("init containers whose containers were garbage collected do not run again", async () => {
    const regressions = ["first", "second"].map((label) => ({
      pod: "web",
      label,
      rule: "container id",
      why: "The container is lost, so that no id is known.",
    }));
    const { harness } = await runPod({ spec: { initContainers: two }, programs: short, options: { regressions } });
    await harness.advance("10s");
    for (const name of ["first", "second"]) harness.runtime.loseContainer(harness.containerIdOf(name));
    await harness.exit("a", 1);
    await harness.advance("10m");
    expect(formatTimeline(harness, /(first|second) started/)).toHaveLength(2);
    expect(await harness.apiPods()).toEqual([
      "web Running, ready: init first terminated Completed 0, init second terminated Completed 0, a running (restarts: 1)",
    ]);
    expect(await apiPod(harness)).toBeDefined();
  });
});
