// Pods that the API server asks for, on a node of fakes: what users see of them, and that it is the same whenever the agent dies.
import { expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { pods } from "../../kube/resource.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../fakes/clock.ts";
import { apiScenario, endOf, inCluster, play } from "./api-scenario.ts";
import { createStage, makePod } from "./harness.ts";

const unreachable = () => new KubeError("UNREACHABLE", "connection refused");

apiScenario(
  "a pod of the API runs, is told of, and is gone when it was deleted and nothing of it is left",
  async (stage) => {
    await stage.apply("web", { terminationGracePeriodSeconds: 7 });
    await stage.advance("5s");
    await stage.remove("web");
    await stage.advance("30s");
  },
  async (end, stage) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(await stage.events("web")).toMatchInlineSnapshot(`
      [
        "1x Normal Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod",
        "1x Normal Created: Container created",
        "1x Normal Started: Container started",
        "1x Normal Killing: Stopping container a",
      ]
    `);
  },
);

apiScenario(
  "work that is done stays done",
  async (stage) => {
    await stage.apply("job", { restartPolicy: "Never" });
    await stage.advance("5s");
    if (stage.runtime.containers.size > 0) await stage.exit("a", 3);
    await stage.advance("30s");
  },
  async ({ api }) => {
    expect(api).toEqual(["job Failed: a terminated Error 3"]);
  },
);

apiScenario(
  "a pod that is deleted while its image is being pulled takes its pull along, and goes at once",
  async (stage) => {
    stage.runtime.registry.set("slow:1", undefined);
    stage.runtime.before.pullImage = () =>
      new Promise((resolve) => void stage.clock.wakeAt(stage.clock.now() + 600_000, resolve));
    await stage.apply("web", { containers: [{ name: "a", image: "slow:1", imagePullPolicy: "IfNotPresent" }] });
    await stage.advance("2s");
    await stage.remove("web", 30);
    await stage.advance("2s");
  },
  async (end, stage) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(stage.runtime.calls.filter((call) => call.startsWith("pullImage"))).toEqual(["pullImage slow:1"]);
    expect(stage.runtime.givenUp).toEqual(["pullImage slow:1"]);
    expect(await stage.events("web")).toEqual(['1x Normal Pulling: Pulling image "slow:1"']);
  },
);

test("a pod that was deleted before this node heard of it never begins, and is removed from the API", async () => {
  const stage = await createStage(inCluster);
  await stage.apply("web");
  await stage.remove("web", 30);
  await stage.start();
  await stage.advance("5s");
  expect(await endOf(stage)).toEqual({ node: [], api: [] });
  expect(stage.runtime.timeline).toEqual([]);
});

test("a pod that was deleted by force while the agent was down ends when it is back", async () => {
  const stage = await play((first) => first.apply("web", { terminationGracePeriodSeconds: 7 }));
  await stage.advance("5s");
  await stage.stop();
  await stage.remove("web", 0);
  expect(stage.scene().some((line) => line.includes("running"))).toBe(true);
  await stage.start();
  await stage.advance("30s");
  expect(await endOf(stage)).toEqual({ node: [], api: [] });
});

test("a pod that was bound and deleted again while the agent was down leaves no trace", async () => {
  const stage = await play(async () => {});
  await stage.stop();
  await stage.apply("web");
  await stage.remove("web", 0);
  await stage.start();
  await stage.advance("5s");
  expect([stage.scene(), stage.runtime.timeline]).toEqual([[], []]);
});

apiScenario(
  "work of which everybody was told that it has succeeded is not done again because the runtime has forgotten how it ended",
  async (stage) => {
    await stage.apply("job", {
      restartPolicy: "OnFailure",
      containers: makePod("job", {}, ["a", "b"]).spec.containers,
    });
    await stage.advance("5s");
    await stage.exit("a", 0);
    await stage.advance("5s");
    await stage.stop();
    // What a containerd tells that was killed before it had written the end down.
    for (const each of stage.runtime.containers.values())
      if (each.config.metadata?.name === "a") Object.assign(each, { exitCode: 255, reason: "Unknown" });
    await stage.start();
    await stage.advance("1m");
  },
  async ({ api }, { runtime }) => {
    expect(api).toEqual(["job Running: a terminated Completed 0, b running"]);
    expect(runtime.containers.size).toBe(2);
  },
);

apiScenario(
  "a pod does not come to its end by what the runtime has made up, as long as the API server, which knows better, was not heard",
  async (stage) => {
    const { containers } = makePod("job", {}, ["a", "b"]).spec;
    await stage.apply("job", { restartPolicy: "Never", containers });
    await stage.advance("5s");
    await stage.exit("a", 0);
    await stage.advance("5s");
    await stage.stop();
    stage.kube.goDown();
    // What a containerd tells that was killed before it had written the end down.
    for (const each of stage.runtime.containers.values())
      if (each.config.metadata?.name === "a") Object.assign(each, { exitCode: 255, reason: "Unknown" });
    await stage.start();
    await stage.advance("5s");
    await stage.exit("b", 0);
    await stage.advance("1m");
    stage.kube.comeBack();
    await stage.advance("1m");
  },
  async ({ api }) => {
    expect(api).toEqual(["job Succeeded: a terminated Completed 0, b terminated Completed 0"]);
  },
);

test("an exit is told when the API server is back, as it was", async () => {
  const stage = await play((first) => first.apply("job", { restartPolicy: "Never" }));
  await stage.advance("5s");
  stage.kube.goDown();
  await stage.exit("a", 3);
  await stage.advance("1m");
  stage.kube.comeBack();
  await stage.advance("1m");
  expect(await stage.shown()).toEqual(["job Failed: a terminated Error 3"]);
});

test("the end of a deleted pod that could not be told is told by the next agent, when nothing of the pod is left", async () => {
  const stage = await play((first) => first.apply("web", { terminationGracePeriodSeconds: 7 }));
  await stage.advance("5s");
  stage.runtime.programs.set("a", { onTerm: "ignores" });
  await stage.remove("web", 7);
  const seen: string[] = [];
  stage.kube.goDown();
  await stage.exit("a", 5);
  await stage.advance("30s");
  stage.kill();
  stage.kube.comeBack();
  stage.kube.before.delete = async () => void seen.push(...(await stage.shown()));
  await stage.start();
  await stage.advance("1m");
  expect(seen[0]).toBe("web Failed: a terminated Error 5");
  expect(await endOf(stage)).toEqual({ node: [], api: [] });
});

test("a node that starts without its API server runs its pods, and tells of them when it is back", async () => {
  const stage = await play((first) => first.apply("web"));
  await stage.advance("5s");
  await stage.stop();
  stage.kube.goDown();
  for (const { id } of stage.runtime.containers.values()) stage.runtime.exit(id, 1);
  await stage.start();
  await stage.advance("30s");
  expect(stage.pods().map(({ status }) => status.containerStatuses?.[0]?.restartCount)).toEqual([1]);
  stage.kube.comeBack();
  await stage.advance("1m");
  expect(await stage.shown()).toEqual(["web Running, ready: a running (restarts: 1)"]);
});

test("an image that cannot be pulled is told of as users know it", async () => {
  const stage = await play((first) =>
    first.apply("web", { containers: [{ name: "a", image: "gone:1", imagePullPolicy: "IfNotPresent" }] }),
  );
  await stage.advance("9s");
  expect(await stage.shown()).toEqual(["web Pending: a waiting ImagePullBackOff"]);
  expect(await stage.events("web")).toMatchInlineSnapshot(`
    [
      "1x Normal Pulling: Pulling image "gone:1"",
      "1x Warning Failed: Failed to pull image "gone:1": failed to resolve reference "gone:1"",
      "1x Warning Failed: Error: ErrImagePull",
      "1x Normal BackOff: Back-off pulling image "gone:1"",
      "1x Warning Failed: Error: ImagePullBackOff",
    ]
  `);
});

test("a pod that must not restart is told of no sandbox that takes the place of its own", async () => {
  const stage = await play((first) => first.apply("once", { restartPolicy: "Never" }));
  await stage.advance("2s");
  for (const id of stage.runtime.sandboxes.keys()) stage.runtime.exitSandbox(id);
  await stage.advance("5s");
  expect(await stage.shown()).toEqual(["once Failed: a terminated Error 143"]);
  expect((await stage.events("once")).at(-1)).toBe("1x Normal Killing: Stopping container a");
  expect((await stage.events("once")).filter((line) => line.includes("SandboxChanged"))).toEqual([]);
});

test("a crash loop counts its events", async () => {
  const stage = await createStage(inCluster);
  stage.runtime.programs.set("a", { exitsAfterMs: 100, exitCode: 1 });
  await stage.start();
  await stage.apply("web");
  await stage.advance("1m");
  expect(await stage.events("web")).toMatchInlineSnapshot(`
    [
      "4x Normal Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod",
      "4x Normal Created: Container created",
      "4x Normal Started: Container started",
      "3x Warning BackOff: Back-off restarting failed container a in pod web_default(00000000-0000-4000-8000-000000000001)",
    ]
  `);
});

test("a static pod shows in the API, and deleting what shows it ends nothing", async () => {
  const stage = await play(async (first) => {
    await first.offer(makePod("web"));
    await first.advance("5s");
  });
  expect(await stage.shown()).toEqual([]);
  stage.agent.cluster?.node({ metadata: { uid: "node-uid" }, spec: {} });
  await stage.advance("1s");
  expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
  await stage.remove("web-node", 0);
  await stage.advance("1s");
  expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
  expect(stage.runtime.timeline.filter(({ change }) => change === "stopped")).toEqual([]);
  await stage.offer();
  await stage.advance("1m");
  expect(await endOf(stage)).toEqual({ node: [], api: [] });
});

test("a Node that is being deleted gets no mirror any more, and the one after it does", async () => {
  const stage = await play(async (first) => {
    await first.offer(makePod("web"));
    first.agent.cluster?.node({ metadata: { uid: "node-uid", deletionTimestamp: "2026-01-01T00:00:00Z" }, spec: {} });
    await first.advance("1m");
  });
  expect(await stage.shown()).toEqual([]);
  stage.agent.cluster?.node(undefined);
  stage.agent.cluster?.node({ metadata: { uid: "next-uid" }, spec: {} });
  await stage.advance("1s");
  expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
});

test("a static pod whose name another one of its source has is told of once, as long as that lasts", async () => {
  const stage = await play(async () => {});
  const pod = makePod("web");
  const { name, uid } = pod.metadata;
  const refuse = async (...namesakes: readonly Pod[]) => {
    stage.agent.desired.refuse("file", [], namesakes);
    await stage.advance("1m");
  };
  const what = `Error validating pod ${name}_default(${uid}) from file due to duplicate pod name "${name}", ignoring`;
  await refuse(pod);
  await refuse(pod);
  expect(await stage.events("web-node")).toEqual([`1x Warning FailedValidation: ${what}`]);
  await refuse();
  await refuse(pod);
  expect(await stage.events("web-node")).toEqual([`2x Warning FailedValidation: ${what}`]);
});

test("a manifest that goes and comes back while the API server is away is told of as it runs now", async () => {
  const stage = await play(async (first) => {
    await first.offer(makePod("web"));
    first.agent.cluster?.node({ metadata: { uid: "node-uid" }, spec: {} });
    await first.advance("5s");
  });
  const told = async () =>
    (await stage.kube.user.list(pods(), {})).items[0]?.status?.containerStatuses?.[0]?.containerID;
  const before = await told();
  stage.kube.goDown();
  await stage.offer();
  await stage.advance("1m");
  await stage.offer(makePod("web"));
  await stage.advance("1m");
  stage.kube.comeBack();
  await stage.advance("1m");
  expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
  expect(await told()).not.toBe(before);
});

test("when nothing changes nothing is asked of the API server", async () => {
  const stage = await play((first) => first.apply("web"));
  await stage.advance("30s");
  stage.kube.calls.length = 0;
  await stage.advance("4m");
  expect(stage.kube.calls.filter((call) => !call.startsWith("watch"))).toEqual([]);
  expect(stage.clock.now()).toBeGreaterThan(FakeClock.start);
});

test("no status goes back to Pending because the agent is new", async () => {
  const stage = await play((first) => first.apply("web"));
  await stage.advance("5s");
  const phases = new Set<string>();
  stage.kube.after.patch = async () => void phases.add((await stage.shown())[0] ?? "");
  await stage.stop();
  stage.kube.failures = { watch: [unreachable()] };
  await stage.start();
  await stage.advance("1m");
  expect([...phases].filter((line) => line.includes("Pending"))).toEqual([]);
});

test("a pod waits for the runtime's network, is told of that once, and begins as soon as it is there", async () => {
  const stage = await createStage(inCluster);
  stage.networkProblem =
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:";
  await stage.start();
  await stage.apply("web");
  await stage.advance("60s");
  expect(await stage.shown()).toEqual(["web Pending: a waiting ContainerCreating"]);
  const told = `Warning NetworkNotReady: network is not ready: ${stage.networkProblem}`;
  expect(await stage.events("web")).toEqual([`1x ${told}`]);
  stage.networkProblem = undefined;
  stage.agent.wakeAll();
  await stage.advance("1s");
  expect(await stage.shown()).toContain("web Running, ready: a running");
  expect((await stage.events("web")).filter((line) => line.includes("Warning"))).toEqual([`1x ${told}`]);
});
