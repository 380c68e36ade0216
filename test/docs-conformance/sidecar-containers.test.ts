/*
 * https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
 *
 * Not tested, since it concerns others or is not implemented:
 *   Sidecar Containers                    use cases, the number of containers in a pod: its authors
 *   Sidecar containers in Kubernetes      when several app containers are enough: their authors
 *   Differences from application          exit codes that external tools should ignore: their authors
 *   containers
 *   Resource sharing within containers    scheduling and quotas by effective requests: the scheduler, the API server
 *   Sidecar containers and Linux cgroups  pod cgroups are not part of this release yet
 */
import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import type { AgentHarness } from "../scenarios/harness.ts";
import {
  conditionOf,
  container,
  containerOf,
  describeSection,
  formatTimeline,
  runPod,
  runTimedPod,
  sidecar,
  statusOf,
} from "./pod-case.ts";

const proxied: Partial<PodSpec> = { initContainers: [sidecar("proxy")] };
const exec = (command: string) => ({ exec: { command: [command] } });
const everySecond = { periodSeconds: 1, failureThreshold: 1 };
/** The hooks and stops that the runtime received, in order: `a: drain` is a hook, `a within 30s` a stop. */
const runtimeCalls = ({ runtime }: AgentHarness) =>
  runtime.calls
    .filter((call) => /^(execSync|stopContainer) /.test(call))
    .map((call) => call.replace(/^.*\/(\w+) #0/, "$1"));
const limits = (cpu: string): Pick<Container, "resources"> => ({
  resources: { requests: { cpu, memory: "1Mi" }, limits: { cpu, memory: "1Mi" } },
});

describeSection("Sidecar containers in Kubernetes", () => {
  test("a sidecar keeps running after the pod's startup, a regular init container does not", async () => {
    const { harness } = await runPod({
      spec: { initContainers: [container("setup"), sidecar("proxy")] },
      programs: { setup: { exitsAfterMs: 1000 } },
    });
    await harness.advance("60m");
    expect(await harness.apiPods()).toEqual([
      "web Running, ready: init setup terminated Completed 0, init proxy running, a running",
    ]);
  });

  test("a sidecar is restarted without affecting the other containers", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers: [sidecar("one"), sidecar("two")] },
    });
    await harness.advance("5s");
    await harness.exit("one", 1);
    await harness.advance("5s");
    await expectTimeline(/ (one|two|a) (started|stopped)/, ["5s one stopped", "5s one started"], { from: 3 });
  });

  test("a pod can have several app containers, which do not wait for each other", async () => {
    const { harness } = await runPod({ spec: { containers: [container("a"), container("b")] } });
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running, b running"]);
  });
});

describeSection("Sidecar containers and Pod lifecycle", () => {
  test("an init container with restartPolicy Always runs as long as the pod", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { ...proxied, restartPolicy: "Never" },
      programs: { a: { exitsAfterMs: 90_000 } },
    });
    await harness.advance("5m");
    await expectTimeline(/ (proxy|a) (started|stopped)/, [
      "0s proxy started",
      "0s a started",
      "90s a stopped",
      "90s proxy stopped",
    ]);
  });

  test("a sidecar is restarted after any exit code, with any policy of the pod", async () => {
    const { harness } = await runPod({ spec: { ...proxied, restartPolicy: "Never" } });
    await harness.exit("proxy", 0);
    await harness.advance("20m");
    await harness.exit("proxy", 1);
    await harness.advance("20m");
    expect(await harness.apiPods()).toEqual(["web Running, ready: init proxy running (restarts: 2), a running"]);
  });

  test("the readiness of a sidecar counts for the pod's readiness", async () => {
    const initContainers = [sidecar("proxy", { readinessProbe: { ...exec("ready"), ...everySecond } })];
    const { harness } = await runPod({
      spec: { initContainers },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    await harness.advance("3s");
    expect(await conditionOf(harness, "Ready")).toMatchObject({
      status: "False",
      message: "containers with unready status: [proxy]",
    });
    harness.runtime.commands.set("ready", {});
    await harness.advance("3s");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "True" });
  });

  test("sidecars and regular init containers start in one common order", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers: [container("one"), sidecar("two"), container("three"), sidecar("four")] },
      programs: { one: { exitsAfterMs: 1000 }, three: { exitsAfterMs: 1000 } },
    });
    await harness.advance("5s");
    await expectTimeline(/(one|two|three|four|a) started/, [
      "0s one started",
      "1s two started",
      "1s three started",
      "2s four started",
      "2s a started",
    ]);
  });

  test("without a startup probe a sidecar is started with its process, and the next container starts", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers: [sidecar("proxy"), container("setup")] },
    });
    expect((await containerOf(harness, "proxy")).started).toBe(true);
    await expectTimeline(/(proxy|setup) started/, ["0s proxy started", "0s setup started"]);
  });

  test("with a startup probe the next container starts after the probe succeeded", async () => {
    const proxy = sidecar("proxy", { startupProbe: { ...exec("up"), periodSeconds: 1, failureThreshold: 30 } });
    const { harness } = await runPod({
      spec: { initContainers: [proxy, container("setup")] },
      before: ({ runtime }) => void runtime.commands.set("up", { exitCode: 1 }),
    });
    await harness.advance("5s");
    expect((await containerOf(harness, "proxy")).started).toBe(false);
    expect(formatTimeline(harness, /setup created/)).toEqual([]);
    harness.runtime.commands.set("up", {});
    await harness.advance("1s");
    expect((await containerOf(harness, "proxy")).started).toBe(true);
    expect((await containerOf(harness, "setup")).state?.running).toBeDefined();
  });

  test("a sidecar is stopped after the app containers have stopped", async () => {
    const slow = container("a", { lifecycle: { preStop: { sleep: { seconds: 7 } } } });
    const { harness, expectTimeline } = await runTimedPod({ spec: { ...proxied, containers: [slow] } });
    await harness.deletePod("web");
    await harness.advance("1m");
    await expectTimeline(/ (a|proxy) stopped/, ["7s a stopped", "7s proxy stopped"]);
  });

  test("sidecars are stopped in the reverse order of the spec", async () => {
    const { harness } = await runPod({
      spec: { initContainers: ["one", "two", "three"].map((name) => sidecar(name)) },
    });
    await harness.deletePod("web");
    await harness.advance("1m");
    const names = formatTimeline(harness, /stopped/).map((line) => line.split(" ")[1]);
    expect(names).toEqual(["a", "three", "two", "one", "sandbox"]);
  });

  test("the reverse order holds also when the node's clock is set back", async () => {
    const sleeps = { lifecycle: { preStop: { sleep: { seconds: 5 } } } };
    const { harness } = await runPod({
      spec: { initContainers: [sidecar("one", sleeps), sidecar("two")] },
      programs: { two: { onTerm: "ignores" } },
    });
    await harness.deletePod("web", 20);
    await harness.advance("3s");
    harness.clock.stepWallClock(-3_600_000);
    await harness.advance("2m");
    const names = harness.runtime.timeline
      .filter(({ change }) => change === "stopped")
      .map(({ role }) => role.replace(/.*\//, ""));
    expect(names.slice(0, 3)).toEqual(["a", "two", "one"]);
  });

  test("a sidecar's preStop hook starts with the others, and its stop waits for the app containers", async () => {
    const containers = [container("a", { lifecycle: { preStop: exec("finish") } })];
    const initContainers = [sidecar("proxy", { lifecycle: { preStop: exec("drain") } })];
    const { harness, expectTimeline } = await runTimedPod({
      spec: { containers, initContainers },
      before({ runtime }) {
        runtime.commands.set("finish", { lastsMs: 7000 });
        runtime.commands.set("drain", { lastsMs: 5000 });
      },
    });
    await harness.deletePod("web", 30);
    expect(runtimeCalls(harness).toSorted()).toEqual(["a: finish", "proxy: drain"]);
    await harness.advance("1m");
    // The proxy gets what is left of the grace period when the agent has seen the exit of the application.
    expect(runtimeCalls(harness).slice(2)).toEqual([
      "a within 23s",
      expect.stringMatching(/^proxy within (19|2[0-3])s$/),
    ]);
    await expectTimeline(/ (a|proxy) stopped/, ["7s a stopped", "7s proxy stopped"]);
    const killingEvents = (await harness.events("web")).filter((event) => event.includes("Killing"));
    expect(killingEvents.toSorted()).toEqual([
      "1x Normal Killing: Stopping container a",
      "1x Normal Killing: Stopping container proxy",
    ]);
  });

  test("a sidecar is stopped after its preStop hook, within the grace period", async () => {
    const initContainers = [sidecar("proxy", { lifecycle: { preStop: exec("drain") } })];
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 5000 }),
    });
    await harness.deletePod("web", 30);
    await harness.advance("1m");
    expect(runtimeCalls(harness)).toEqual(["a within 30s", "proxy: drain", "proxy within 25s"]);
    await expectTimeline(/ (a|proxy) stopped/, ["0s a stopped", "5s proxy stopped"]);
  });

  test("a sidecar's preStop hook runs also if the application uses the whole grace period", async () => {
    const initContainers = [sidecar("proxy", { lifecycle: { preStop: exec("drain") } })];
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers },
      programs: { a: { onTerm: "ignores" } },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 5000 }),
    });
    await harness.deletePod("web", 10);
    await harness.advance("1m");
    expect(runtimeCalls(harness)).toEqual(["a within 10s", "proxy: drain", "proxy within 2s"]);
    await expectTimeline(/ (a|proxy) stopped/, ["10s a stopped", "10s proxy stopped"]);
  });

  test("a sidecar's preStop hook that hangs is abandoned at the end of the grace period", async () => {
    const initContainers = [sidecar("proxy", { lifecycle: { preStop: exec("drain") } })];
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 3_600_000 }),
    });
    await harness.deletePod("web", 10);
    await harness.advance("1m");
    await expectTimeline(/ (a|proxy) stopped/, ["0s a stopped", "10s proxy stopped"]);
    expect(await harness.events("web")).toContain("1x Warning FailedPreStopHook: PreStopHook failed");
  });

  test("an ephemeral container that ignores SIGTERM does not delay the stop of sidecars", async () => {
    const deaf = { onTerm: "ignores" } as const;
    const { harness, expectTimeline } = await runTimedPod({ spec: proxied, programs: { debug: deaf } });
    await harness.debug("web", { name: "debug", image: "busybox:1" });
    await harness.deletePod("web", 10);
    await harness.advance("1m");
    await expectTimeline(/ (a|proxy|debug) stopped/, ["0s a stopped", "0s proxy stopped", "10s debug stopped"]);
  });
});

describeSection("Jobs with sidecar containers", () => {
  test("a pod completes after its main container although a sidecar runs", async () => {
    const { harness } = await runPod({
      spec: { ...proxied, restartPolicy: "OnFailure" },
      programs: { a: { exitsAfterMs: 5000 } },
    });
    await harness.advance("10s");
    expect((await statusOf(harness)).phase).toBe("Succeeded");
  });

  test("a pod succeeds although its sidecar is killed after the main container", async () => {
    const { harness } = await runPod({
      spec: { ...proxied, restartPolicy: "Never" },
      programs: { a: { exitsAfterMs: 5000 }, proxy: { onTerm: "ignores" } },
    });
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual([
      "web Succeeded: init proxy terminated Error 137, a terminated Completed 0",
    ]);
  });
});

describeSection("Differences from application containers", () => {
  test("a sidecar shares the pod's network and volumes", async () => {
    const volumeMounts = [{ name: "data", mountPath: "/data" }];
    const { harness } = await runPod({
      spec: {
        initContainers: [sidecar("proxy", { volumeMounts })],
        containers: [container("a", { volumeMounts })],
        volumes: [{ name: "data", emptyDir: {} }],
      },
    });
    const made = [...harness.runtime.containers.values()];
    const hostPaths = made.map(
      ({ config }) => config.mounts.find(({ containerPath }) => containerPath === "/data")?.hostPath,
    );
    expect(new Set(hostPaths).size).toBe(1);
    expect(new Set(made.map(({ sandbox }) => sandbox.id)).size).toBe(1);
  });

  test("after the grace period is used up sidecars get SIGTERM and soon after SIGKILL", async () => {
    const ignores = { onTerm: "ignores" } as const;
    const { harness, expectTimeline } = await runTimedPod({ spec: proxied, programs: { a: ignores, proxy: ignores } });
    await harness.deletePod("web", 10);
    await harness.advance("11s");
    const stops = harness.runtime.calls.filter((call) => call.startsWith("stopContainer"));
    expect(stops.map((call) => call.replace(/.*\//, ""))).toEqual(["a #0 within 10s", "proxy #0 within 2s"]);
    await harness.advance("1s");
    await expectTimeline(/proxy stopped/, ["12s proxy stopped"]);
  });
});

describeSection("Differences from init containers", () => {
  test("sidecars run at the same time as the application", async () => {
    const { harness } = await runPod({ spec: proxied });
    expect(await harness.apiPods()).toEqual(["web Running, ready: init proxy running, a running"]);
  });

  test("a sidecar that fails its liveness probe is restarted", async () => {
    const initContainers = [sidecar("proxy", { livenessProbe: { ...exec("alive"), ...everySecond } })];
    const { harness, expectTimeline } = await runTimedPod({ spec: { initContainers } });
    await harness.advance("5s");
    harness.runtime.commands.set("alive", { exitCode: 1 });
    await harness.advance("1s");
    await expectTimeline(
      / (proxy|a) (started|stopped)/,
      ["0s proxy started", "0s a started", "6s proxy stopped", "6s proxy started"],
      { to: 4 },
    );
  });

  test("regular init containers have stopped before the main containers start", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers: [container("setup")] },
      programs: { setup: { exitsAfterMs: 1000 } },
    });
    await harness.advance("5s");
    await expectTimeline(/ (setup|a) (started|stopped)/, ["0s setup started", "1s setup stopped", "1s a started"]);
  });

  test("a file that an init container writes to a volume is available to the app container", async () => {
    const volumeMounts = [{ name: "data", mountPath: "/data" }];
    const { harness } = await runPod({
      spec: {
        initContainers: [container("setup", { volumeMounts })],
        containers: [container("a", { volumeMounts })],
        volumes: [{ name: "data", emptyDir: {} }],
      },
    });
    const mounted = () =>
      [...harness.runtime.containers.values()]
        .at(-1)
        ?.config.mounts.find(({ containerPath }) => containerPath === "/data")?.hostPath;
    const folder = mounted();
    await harness.disk.at("/").write(`${folder}/left`, "x", 0o600);
    await harness.exit("setup", 0);
    expect(mounted()).toBe(folder ?? "");
    expect(harness.disk.paths()).toContain(`${folder}/left`);
  });

  test("a new image of a sidecar restarts only that container", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: proxied,
      before: ({ runtime }) => void runtime.addImage("busybox:2"),
    });
    await harness.advance("5s");
    const body = { spec: { initContainers: [{ name: "proxy", image: "busybox:2" }] } };
    await harness.kube.user.patch(pods("default"), "web", { type: "strategic", body });
    await harness.advance("5s");
    await expectTimeline(/(started|stopped)/, [
      "0s sandbox started",
      "0s proxy started",
      "0s a started",
      "5s proxy stopped",
      "5s proxy started",
    ]);
    expect((await containerOf(harness, "proxy")).image).toContain("busybox:2");
  });
});

describeSection("Resource sharing within containers", () => {
  test("the QoS class includes sidecars and app containers alike", async () => {
    const classOf = async (proxy: Partial<Container>) => {
      const spec = { initContainers: [sidecar("proxy", proxy)], containers: [container("a", limits("100m"))] };
      const { harness } = await runPod({ spec });
      return (await statusOf(harness)).qosClass;
    };
    expect([await classOf(limits("50m")), await classOf({})]).toEqual(["Guaranteed", "Burstable"]);
  });

  test("the effective request is the sum of sidecars and app containers, or an init container plus earlier sidecars", async () => {
    const phaseOf = async (initContainers: readonly Container[]) => {
      const spec = { initContainers, containers: [container("a", limits("1"))] };
      const { harness } = await runPod({ spec, options: { isInCluster: true } });
      return (await statusOf(harness)).reason ?? "admitted";
    };
    expect([
      await phaseOf([sidecar("proxy", limits("2")), container("setup", limits("1"))]),
      await phaseOf([sidecar("proxy", limits("3500m"))]),
      await phaseOf([container("setup", limits("3500m"))]),
      await phaseOf([sidecar("proxy", limits("2")), container("setup", limits("2500m"))]),
    ]).toEqual(["admitted", "OutOfcpu", "admitted", "OutOfcpu"]);
  });
});
