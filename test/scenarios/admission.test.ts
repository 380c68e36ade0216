// Pod admission as users of a cluster see it, also after the agent dies after any of its calls.
import { expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { pods } from "../../kube/resource.ts";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import type { HarnessOptions } from "./harness/harness-options.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { scenario } from "./scenario.ts";

const withHostPort = (hostPort: number): Partial<PodSpec> => ({
  containers: [{ name: "a", image: "busybox:1", ports: [{ containerPort: 80, hostPort }] }],
});
const startInCluster = async (options: HarnessOptions = {}): Promise<AgentHarness> => {
  const harness = await createHarness({ isInCluster: true, ...options });
  await harness.start();
  return harness;
};
const restart = async (harness: AgentHarness): Promise<void> => {
  await harness.stop();
  await harness.start();
  await harness.advance("5s");
};
const messageOf = async (harness: AgentHarness, name: string) =>
  (await harness.kube.user.get(pods("default"), name)).status?.message;

const full = "Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2";

scenario(
  "a node with maxPods 2 rejects the third pod and never runs it, and admits another one after a deletion",
  {
    options: { isInCluster: true, maxPods: 2 },
    async run(harness) {
      for (const name of ["a", "b", "c"]) await harness.apply(name);
      await harness.advance("5s");
      harness.appendLog(await harness.apiPods());
      await harness.deletePod("a", 1);
      await harness.advance("10s");
      await harness.apply("d");
      await harness.advance("5s");
      harness.appendLog(await harness.apiPods());
      harness.appendLog(await harness.events("c"));
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report a Pending: a waiting ContainerCreating
      0s default/a: create the pod's log directory
      0s default/a: run sandbox (attempt 0): the pod has none
      0s default/a: create the pod's directories
      0s default/a: create container a (attempt 0): it has not run yet
      0s default/a: start container a (attempt 0)
      0s report a Running, ready: a running
      0s report b Pending: a waiting ContainerCreating
      0s default/b: create the pod's log directory
      0s default/b: run sandbox (attempt 0): the pod has none
      0s default/b: create the pod's directories
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
      5s default/a: remove the pod's logs: it was deleted
      5s default/a: remove the pod's files: it was deleted
      5s report a Failed, finished: a terminated Error 143
      15s report d Pending: a waiting ContainerCreating
      15s default/d: create the pod's log directory
      15s default/d: run sandbox (attempt 0): the pod has none
      15s default/d: create the pod's directories
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

test("a rejected pod has the kubelet's status and event, and the next agent changes neither", async () => {
  const harness = await startInCluster({ maxPods: 0 });
  await harness.apply("web");
  await harness.advance("5s");
  const { status } = await harness.kube.user.get(pods("default"), "web");
  expect(status).toEqual({
    phase: "Failed",
    reason: "OutOfpods",
    message: "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 0, capacity: 0",
    startTime: "2026-01-01T00:00:00Z",
    qosClass: "BestEffort",
    observedGeneration: 1,
  });
  harness.kube.calls.length = 0;
  await restart(harness);
  expect((await harness.kube.user.get(pods("default"), "web")).status).toEqual(status);
  expect(harness.kube.calls.filter((call) => call.startsWith("patch"))).toEqual([]);
  expect(await harness.events("web")).toEqual([
    "1x Warning OutOfpods: Node didn't have enough resource: pods, requested: 1, used: 0, capacity: 0",
  ]);
});

test("a finished pod releases its resources before the API server shows its end", async () => {
  // A short lag, since the hook reads the pods while the agent sends a patch.
  const harness = await startInCluster({ maxPods: 1, hasShortLag: true });
  await harness.apply("job", { restartPolicy: "Never" });
  await harness.advance("5s");
  // As the scheduler does: it binds the next pod as soon as it sees the end of the first.
  let isNextBound = false;
  harness.kube.after.patch = async () => {
    if (isNextBound || !(await harness.apiPods()).some((line) => line.startsWith("job Succeeded"))) return;
    isNextBound = true;
    await harness.apply("next");
  };
  await harness.exit("a", 0);
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual([
    "job Succeeded: a terminated Completed 0",
    "next Running, ready: a running",
  ]);
});

test("a terminating pod counts until it has ended; one that is force-deleted releases its resources at once", async () => {
  const harness = await startInCluster({ maxPods: 1 });
  await harness.apply("web", { terminationGracePeriodSeconds: 20 });
  await harness.advance("5s");
  harness.runtime.programs.set("a", { onTerm: "ignores" });
  await harness.deletePod("web", 20);
  await harness.apply("early");
  await harness.advance("1s");
  expect(await harness.apiPods()).toContain("early Failed (OutOfpods): no containers");
  await harness.deletePod("web", 0);
  await harness.apply("late");
  await harness.advance("5s");
  expect(await harness.apiPods()).toContain("late Running, ready: a running");
});

scenario(
  "a restarted agent keeps the admission verdicts, also with other node labels, taints and maxPods",
  {
    options: { isInCluster: true, maxPods: 2 },
    async run(harness) {
      harness.nodeObject = { metadata: { labels: { disk: "ssd" } }, spec: {} };
      await harness.apply("a", { nodeSelector: { disk: "ssd" } });
      await harness.apply("b", withHostPort(80));
      await harness.apply("c");
      await harness.advance("5s");
      harness.nodeObject = { metadata: { labels: {} }, spec: { taints: [{ key: "broken", effect: "NoExecute" }] } };
      harness.maxPods = 1;
      await restart(harness);
      harness.maxPods = 9;
      await restart(harness);
    },
  },
  () => {},
);

async function removeCheckpoints({ disk }: AgentHarness): Promise<void> {
  const root = disk.at("/root");
  for (const { name } of (await root.list("berth/pods")) ?? []) await root.remove(`berth/pods/${name}`);
}

test("a running pod counts as admitted, also without a checkpoint and without a status in the API", async () => {
  const harness = await createHarness({ isInCluster: true, maxPods: 2 });
  harness.kube.failures = { patch: Array.from({ length: 99 }, () => new KubeError("SERVER", "unavailable")) };
  await harness.start();
  for (const name of ["a", "b"]) await harness.apply(name);
  await harness.advance("5s");
  await harness.stop();
  await removeCheckpoints(harness);
  expect((await harness.kube.user.get(pods("default"), "b")).status?.startTime).toBeUndefined();
  harness.kube.failures = {};
  harness.maxPods = 1;
  await harness.start();
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual(["a Running, ready: a running", "b Running, ready: a running"]);
});

test("a pod with status.startTime counts as admitted, also without a checkpoint and without a container", async () => {
  const harness = await startInCluster({ maxPods: 3 });
  for (const name of ["a", "b"]) await harness.apply(name);
  // It has no container, but a startTime in the API.
  await harness.apply("waits", { volumes: [{ name: "v", secret: { secretName: "s" } }] });
  await harness.advance("5s");
  await harness.stop();
  await removeCheckpoints(harness);
  const { items } = await harness.kube.user.list(pods(), {});
  expect(items.map(({ status }) => status?.startTime)).toHaveLength(3);
  harness.maxPods = 1;
  await harness.start();
  await harness.apply("d");
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual([
    "a Running, ready: a running",
    "b Running, ready: a running",
    "d Failed (OutOfpods): no containers",
    "waits Pending: a waiting ContainerCreating",
  ]);
});

test("until the Node object is known no API pod is admitted, started or reported", async () => {
  const harness = await createHarness({ isInCluster: true });
  harness.nodeObject = "unknown";
  await harness.start();
  await harness.apply("here", { nodeSelector: { disk: "ssd" } });
  await harness.advance("10s");
  expect(harness.podReports().map(({ status }) => `${status.phase}: ${status.message}`)).toEqual([
    "Pending: the pod waits for admission",
  ]);
  expect([harness.runtime.timeline, harness.kube.calls.filter((call) => call.startsWith("patch"))]).toEqual([[], []]);
  harness.nodeObject = { metadata: { labels: { disk: "ssd" } }, spec: {} };
  harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual(["here Running, ready: a running"]);
});

test("a pod whose node selector does not match the cached Node is decided after a fresh read of the Node", async () => {
  const harness = await startInCluster();
  const staleNode = { metadata: { labels: {} }, spec: {} };
  harness.nodeObject = staleNode;
  let answer = Promise.withResolvers<boolean>();
  harness.readNode = () => answer.promise;
  await harness.apply("late", { nodeSelector: { disk: "ssd" } });
  await harness.apply("other", { nodeSelector: { disk: "tape" } });
  await harness.advance("5s");
  expect(harness.podReports().map(({ status }) => status.phase)).toEqual(["Pending", "Pending"]);
  // The read failed: both pods wait for the next read.
  answer.resolve(false);
  await settlePromises();
  expect(harness.podReports().map(({ status }) => status.phase)).toEqual(["Pending", "Pending"]);
  answer = Promise.withResolvers();
  harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
  harness.nodeObject = { metadata: { labels: { disk: "ssd" } }, spec: {} };
  answer.resolve(true);
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual([
    "late Running, ready: a running",
    "other Failed (NodeAffinity): no containers",
  ]);
});

test("the read of the Node is repeated until it succeeds or no pod needs it", async () => {
  const harness = await startInCluster();
  harness.nodeObject = { metadata: { labels: {} }, spec: {} };
  let tries = 0;
  harness.readNode = async () => {
    if (++tries < 3) return false;
    harness.nodeObject = { metadata: { labels: { disk: "ssd" } }, spec: {} };
    return true;
  };
  await harness.apply("late", { nodeSelector: { disk: "ssd" } });
  await harness.advance("30s");
  expect([tries, await harness.apiPods()]).toEqual([3, ["late Running, ready: a running"]]);
  await harness.apply("gone", { nodeSelector: { disk: "tape" } });
  harness.readNode = async () => ++tries < 0;
  await harness.deletePod("gone", 0);
  const before = tries;
  await harness.advance("60s");
  expect(tries).toBe(before);
});

scenario(
  "of two manifests with the same host port the first runs; the other stays rejected until its manifest changes",
  {
    options: { isInCluster: true },
    async run(harness) {
      harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
      const [first, second] = [makePod("first", withHostPort(80)), makePod("second", withHostPort(80))];
      await harness.setManifests(first, second);
      await harness.advance("5s");
      harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
      await harness.setManifests(second);
      await harness.advance("40s");
      await restart(harness);
      harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
      await harness.advance("1s");
      harness.appendLog(await harness.apiPods());
      await harness.setManifests(makePod("second", { ...withHostPort(80), terminationGracePeriodSeconds: 7 }));
      await harness.advance("5s");
      harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
      await harness.advance("1s");
      harness.appendLog(await harness.apiPods());
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report first Pending: a waiting ContainerCreating
      0s report second Failed (NodePorts), terminated: no containers
      0s first: create the pod's log directory
      0s first: run sandbox (attempt 0): the pod has none
      0s first: create the pod's directories
      0s first: create container a (attempt 0): it has not run yet
      0s first: start container a (attempt 0)
      0s report first Running, ready: a running
      5s report first Running, ready, terminating: a running
      5s first: stop container a within 30s: its manifest is gone
      5s report first Running, terminating: a terminated Error 143
      5s first: stop sandbox: its manifest is gone
      5s first: remove sandbox: its manifest is gone
      5s first: remove the pod's logs: its manifest is gone
      5s first: remove the pod's files: its manifest is gone
      5s report first Running, finished: a terminated Error 143
      45s following the container runtime
      51s second Failed (NodePorts): no containers
      51s report second Failed (NodePorts), finished: no containers
      51s report second Pending: a waiting ContainerCreating
      51s second: create the pod's log directory
      51s second: run sandbox (attempt 0): the pod has none
      51s second: create the pod's directories
      51s second: create container a (attempt 0): it has not run yet
      51s second: start container a (attempt 0)
      51s report second Running, ready: a running
      57s second Running, ready: a running"
    `);
  },
);

scenario(
  "a changed manifest with the same host port does not conflict with its predecessor",
  {
    async run(harness) {
      await harness.setManifests(makePod("web", withHostPort(80)));
      await harness.advance("5s");
      await harness.setManifests(makePod("web", { ...withHostPort(80), terminationGracePeriodSeconds: 7 }));
      await harness.advance("40s");
      expect(harness.podReports().map(({ status }) => status.phase)).toEqual(["Running"]);
    },
  },
  () => {},
);

test("a static pod is admitted also when maxPods is reached", async () => {
  const harness = await startInCluster({ maxPods: 1 });
  await harness.apply("a");
  await harness.setManifests(makePod("web"));
  await harness.advance("5s");
  await harness.apply("b");
  await harness.advance("5s");
  expect(
    harness.podReports().map(({ pod, status }) => `${pod.metadata.name} ${status.reason ?? status.phase}`),
  ).toEqual(["a Running", "b OutOfpods", "web-node Running"]);
});

test("a pod that ended while no agent ran holds no resources", async () => {
  // A short lag, since the next agent starts when the runtime shows the exit.
  const harness = await startInCluster({ hasShortLag: true });
  await harness.setManifests(makePod("once", { ...withHostPort(80), restartPolicy: "Never" }));
  await harness.advance("5s");
  await harness.stop();
  await harness.exit("a", 0);
  await harness.setManifests(
    makePod("once", { ...withHostPort(80), restartPolicy: "Never" }),
    makePod("next", withHostPort(80)),
  );
  await harness.start();
  await harness.advance("5s");
  expect(harness.podReports().map(({ pod, status }) => `${pod.metadata.name} ${status.phase}`)).toEqual([
    "next-node Running",
    "once-node Succeeded",
  ]);
});

test("a pod with a forbidden sysctl or an unsupported groups policy is rejected and does not count", async () => {
  const harness = await createHarness({ isInCluster: true, maxPods: 1 });
  harness.runtime.features = { userNamespaces: true, supplementalGroupsPolicy: false };
  await harness.apply("deep", { securityContext: { sysctls: [{ name: "kernel/pid_max", value: "9" }] } });
  await harness.apply("strict", { securityContext: { supplementalGroupsPolicy: "Strict" } });
  await harness.apply("web");
  await harness.start();
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual([
    "deep Failed (SysctlForbidden): no containers",
    "strict Failed (SupplementalGroupsPolicyNotSupported): no containers",
    "web Running, ready: a running",
  ]);
  expect((await harness.events("deep")).join()).toContain('forbidden sysctl: "kernel.pid_max" not allowlisted');
});

test("a pod may set only the sysctls in allowedUnsafeSysctls, and none that host namespaces forbid", async () => {
  const harness = await createHarness({
    isInCluster: true,
    allowedUnsafeSysctls: ["net.core.somaxconn", "kernel/msg*"],
  });
  const sets = (name: string, more = {}) => ({ ...more, securityContext: { sysctls: [{ name, value: "1024" }] } });
  await harness.apply("backlog", sets("net/core/somaxconn"));
  await harness.apply("deep", sets("net.core.rmem_max"));
  await harness.apply("shared", sets("kernel.msgmax", { hostIPC: true }));
  await harness.setManifests(makePod("queue", sets("kernel.msgmax")), makePod("table", sets("kernel.sem")));
  await harness.start();
  await harness.advance("5s");
  expect(
    harness.podReports().map(({ pod, status }) => `${pod.metadata.name} ${status.reason ?? status.phase}`),
  ).toEqual([
    "backlog Running",
    "deep SysctlForbidden",
    "queue-node Running",
    "shared SysctlForbidden",
    "table-node SysctlForbidden",
  ]);
  expect((await harness.events("shared")).join()).toContain(
    'forbidden sysctl: "kernel.msgmax" not allowed with host IPC enabled',
  );
});

test("a pod that requests more devices than the node has is rejected; one without a device plugin waits", async () => {
  const harness = await createHarness({ isInCluster: true, maxPods: 2 });
  const dongles = (count: string) => {
    const resources = { limits: { "example.com/dongle": count }, requests: { "example.com/dongle": count } };
    return { containers: [{ name: "a", image: "busybox:1", resources }] };
  };
  const two = { "example.com/dongle": "2" };
  harness.nodeObject = { metadata: { name: "node" }, spec: {}, status: { capacity: two, allocatable: two } };
  await harness.apply("many", dongles("3"));
  await harness.apply("some", dongles("2"));
  await harness.apply("web");
  await harness.start();
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual([
    "many Failed (OutOfexample.com/dongle): no containers",
    "some Pending: a waiting ContainerCreating",
    "web Running, ready: a running",
  ]);
});

// A controller would replace a failed pod for ever, so the pod stays Pending.
test("an API pod that needs an unsupported feature stays Pending with an event that names the feature", async () => {
  const harness = await createHarness({ isInCluster: true });
  await harness.apply("whole", { resourceClaims: [{ name: "gpu" }] });
  await harness.start();
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual(["whole Pending: a waiting ContainerCreating"]);
  const eventLines = (await harness.events("whole")).map((line) => line.replace(/^\d+x /, ""));
  expect([...new Set(eventLines)]).toEqual([
    "Warning FailedCreatePodSandBox: Failed to create pod sandbox: not supported by this release yet: resourceClaims",
  ]);
});

test("pods that arrive while the runtime is down are admitted or rejected when it is back", async () => {
  const harness = await createHarness({ isInCluster: true, maxPods: 1 });
  harness.runtime.goDown();
  await harness.start();
  await harness.apply("a");
  await harness.apply("b");
  await harness.advance("5s");
  expect(harness.kube.calls.filter((call) => call.startsWith("patch"))).toEqual([]);
  harness.runtime.comeBack();
  await harness.advance("10s");
  expect(await harness.apiPods()).toEqual(["a Running, ready: a running", "b Failed (OutOfpods): no containers"]);
});

test("a rejection that could not be sent to the API server outlives a restart of the agent", async () => {
  const harness = await startInCluster({ maxPods: 2 });
  for (const name of ["a", "b"]) await harness.apply(name);
  await harness.advance("5s");
  harness.kube.failures = { patch: Array.from({ length: 99 }, () => new KubeError("SERVER", "unavailable")) };
  await harness.apply("c");
  await harness.advance("1s");
  await harness.stop();
  harness.maxPods = 9;
  harness.kube.failures = {};
  await harness.start();
  await harness.advance("5s");
  expect(await messageOf(harness, "c")).toBe(`Pod was rejected: ${full}`);
});
