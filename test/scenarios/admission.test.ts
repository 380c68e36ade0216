// Which pods a node takes: as users of a cluster see it, and whatever call the agent dies after.
import { expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { pods } from "../../kube/resource.ts";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { rest } from "../fakes/clock.ts";
import { createStage, makePod, type Stage, type StageOptions } from "./harness.ts";
import { scenario } from "./scenario.ts";

const listening = (hostPort: number): Partial<PodSpec> => ({
  containers: [{ name: "a", image: "busybox:1", ports: [{ containerPort: 80, hostPort }] }],
});
const begin = async (options: StageOptions = {}): Promise<Stage> => {
  const stage = await createStage({ isInCluster: true, ...options });
  await stage.start();
  return stage;
};
const restart = async (stage: Stage): Promise<void> => {
  await stage.stop();
  await stage.start();
  await stage.advance("5s");
};
const messageOf = async (stage: Stage, name: string) =>
  (await stage.kube.user.get(pods("default"), name)).status?.message;

const full = "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2";

scenario(
  "of three pods for two places the last is rejected, nothing of it ever runs, and a place that gets free is for another",
  {
    options: { isInCluster: true, maxPods: 2 },
    async run(stage) {
      for (const name of ["a", "b", "c"]) await stage.apply(name);
      await stage.advance("5s");
      stage.tell(await stage.shown());
      await stage.remove("a", 1);
      await stage.advance("10s");
      await stage.apply("d");
      await stage.advance("5s");
      stage.tell(await stage.shown());
      stage.tell(await stage.events("c"));
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report a Pending: a waiting ContainerCreating
      0s default/a: prepare volumes
      0s default/a: run sandbox (attempt 0): the pod has none
      0s default/a: create container a (attempt 0): it has not run yet
      0s default/a: start container a (attempt 0)
      0s report a Running, ready: a running
      0s report b Pending: a waiting ContainerCreating
      0s default/b: prepare volumes
      0s default/b: run sandbox (attempt 0): the pod has none
      0s default/b: create container a (attempt 0): it has not run yet
      0s default/b: start container a (attempt 0)
      0s report b Running, ready: a running
      0s report c Failed (OutOfpods), terminated: no containers
      5s a Running, ready: a running
      5s b Running, ready: a running
      5s c Failed (OutOfpods): no containers
      5s report a Running, ready, terminating: a running
      5s default/a: stop container a within 2s: it was deleted
      5s report a Failed, terminating: a terminated Error 143
      5s default/a: stop sandbox: it was deleted
      5s default/a: remove sandbox: it was deleted
      5s default/a: remove the pod's files: it was deleted
      5s report a Failed, finished: a terminated Error 143
      15s report d Pending: a waiting ContainerCreating
      15s default/d: prepare volumes
      15s default/d: run sandbox (attempt 0): the pod has none
      15s default/d: create container a (attempt 0): it has not run yet
      15s default/d: start container a (attempt 0)
      15s report d Running, ready: a running
      20s b Running, ready: a running
      20s c Failed (OutOfpods): no containers
      20s d Running, ready: a running
      20s 1x Warning OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"
    `);
  },
);

test("of five hundred pods for a hundred and ten exactly so many are taken, and the others are told why not", async () => {
  const stage = await begin();
  const names = Array.from({ length: 500 }, (_, index) => `web-${String(index).padStart(3, "0")}`);
  await Promise.all(names.map((name) => stage.apply(name)));
  await stage.advance("30s");
  const counts = Map.groupBy(await stage.shown(), (line) => line.replace(/^\S+ /, ""));
  expect(Object.fromEntries([...counts].map(([line, all]) => [line, all.length]))).toEqual({
    "Running, ready: a running": 110,
    "Failed (OutOfpods): no containers": 390,
  });
  expect(stage.runtime.sandboxes.size).toBe(110);
  expect(await messageOf(stage, "web-499")).toBe(
    "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110",
  );
}, 60_000);

test("a rejected pod is shown as the kubelet shows it, and by the next agent too", async () => {
  const stage = await begin({ maxPods: 0 });
  await stage.apply("web");
  await stage.advance("5s");
  const { status } = await stage.kube.user.get(pods("default"), "web");
  expect(status).toEqual({
    phase: "Failed",
    reason: "OutOfpods",
    message: "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 0, capacity: 0",
    startTime: "2026-01-01T00:00:00Z",
    qosClass: "BestEffort",
    observedGeneration: 1,
  });
  stage.kube.calls.length = 0;
  await restart(stage);
  expect((await stage.kube.user.get(pods("default"), "web")).status).toEqual(status);
  expect(stage.kube.calls.filter((call) => call.startsWith("patch"))).toEqual([]);
  expect(await stage.events("web")).toEqual([
    "1x Warning OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 0, capacity: 0",
  ]);
});

test("a place is free before anybody hears that its pod has ended", async () => {
  const stage = await begin({ maxPods: 1 });
  await stage.apply("job", { restartPolicy: "Never" });
  await stage.advance("5s");
  // As a scheduler does: the next one comes as soon as the end of the one before is seen.
  let isNextBound = false;
  stage.kube.after.patch = async () => {
    if (isNextBound || !(await stage.shown()).some((line) => line.startsWith("job Succeeded"))) return;
    isNextBound = true;
    await stage.apply("next");
  };
  await stage.exit("a", 0);
  await stage.advance("5s");
  expect(await stage.shown()).toEqual(["job Succeeded: a terminated Completed 0", "next Running, ready: a running"]);
});

test("a pod that ends keeps its place until it has; one that was deleted by force gives it back at once", async () => {
  const stage = await begin({ maxPods: 1 });
  await stage.apply("web", { terminationGracePeriodSeconds: 20 });
  await stage.advance("5s");
  stage.runtime.programs.set("a", { onTerm: "ignores" });
  await stage.remove("web", 20);
  await stage.apply("early");
  await stage.advance("1s");
  expect(await stage.shown()).toContain("early Failed (OutOfpods): no containers");
  await stage.remove("web", 0);
  await stage.apply("late");
  await stage.advance("5s");
  expect(await stage.shown()).toContain("late Running, ready: a running");
});

scenario(
  "what was taken is not rejected by an agent that has fewer places, or other labels, and what was rejected is not taken by one with more",
  {
    options: { isInCluster: true, maxPods: 2 },
    async run(stage) {
      stage.node = { metadata: { labels: { disk: "ssd" } }, spec: {} };
      await stage.apply("a", { nodeSelector: { disk: "ssd" } });
      await stage.apply("b", listening(80));
      await stage.apply("c");
      await stage.advance("5s");
      stage.node = { metadata: { labels: {} }, spec: { taints: [{ key: "broken", effect: "NoExecute" }] } };
      stage.maxPods = 1;
      await restart(stage);
      stage.maxPods = 9;
      await restart(stage);
    },
  },
  () => {},
);

async function loseRecords({ disk }: Stage): Promise<void> {
  const root = disk.at("/root");
  for (const { name } of (await root.list("berth/pods")) ?? []) await root.remove(`berth/pods/${name}`);
}

test("what runs was taken, also where no record and no API server says so", async () => {
  const stage = await createStage({ isInCluster: true, maxPods: 2 });
  stage.kube.failures = { patch: Array.from({ length: 99 }, () => new KubeError("SERVER", "nobody is told")) };
  await stage.start();
  for (const name of ["a", "b"]) await stage.apply(name);
  await stage.advance("5s");
  await stage.stop();
  await loseRecords(stage);
  expect((await stage.kube.user.get(pods("default"), "b")).status?.startTime).toBeUndefined();
  stage.kube.failures = {};
  stage.maxPods = 1;
  await stage.start();
  await stage.advance("5s");
  expect(await stage.shown()).toEqual(["a Running, ready: a running", "b Running, ready: a running"]);
});

test("what the API server shows to have begun was taken, also where nothing of it runs and no record says so", async () => {
  const stage = await begin({ maxPods: 3 });
  for (const name of ["a", "b"]) await stage.apply(name);
  // Nothing of it runs, and the API server shows its start.
  await stage.apply("waits", { volumes: [{ name: "v", secret: { secretName: "s" } }] });
  await stage.advance("5s");
  await stage.stop();
  await loseRecords(stage);
  const { items } = await stage.kube.user.list(pods(), {});
  expect(items.map(({ status }) => status?.startTime)).toHaveLength(3);
  stage.maxPods = 1;
  await stage.start();
  await stage.apply("d");
  await stage.advance("5s");
  expect(await stage.shown()).toEqual([
    "a Running, ready: a running",
    "b Running, ready: a running",
    "d Failed (OutOfpods): no containers",
    "waits Pending: a waiting ContainerCreating",
  ]);
});

test("until the node's object is heard no pod of the API is answered, begun or told of", async () => {
  const stage = await createStage({ isInCluster: true });
  stage.node = "unknown";
  await stage.start();
  await stage.apply("here", { nodeSelector: { disk: "ssd" } });
  await stage.advance("10s");
  expect(stage.pods().map(({ status }) => `${status.phase}: ${status.message}`)).toEqual([
    "Pending: whether this node takes the pod is not decided yet",
  ]);
  expect([stage.runtime.timeline, stage.kube.calls.filter((call) => call.startsWith("patch"))]).toEqual([[], []]);
  stage.node = { metadata: { labels: { disk: "ssd" } }, spec: {} };
  stage.agent.cluster?.node({ metadata: { uid: "node-uid" }, spec: {} });
  await stage.advance("5s");
  expect(await stage.shown()).toEqual(["here Running, ready: a running"]);
});

test("a pod whose labels the node has not heard of yet is answered when the node was asked for", async () => {
  const stage = await begin();
  const heard = { metadata: { labels: {} }, spec: {} };
  stage.node = heard;
  let answer = Promise.withResolvers<boolean>();
  stage.askNode = () => answer.promise;
  await stage.apply("late", { nodeSelector: { disk: "ssd" } });
  await stage.apply("other", { nodeSelector: { disk: "tape" } });
  await stage.advance("5s");
  expect(stage.pods().map(({ status }) => status.phase)).toEqual(["Pending", "Pending"]);
  // An API server that is away has not answered: they wait until it is back.
  answer.resolve(false);
  await rest();
  expect(stage.pods().map(({ status }) => status.phase)).toEqual(["Pending", "Pending"]);
  answer = Promise.withResolvers();
  stage.agent.cluster?.node({ metadata: { uid: "node-uid" }, spec: {} });
  stage.node = { metadata: { labels: { disk: "ssd" } }, spec: {} };
  answer.resolve(true);
  await stage.advance("5s");
  expect(await stage.shown()).toEqual(["late Running, ready: a running", "other Failed (NodeAffinity): no containers"]);
});

test("and asked for again, as often as nobody answers", async () => {
  const stage = await begin();
  stage.node = { metadata: { labels: {} }, spec: {} };
  let tries = 0;
  stage.askNode = async () => {
    if (++tries < 3) return false;
    stage.node = { metadata: { labels: { disk: "ssd" } }, spec: {} };
    return true;
  };
  await stage.apply("late", { nodeSelector: { disk: "ssd" } });
  await stage.advance("30s");
  expect([tries, await stage.shown()]).toEqual([3, ["late Running, ready: a running"]]);
  await stage.apply("gone", { nodeSelector: { disk: "tape" } });
  stage.askNode = async () => ++tries < 0;
  await stage.remove("gone", 0);
  const before = tries;
  await stage.advance("60s");
  expect(tries).toBe(before);
});

scenario(
  "of two manifests with one host port the first runs; the other stays rejected until it is another one",
  {
    options: { isInCluster: true },
    async run(stage) {
      stage.agent.cluster?.node({ metadata: { uid: "node-uid" }, spec: {} });
      const [first, second] = [makePod("first", listening(80)), makePod("second", listening(80))];
      await stage.offer(first, second);
      await stage.advance("5s");
      stage.agent.cluster?.node({ metadata: { uid: "node-uid" }, spec: {} });
      await stage.offer(second);
      await stage.advance("40s");
      await restart(stage);
      stage.agent.cluster?.node({ metadata: { uid: "node-uid" }, spec: {} });
      await stage.advance("1s");
      stage.tell(await stage.shown());
      await stage.offer(makePod("second", { ...listening(80), terminationGracePeriodSeconds: 7 }));
      await stage.advance("5s");
      stage.agent.cluster?.node({ metadata: { uid: "node-uid" }, spec: {} });
      await stage.advance("1s");
      stage.tell(await stage.shown());
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report first Pending: a waiting ContainerCreating
      0s report second Failed (NodePorts), terminated: no containers
      0s first: prepare volumes
      0s first: run sandbox (attempt 0): the pod has none
      0s first: create container a (attempt 0): it has not run yet
      0s first: start container a (attempt 0)
      0s report first Running, ready: a running
      5s report first Running, ready, terminating: a running
      5s first: stop container a within 30s: its manifest is gone
      5s report first Running, terminating: a terminated Error 143
      5s first: stop sandbox: its manifest is gone
      5s first: remove sandbox: its manifest is gone
      5s first: remove the pod's files: its manifest is gone
      5s report first Running, finished: a terminated Error 143
      45s following the container runtime
      51s second Failed (NodePorts): no containers
      51s report second Failed (NodePorts), finished: no containers
      51s report second Pending: a waiting ContainerCreating
      51s second: prepare volumes
      51s second: run sandbox (attempt 0): the pod has none
      51s second: create container a (attempt 0): it has not run yet
      51s second: start container a (attempt 0)
      51s report second Running, ready: a running
      57s second Running, ready: a running"
    `);
  },
);

scenario(
  "a manifest that is replaced does not stand in its own way",
  {
    async run(stage) {
      await stage.offer(makePod("web", listening(80)));
      await stage.advance("5s");
      await stage.offer(makePod("web", { ...listening(80), terminationGracePeriodSeconds: 7 }));
      await stage.advance("40s");
      expect(stage.pods().map(({ status }) => status.phase)).toEqual(["Running"]);
    },
  },
  () => {},
);

test("a static pod has room made for it, also where every place is taken", async () => {
  const stage = await begin({ maxPods: 1 });
  await stage.apply("a");
  await stage.offer(makePod("web"));
  await stage.advance("5s");
  await stage.apply("b");
  await stage.advance("5s");
  expect(stage.pods().map(({ pod, status }) => `${pod.metadata.name} ${status.reason ?? status.phase}`)).toEqual([
    "a Running",
    "b OutOfpods",
    "web-node Running",
  ]);
});

test("nobody is rejected for the sake of a pod that has ended while no agent ran", async () => {
  const stage = await begin();
  await stage.offer(makePod("once", { ...listening(80), restartPolicy: "Never" }));
  await stage.advance("5s");
  await stage.stop();
  await stage.exit("a", 0);
  await stage.offer(makePod("once", { ...listening(80), restartPolicy: "Never" }), makePod("next", listening(80)));
  await stage.start();
  await stage.advance("5s");
  expect(stage.pods().map(({ pod, status }) => `${pod.metadata.name} ${status.phase}`)).toEqual([
    "next-node Running",
    "once-node Succeeded",
  ]);
});

test("a pod that asks for what no node grants is rejected as by the kubelet, and takes no place", async () => {
  const stage = await createStage({ isInCluster: true, maxPods: 1 });
  stage.runtime.abilities = { userNamespaces: true, supplementalGroupsPolicy: false };
  await stage.apply("deep", { securityContext: { sysctls: [{ name: "kernel/pid_max", value: "9" }] } });
  await stage.apply("strict", { securityContext: { supplementalGroupsPolicy: "Strict" } });
  await stage.apply("web");
  await stage.start();
  await stage.advance("5s");
  expect(await stage.shown()).toEqual([
    "deep Failed (SysctlForbidden): no containers",
    "strict Failed (SupplementalGroupsPolicyNotSupported): no containers",
    "web Running, ready: a running",
  ]);
  expect((await stage.events("deep")).join()).toContain('forbidden sysctl: "kernel.pid_max" not allowlisted');
});

test("a pod may set the sysctls that its node allows, and no others", async () => {
  const stage = await createStage({ isInCluster: true, allowedUnsafeSysctls: ["net.core.somaxconn", "kernel/msg*"] });
  const sets = (name: string, more = {}) => ({ ...more, securityContext: { sysctls: [{ name, value: "1024" }] } });
  await stage.apply("backlog", sets("net/core/somaxconn"));
  await stage.apply("deep", sets("net.core.rmem_max"));
  await stage.apply("shared", sets("kernel.msgmax", { hostIPC: true }));
  await stage.offer(makePod("queue", sets("kernel.msgmax")), makePod("table", sets("kernel.sem")));
  await stage.start();
  await stage.advance("5s");
  expect(stage.pods().map(({ pod, status }) => `${pod.metadata.name} ${status.reason ?? status.phase}`)).toEqual([
    "backlog Running",
    "deep SysctlForbidden",
    "queue-node Running",
    "shared SysctlForbidden",
    "table-node SysctlForbidden",
  ]);
  expect((await stage.events("shared")).join()).toContain(
    'forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled',
  );
});

test("a pod that asks for more devices than the node has is told so, and one that nobody would hand them to waits", async () => {
  const stage = await createStage({ isInCluster: true, maxPods: 2 });
  const dongles = (count: string) => {
    const resources = { limits: { "example.com/dongle": count }, requests: { "example.com/dongle": count } };
    return { containers: [{ name: "a", image: "busybox:1", resources }] };
  };
  const two = { "example.com/dongle": "2" };
  stage.node = { metadata: { name: "node" }, spec: {}, status: { capacity: two, allocatable: two } };
  await stage.apply("many", dongles("3"));
  await stage.apply("some", dongles("2"));
  await stage.apply("web");
  await stage.start();
  await stage.advance("5s");
  expect(await stage.shown()).toEqual([
    "many Failed (OutOfexample.com/dongle): no containers",
    "some Pending: a waiting ContainerCreating",
    "web Running, ready: a running",
  ]);
});

test("a pod of the API that asks for what this release lacks waits and says for what: one that fails would be replaced for ever", async () => {
  const stage = await createStage({ isInCluster: true });
  const mounted = { name: "a", image: "busybox:1", volumeMounts: [{ name: "v", mountPath: "/v", subPath: "part" }] };
  await stage.apply("part", { containers: [mounted], volumes: [{ name: "v", emptyDir: { medium: "Memory" } }] });
  await stage.apply("whole", { resources: { limits: { cpu: "1" } } });
  await stage.start();
  await stage.advance("5s");
  expect(await stage.shown()).toEqual([
    "part Pending: a waiting ContainerCreating",
    "whole Pending: a waiting ContainerCreating",
  ]);
  const told = [...(await stage.events("part")), ...(await stage.events("whole"))].map((line) =>
    line.replace(/^\d+x /, ""),
  );
  expect([...new Set(told)]).toEqual([
    "Warning FailedMount: not supported by this release yet: volumeMounts.subPath, emptyDir.medium",
    "Warning FailedCreatePodSandBox: Failed to create pod sandbox: not supported by this release yet: pod-level resources",
  ]);
});

test("pods that wait for a runtime are answered when it is there", async () => {
  const stage = await createStage({ isInCluster: true, maxPods: 1 });
  stage.runtime.goDown();
  await stage.start();
  await stage.apply("a");
  await stage.apply("b");
  await stage.advance("5s");
  expect(stage.kube.calls.filter((call) => call.startsWith("patch"))).toEqual([]);
  stage.runtime.comeBack();
  await stage.advance("10s");
  expect(await stage.shown()).toEqual(["a Running, ready: a running", "b Failed (OutOfpods): no containers"]);
});

test("what nobody can be told is kept: a rejection outlives the agent while the API server is away", async () => {
  const stage = await begin({ maxPods: 2 });
  for (const name of ["a", "b"]) await stage.apply(name);
  await stage.advance("5s");
  stage.kube.failures = { patch: Array.from({ length: 99 }, () => new KubeError("SERVER", "nobody is told")) };
  await stage.apply("c");
  await stage.advance("1s");
  await stage.stop();
  stage.maxPods = 9;
  stage.kube.failures = {};
  await stage.start();
  await stage.advance("5s");
  expect(await messageOf(stage, "c")).toBe(`Pod was rejected: ${full}`);
});
