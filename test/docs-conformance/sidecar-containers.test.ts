/*
 * https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
 *
 * What it says of others:
 *   Sidecar Containers                    what they are good for, how many containers a pod should have: whoever writes it
 *   Sidecar containers in Kubernetes      when several containers of the application are enough: whoever writes them
 *   Differences from application          what external tools should ignore: whoever writes them
 *   containers
 *   Resource sharing within containers    scheduling and quotas by effective requests: the scheduler, the API server
 *   Sidecar containers and Linux cgroups  a pod's own cgroup comes with the hierarchy of cgroups, which is no part of this release yet
 */
import { describe, expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import type { Stage } from "../scenarios/harness.ts";
import { conditionOf, container, containerOf, happenings, runPod, sidecar, statusOf } from "./pod-case.ts";

const proxied: Partial<PodSpec> = { initContainers: [sidecar("proxy")] };
const exec = (command: string) => ({ exec: { command: [command] } });
const asks = { periodSeconds: 1, failureThreshold: 1 };
/** What was asked of the runtime to end the pod, in order: `a: drain` is a hook, `a within 30s` a stop. */
const asked = ({ runtime }: Stage) =>
  runtime.calls
    .filter((call) => /^(execSync|stopContainer) /.test(call))
    .map((call) => call.replace(/^.*\/(\w+) #0/, "$1"));
const limits = (cpu: string): Pick<Container, "resources"> => ({
  resources: { requests: { cpu, memory: "1Mi" }, limits: { cpu, memory: "1Mi" } },
});

describe("Sidecar containers in Kubernetes", () => {
  test("a sidecar remains running after the pod's start, and a regular init container does not", async () => {
    const { stage } = await runPod({
      spec: { initContainers: [container("setup"), sidecar("proxy")] },
      programs: { setup: { exitsAfterMs: 1000 } },
    });
    await stage.advance("60m");
    expect(await stage.shown()).toEqual([
      "web Running, ready: init setup terminated Completed 0, init proxy running, a running",
    ]);
  });

  test("it is restarted without the others, which go on", async () => {
    const { stage } = await runPod({ spec: { initContainers: [sidecar("one"), sidecar("two")] } });
    await stage.advance("5s");
    await stage.exit("one", 1);
    await stage.advance("5s");
    expect(happenings(stage, / (one|two|a) (started|stopped)/).slice(3)).toEqual(["5s one stopped", "5s one started"]);
  });

  test("a pod may have several containers that are no sidecars, none of which waits for another", async () => {
    const { stage } = await runPod({ spec: { containers: [container("a"), container("b")] } });
    expect(await stage.shown()).toEqual(["web Running, ready: a running, b running"]);
  });
});

describe("Sidecar containers and Pod lifecycle", () => {
  test("an init container that restarts always runs as long as the pod does", async () => {
    const { stage } = await runPod({
      spec: { ...proxied, restartPolicy: "Never" },
      programs: { a: { exitsAfterMs: 90_000 } },
    });
    await stage.advance("5m");
    expect(happenings(stage, / (proxy|a) (started|stopped)/)).toEqual([
      "0s proxy started",
      "0s a started",
      "90s a stopped",
      "90s proxy stopped",
    ]);
  });

  test("whatever it ends with, and whatever the policy of its pod is, it is restarted", async () => {
    const { stage } = await runPod({ spec: { ...proxied, restartPolicy: "Never" } });
    await stage.exit("proxy", 0);
    await stage.advance("20m");
    await stage.exit("proxy", 1);
    await stage.advance("20m");
    expect(await stage.shown()).toEqual(["web Running, ready: init proxy running (restarts: 2), a running"]);
  });

  test("whether it is ready is part of whether the pod is", async () => {
    const initContainers = [sidecar("proxy", { readinessProbe: { ...exec("ready"), ...asks } })];
    const { stage } = await runPod({
      spec: { initContainers },
      before: ({ runtime }) => void runtime.commands.set("ready", { exitCode: 1 }),
    });
    await stage.advance("3s");
    expect(await conditionOf(stage, "Ready")).toMatchObject({
      status: "False",
      message: "containers with unready status: [proxy]",
    });
    stage.runtime.commands.set("ready", {});
    await stage.advance("3s");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "True" });
  });

  test("sidecars and regular init containers begin in one order", async () => {
    const { stage } = await runPod({
      spec: { initContainers: [container("one"), sidecar("two"), container("three"), sidecar("four")] },
      programs: { one: { exitsAfterMs: 1000 }, three: { exitsAfterMs: 1000 } },
    });
    await stage.advance("5s");
    expect(happenings(stage, /(one|two|three|four|a) started/)).toEqual([
      "0s one started",
      "1s two started",
      "1s three started",
      "2s four started",
      "2s a started",
    ]);
  });

  test("the next one begins when it has started, which it has with its process where it has no startup probe", async () => {
    const { stage } = await runPod({ spec: { initContainers: [sidecar("proxy"), container("setup")] } });
    expect((await containerOf(stage, "proxy")).started).toBe(true);
    expect(happenings(stage, /(proxy|setup) started/)).toEqual(["0s proxy started", "0s setup started"]);
  });

  test("and otherwise when that has succeeded", async () => {
    const proxy = sidecar("proxy", { startupProbe: { ...exec("up"), periodSeconds: 1, failureThreshold: 30 } });
    const { stage } = await runPod({
      spec: { initContainers: [proxy, container("setup")] },
      before: ({ runtime }) => void runtime.commands.set("up", { exitCode: 1 }),
    });
    await stage.advance("5s");
    expect((await containerOf(stage, "proxy")).started).toBe(false);
    expect(happenings(stage, /setup created/)).toEqual([]);
    stage.runtime.commands.set("up", {});
    await stage.advance("1s");
    expect((await containerOf(stage, "proxy")).started).toBe(true);
    expect((await containerOf(stage, "setup")).state?.running).toBeDefined();
  });

  test("it is not ended before the containers of the application have stopped", async () => {
    const slow = container("a", { lifecycle: { preStop: { sleep: { seconds: 7 } } } });
    const { stage } = await runPod({ spec: { ...proxied, containers: [slow] } });
    await stage.remove("web");
    await stage.advance("1m");
    expect(happenings(stage, / (a|proxy) stopped/)).toEqual(["7s a stopped", "7s proxy stopped"]);
  });

  test("sidecars are then ended in the opposite order of the specification", async () => {
    const { stage } = await runPod({ spec: { initContainers: ["one", "two", "three"].map((name) => sidecar(name)) } });
    await stage.remove("web");
    await stage.advance("1m");
    const names = happenings(stage, /stopped/).map((line) => line.split(" ")[1]);
    expect(names).toEqual(["a", "three", "two", "one", "sandbox"]);
  });

  test("also where the clock of the node is set back meanwhile", async () => {
    const sleeps = { lifecycle: { preStop: { sleep: { seconds: 5 } } } };
    const { stage } = await runPod({
      spec: { initContainers: [sidecar("one", sleeps), sidecar("two")] },
      programs: { two: { onTerm: "ignores" } },
    });
    await stage.remove("web", 20);
    await stage.advance("3s");
    stage.clock.jump(-3_600_000);
    await stage.advance("2m");
    const names = stage.runtime.timeline
      .filter(({ change }) => change === "stopped")
      .map(({ role }) => role.replace(/.*\//, ""));
    expect(names.slice(0, 3)).toEqual(["a", "two", "one"]);
  });

  test("its preStop hook begins with the others', and its stop waits for its turn all the same", async () => {
    const containers = [container("a", { lifecycle: { preStop: exec("finish") } })];
    const initContainers = [sidecar("proxy", { lifecycle: { preStop: exec("drain") } })];
    const { stage } = await runPod({
      spec: { containers, initContainers },
      before({ runtime }) {
        runtime.commands.set("finish", { lastsMs: 7000 });
        runtime.commands.set("drain", { lastsMs: 5000 });
      },
    });
    await stage.remove("web", 30);
    expect(asked(stage).toSorted()).toEqual(["a: finish", "proxy: drain"]);
    await stage.advance("1m");
    expect(asked(stage).slice(2)).toEqual(["a within 23s", "proxy within 23s"]);
    expect(happenings(stage, / (a|proxy) stopped/)).toEqual(["7s a stopped", "7s proxy stopped"]);
    const told = (await stage.events("web")).filter((event) => event.includes("Killing"));
    expect(told.toSorted()).toEqual([
      "1x Normal Killing: Stopping container a",
      "1x Normal Killing: Stopping container proxy",
    ]);
  });

  test("a preStop hook that lasts longer than the application is waited for, within the grace", async () => {
    const initContainers = [sidecar("proxy", { lifecycle: { preStop: exec("drain") } })];
    const { stage } = await runPod({
      spec: { initContainers },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 5000 }),
    });
    await stage.remove("web", 30);
    await stage.advance("1m");
    expect(asked(stage)).toEqual(["a within 30s", "proxy: drain", "proxy within 25s"]);
    expect(happenings(stage, / (a|proxy) stopped/)).toEqual(["0s a stopped", "5s proxy stopped"]);
  });

  test("it has run also where the application takes all of the grace", async () => {
    const initContainers = [sidecar("proxy", { lifecycle: { preStop: exec("drain") } })];
    const { stage } = await runPod({
      spec: { initContainers },
      programs: { a: { onTerm: "ignores" } },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 5000 }),
    });
    await stage.remove("web", 10);
    await stage.advance("1m");
    expect(asked(stage)).toEqual(["a within 10s", "proxy: drain", "proxy within 2s"]);
    expect(happenings(stage, / (a|proxy) stopped/)).toEqual(["10s a stopped", "10s proxy stopped"]);
  });

  test("one that hangs is left when the grace is over", async () => {
    const initContainers = [sidecar("proxy", { lifecycle: { preStop: exec("drain") } })];
    const { stage } = await runPod({
      spec: { initContainers },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 3_600_000 }),
    });
    await stage.remove("web", 10);
    await stage.advance("1m");
    expect(happenings(stage, / (a|proxy) stopped/)).toEqual(["0s a stopped", "10s proxy stopped"]);
    expect(await stage.events("web")).toContain("1x Warning FailedPreStopHook: PreStopHook failed");
  });

  test("a container that was added to look into the pod, and is deaf to SIGTERM, keeps no sidecar from its turn", async () => {
    const deaf = { onTerm: "ignores" } as const;
    const { stage } = await runPod({ spec: proxied, programs: { debug: deaf } });
    await stage.debug("web", { name: "debug", image: "busybox:1" });
    await stage.remove("web", 10);
    await stage.advance("1m");
    expect(happenings(stage, / (a|proxy|debug) stopped/)).toEqual([
      "0s a stopped",
      "0s proxy stopped",
      "10s debug stopped",
    ]);
  });
});

describe("Jobs with sidecar containers", () => {
  test("a sidecar keeps no pod from completing after its main container has finished", async () => {
    const { stage } = await runPod({
      spec: { ...proxied, restartPolicy: "OnFailure" },
      programs: { a: { exitsAfterMs: 5000 } },
    });
    await stage.advance("10s");
    expect((await statusOf(stage)).phase).toBe("Succeeded");
  });

  test("nor does one that ends in failure then", async () => {
    const { stage } = await runPod({
      spec: { ...proxied, restartPolicy: "Never" },
      programs: { a: { exitsAfterMs: 5000 }, proxy: { onTerm: "ignores" } },
    });
    await stage.advance("1m");
    expect(await stage.shown()).toEqual(["web Succeeded: init proxy terminated Error 137, a terminated Completed 0"]);
  });
});

describe("Differences from application containers", () => {
  test("a sidecar has the network and the volumes of its pod", async () => {
    const volumeMounts = [{ name: "data", mountPath: "/data" }];
    const { stage } = await runPod({
      spec: {
        initContainers: [sidecar("proxy", { volumeMounts })],
        containers: [container("a", { volumeMounts })],
        volumes: [{ name: "data", emptyDir: {} }],
      },
    });
    const made = [...stage.runtime.containers.values()];
    const hostPaths = made.map(
      ({ config }) => config.mounts.find(({ containerPath }) => containerPath === "/data")?.hostPath,
    );
    expect(new Set(hostPaths).size).toBe(1);
    expect(new Set(made.map(({ sandbox }) => sandbox.id)).size).toBe(1);
  });

  test("where others take all of the grace, sidecars get SIGTERM, and SIGKILL soon after, as their exit codes say", async () => {
    const ignores = { onTerm: "ignores" } as const;
    const { stage } = await runPod({ spec: proxied, programs: { a: ignores, proxy: ignores } });
    await stage.remove("web", 10);
    await stage.advance("11s");
    const stops = stage.runtime.calls.filter((call) => call.startsWith("stopContainer"));
    expect(stops.map((call) => call.replace(/.*\//, ""))).toEqual(["a #0 within 10s", "proxy #0 within 2s"]);
    await stage.advance("1s");
    expect(happenings(stage, /proxy stopped/)).toEqual(["12s proxy stopped"]);
  });
});

describe("Differences from init containers", () => {
  test("sidecars run at the same time as the application", async () => {
    const { stage } = await runPod({ spec: proxied });
    expect(await stage.shown()).toEqual(["web Running, ready: init proxy running, a running"]);
  });

  test("their probes decide upon their lives", async () => {
    const initContainers = [sidecar("proxy", { livenessProbe: { ...exec("alive"), ...asks } })];
    const { stage } = await runPod({ spec: { initContainers } });
    await stage.advance("5s");
    stage.runtime.commands.set("alive", { exitCode: 1 });
    await stage.advance("1s");
    expect(happenings(stage, / (proxy|a) (started|stopped)/).slice(0, 4)).toEqual([
      "0s proxy started",
      "0s a started",
      "6s proxy stopped",
      "6s proxy started",
    ]);
  });

  test("regular init containers have stopped before the main containers start", async () => {
    const { stage } = await runPod({
      spec: { initContainers: [container("setup")] },
      programs: { setup: { exitsAfterMs: 1000 } },
    });
    await stage.advance("5s");
    expect(happenings(stage, / (setup|a) (started|stopped)/)).toEqual([
      "0s setup started",
      "1s setup stopped",
      "1s a started",
    ]);
  });

  test("what they leave in a volume is there for the application", async () => {
    const volumeMounts = [{ name: "data", mountPath: "/data" }];
    const { stage } = await runPod({
      spec: {
        initContainers: [container("setup", { volumeMounts })],
        containers: [container("a", { volumeMounts })],
        volumes: [{ name: "data", emptyDir: {} }],
      },
    });
    const mounted = () =>
      [...stage.runtime.containers.values()]
        .at(-1)
        ?.config.mounts.find(({ containerPath }) => containerPath === "/data")?.hostPath;
    const folder = mounted();
    await stage.disk.at("/").write(`${folder}/left`, "x", 0o600);
    await stage.exit("setup", 0);
    expect(mounted()).toBe(folder ?? "");
    expect(stage.disk.paths()).toContain(`${folder}/left`);
  });

  test("another image of a sidecar restarts that container, and not the pod", async () => {
    const { stage } = await runPod({ spec: proxied, before: ({ runtime }) => void runtime.addImage("busybox:2") });
    await stage.advance("5s");
    const body = { spec: { initContainers: [{ name: "proxy", image: "busybox:2" }] } };
    await stage.kube.user.patch(pods("default"), "web", { type: "strategic", body });
    await stage.advance("5s");
    expect(happenings(stage, /(started|stopped)/)).toEqual([
      "0s sandbox started",
      "0s proxy started",
      "0s a started",
      "5s proxy stopped",
      "5s proxy started",
    ]);
    expect((await containerOf(stage, "proxy")).image).toContain("busybox:2");
  });
});

describe("Resource sharing within containers", () => {
  test("the QoS class is one of init containers, sidecars and app containers alike", async () => {
    const classOf = async (proxy: Partial<Container>) => {
      const spec = { initContainers: [sidecar("proxy", proxy)], containers: [container("a", limits("100m"))] };
      const { stage } = await runPod({ spec });
      return (await statusOf(stage)).qosClass;
    };
    expect([await classOf(limits("50m")), await classOf({})]).toEqual(["Guaranteed", "Burstable"]);
  });

  test("a node has room for the sum of sidecars and app containers, or for an init container beside the sidecars before it", async () => {
    const phaseOf = async (initContainers: readonly Container[]) => {
      const spec = { initContainers, containers: [container("a", limits("1"))] };
      const { stage } = await runPod({ spec, options: { isInCluster: true } });
      return (await statusOf(stage)).reason ?? "taken";
    };
    expect([
      await phaseOf([sidecar("proxy", limits("2")), container("setup", limits("1"))]),
      await phaseOf([sidecar("proxy", limits("3500m"))]),
      await phaseOf([container("setup", limits("3500m"))]),
      await phaseOf([sidecar("proxy", limits("2")), container("setup", limits("2500m"))]),
    ]).toEqual(["taken", "OutOfcpu", "taken", "OutOfcpu"]);
  });
});
