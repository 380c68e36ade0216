import { expect, test } from "bun:test";
import type { RuntimeCgroupDriver } from "../../../cri/cgroup-driver.ts";
import { CriError } from "../../../cri/error.ts";
import { createEventSource } from "../../../host/async/event-source.ts";
import { leases, nodes } from "../../../kube/resource.ts";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { kubeError, recordRequests } from "../../../test/fakes/kube-requests.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createSignalSource, nodeSettings, observedMachine } from "../../../test/fakes/observed-node.ts";
import { FakeRuntime } from "../../../test/fakes/runtime.ts";
import { networkProblemOf } from "../../decide/node/node-conditions.ts";
import type { NodeEvent } from "../../decide/node/node-report.ts";
import { createLocalNode } from "../local-node.ts";
import { createNodeSync, nodeSettingsOf } from "./node-sync.ts";

const LEASE = "leases.coordination.k8s.io/kube-node-lease";

interface StartOptions {
  readonly kube?: FakeKube;
  readonly clock?: FakeClock;
  readonly runtime?: FakeRuntime;
  readonly registerNode?: boolean;
  readonly bootID?: string;
  readonly memoryLeft?: number;
  readonly isCloudExternal?: boolean;
  readonly ownDriver?: "cgroupfs" | "systemd";
  readonly runtimeDriver?: RuntimeCgroupDriver;
}

/** A node sync on fakes; it runs from the start. */
function startNode(options: StartOptions = {}) {
  const clock = options.clock ?? new FakeClock();
  const kube = options.kube ?? new FakeKube({ clock });
  const runtime = options.runtime ?? new FakeRuntime({ clock });
  const requests = recordRequests(kube, clock);
  const log = new FakeLog();
  const events: NodeEvent[] = [];
  const networkChanges: string[] = [];
  const hostIPChanges: string[] = [];
  const driver: { ofRuntime: RuntimeCgroupDriver | undefined } = { ofRuntime: options.runtimeDriver };
  const stop = new AbortController();
  const addresses = { all: ["192.0.2.1"] };
  const { left, ...supplies } = createSignalSource();
  if (options.memoryLeft !== undefined) left.memory = { ...left.memory, available: options.memoryLeft };
  const node = createLocalNode({
    runtime,
    readCgroupDriver: async () => driver.ofRuntime,
    ...supplies,
    clock,
    log,
    settings: nodeSettings,
    rules: [],
    cgroups: options.ownDriver && {
      driver: Promise.resolve(options.ownDriver),
      read: async () => undefined,
      write: async () => {},
    },
    isInCluster: true,
    machine: { ...observedMachine, bootID: options.bootID ?? observedMachine.bootID },
    addresses: () => addresses.all,
  });
  const nodeSync = createNodeSync({
    kube,
    node,
    clock,
    log,
    random: () => 0.5,
    settings: { ...nodeSettings, isCloudExternal: options.isCloudExternal ?? false },
    registerNode: options.registerNode ?? true,
    addresses: () => addresses.all,
    record: (event) => events.push(event),
    onNodeChanged: () => {},
    onHostIPsChanged: () => void hostIPChanges.push(nodeSync.hostIPs().join()),
  });
  const desired = {
    all: () => [],
    areAllSourcesReady: () => true,
    subscribe: () => {},
    requestTermination: async () => {},
  };
  const agent = {
    desired,
    sourcesReady: createEventSource(),
    wakeAll: () => void networkChanges.push(networkProblemOf(node.observed().runtime) ?? "the network is ready"),
    invalidateImages: () => {},
    nodeSummary: { onRuntimeObserved: () => {} },
    recordEvent: () => {},
  };
  const ended = Promise.all([node.run(agent, stop.signal), nodeSync.run(stop.signal)]);
  return {
    clock,
    kube,
    runtime,
    log,
    nodeSync,
    runtimeStatus: node.runtimeStatus,
    invalidateImages: node.invalidateImages,
    addresses,
    driver,
    left,
    /** The requests since the last call, without those of the lease; `leaseRequests` returns only those. */
    requests: () => requests.take().filter((line) => !line.includes(LEASE)),
    leaseRequests: () => requests.take().filter((line) => line.includes(LEASE)),
    /** The changes of the network's readiness. */
    network: () => networkChanges.splice(0),
    /** The changes of the addresses for pods. */
    hostIPs: () => hostIPChanges.splice(0),
    events: () => events.splice(0),
    reasons: () => events.splice(0).map(({ reason }) => reason),
    node: () => kube.user.get(nodes, "node-a"),
    async ready() {
      const { status } = await kube.user.get(nodes, "node-a");
      const found = status?.conditions?.find(({ type }) => type === "Ready");
      return `${found?.status} since ${found?.lastTransitionTime?.slice(14, 19)}: ${found?.message}`;
    },
    async end() {
      stop.abort();
      await ended;
    },
  };
}
const READY = "kubelet is posting ready status";
const silent = () => new CriError("UNAVAILABLE", "status", "the runtime is down");

test("a node is created Ready, and then causes no requests but lease renewals and a report every five minutes", async () => {
  const { clock, requests, node, ready, reasons, nodeSync, end } = startNode();
  await settlePromises();
  expect(requests()).toEqual(["0 ms create nodes"]);
  expect(await ready()).toBe(`True since 00:00: ${READY}`);
  expect(reasons()).toEqual([
    "Starting",
    "NodeHasSufficientMemory",
    "NodeHasNoDiskPressure",
    "NodeHasSufficientPID",
    "NodeReady",
  ]);
  await clock.advance(601_000);
  expect(requests()).toEqual(["300000 ms patch nodes/node-a/status", "600000 ms patch nodes/node-a/status"]);
  const { status } = await node();
  expect(status?.conditions?.map(({ lastHeartbeatTime }) => lastHeartbeatTime)).toEqual(
    Array(4).fill("2026-01-01T00:10:00Z"),
  );
  expect([await ready(), reasons()]).toEqual([`True since 00:00: ${READY}`, []]);
  expect(nodeSync.state()).toMatchObject({ status: { error: undefined }, lease: { error: undefined } });
  await end();
  expect(clock.pendingTimers).toBe(0);
});

test("the lease is created with the node and owned by it", async () => {
  const { kube, clock, leaseRequests, node } = startNode();
  await clock.advance(10_000);
  expect(leaseRequests()).toEqual([`0 ms get ${LEASE}/node-a`, `0 ms create ${LEASE}`]);
  const lease = await kube.user.get(leases("kube-node-lease"), "node-a");
  expect(lease.metadata.ownerReferences?.[0]?.uid).toBe((await node()).metadata.uid);
});

test("a node becomes Ready as soon as its runtime is up", async () => {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  runtime.failures = { status: [silent(), silent(), silent()] };
  const { requests, ready, reasons } = startNode({ clock, runtime });
  await settlePromises();
  expect(await ready()).toBe(
    "False since 00:00: [container runtime status check may not have completed yet, network state unknown]",
  );
  await clock.advance(1_000);
  expect(requests()).toEqual(["0 ms create nodes", "300 ms patch nodes/node-a/status"]);
  expect([await ready(), reasons().at(-1)]).toEqual([`True since 00:00: ${READY}`, "NodeReady"]);
});

test("a runtime that hangs does not delay the registration of the node", async () => {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  runtime.before = { status: () => new Promise(() => {}) };
  const { requests } = startNode({ clock, runtime });
  await clock.advance(1_000);
  expect(requests()).toEqual(["1000 ms create nodes"]);
});

test("a lost runtime makes the node NotReady after half a minute, and Ready at once when it returns", async () => {
  const { clock, runtime, requests, ready, reasons, runtimeStatus } = startNode();
  await clock.advance(5_000);
  requests();
  reasons();
  runtime.before = { status: () => Promise.reject(silent()) };
  runtimeStatus.markDisconnected();
  await clock.advance(24_000);
  expect([requests(), await ready()]).toEqual([[], `True since 00:00: ${READY}`]);
  await clock.advance(2_000);
  expect([requests(), await ready()]).toEqual([
    ["30000 ms patch nodes/node-a/status"],
    "False since 00:30: container runtime is down",
  ]);
  runtime.before = {};
  runtimeStatus.markDisconnected();
  await settlePromises();
  expect([await ready(), reasons()]).toEqual([`True since 00:31: ${READY}`, ["NodeNotReady", "NodeReady"]]);
});

test("a runtime with another cgroup driver is a condition, an event and a line of the log, until it has the same one", async () => {
  const shown = { name: "systemd", isReported: false } as const;
  const { clock, driver, runtimeStatus, node, ready, events, log, end } = startNode({
    ownDriver: "cgroupfs",
    runtimeDriver: shown,
  });
  await settlePromises();
  await clock.advance(1_000);
  const condition = async () => {
    const { status } = await node();
    const found = status?.conditions?.find(({ type }) => type === "CgroupDriverMismatch");
    return (
      found && `${found.status} ${found.reason} since ${found.lastTransitionTime?.slice(14, 19)}: ${found.message}`
    );
  };
  const message =
    "the container runtime uses the cgroup driver systemd and this agent cgroupfs, so no pod can start: set cgroupDriver: systemd and restart this agent, or set SystemdCgroup = false in the runtime's configuration and restart the runtime";
  expect(await condition()).toBe(`True CgroupDriverMismatch since 00:00: ${message}`);
  expect(await ready()).toBe(`False since 00:00: ${message}`);
  expect(events().find(({ reason }) => reason === "CgroupDriverMismatch")).toMatchObject({ type: "Warning", message });
  expect(log.takeLines().filter((line) => line.startsWith("warn"))).toEqual([`warn: ${message}`]);
  driver.ofRuntime = { ...shown, name: "cgroupfs" };
  runtimeStatus.markDisconnected();
  await clock.advance(10_000);
  expect(await condition()).toStartWith("False CgroupDriversMatch since 00:");
  expect(await ready()).toEndWith(READY);
  expect(events().map(({ reason }) => reason)).toEqual(["NodeReady"]);
  expect(log.takeLines().filter((line) => line.startsWith("warn"))).toEqual([]);
  await end();
});

test("sandboxes outside the cgroups of their pods leave the node Ready", async () => {
  const { node, ready, end } = startNode({
    ownDriver: "systemd",
    runtimeDriver: { name: "cgroupfs", isReported: false },
  });
  await settlePromises();
  const { status } = await node();
  const found = status?.conditions?.find(({ type }) => type === "CgroupDriverMismatch");
  expect(found).toMatchObject({ status: "True", message: expect.stringContaining("hold for no container") });
  expect(await ready()).toBe(`True since 00:00: ${READY}`);
  await end();
});

test("a lost network is noticed within ten seconds, a ready one within five, and waiting pods are woken", async () => {
  const { clock, runtime, requests, ready, network } = startNode();
  await clock.advance(5_000);
  requests();
  runtime.conditions = { RuntimeReady: true, NetworkReady: false };
  await clock.advance(5_000);
  const problem = "container runtime network not ready: NetworkReady=false reason: message:";
  expect([await ready(), network()]).toEqual([`False since 00:10: ${problem}`, [problem]]);
  await clock.advance(60_000);
  runtime.conditions = { RuntimeReady: true, NetworkReady: true };
  await clock.advance(5_000);
  expect(await ready()).toStartWith("True since 01:1");
  expect(network()).toEqual(["the network is ready"]);
  expect(requests().length).toBe(2);
});

test("pressure is reported within ten seconds, and its end after five minutes without it", async () => {
  const { clock, left, requests, node, reasons, log } = startNode();
  const pressures = async () =>
    (await node()).status?.conditions
      ?.filter(({ status, type }) => status === "True" && type !== "Ready")
      .map(({ type, reason, lastTransitionTime }) => `${type} ${reason} since ${lastTransitionTime?.slice(14, 19)}`);
  await clock.advance(25_000);
  expect([requests().length, await pressures(), reasons().length]).toEqual([1, [], 5]);
  left.memory = { ...left.memory, available: 99 * 2 ** 20 };
  left.fileSystems.set("/var/lib/fake/images", {
    totalBytes: 100e9,
    freeBytes: 14e9,
    usedBytes: 86e9,
    totalInodes: 0,
    freeInodes: 0,
  });
  await clock.advance(10_000);
  expect(requests()).toEqual(["30000 ms patch nodes/node-a/status"]);
  expect(await pressures()).toEqual([
    "MemoryPressure KubeletHasInsufficientMemory since 00:30",
    "DiskPressure KubeletHasDiskPressure since 00:30",
  ]);
  expect(reasons()).toEqual(["NodeHasInsufficientMemory", "NodeHasDiskPressure"]);
  expect(log.takeLines().at(-1)).toBe(
    "warn: the node is under pressure: memory.available is 103809024 of 8589934592, its hard threshold 100Mi; imagefs.available is 14000000000 of 100000000000, its hard threshold 15%",
  );
  left.memory = { ...left.memory, available: 2 ** 30 };
  await clock.advance(285_000);
  expect((await pressures())?.length).toBe(2);
  await clock.advance(10_000);
  expect(await pressures()).toEqual(["DiskPressure KubeletHasDiskPressure since 00:30"]);
  expect(reasons()).toEqual(["NodeHasSufficientMemory"]);
});

test("a node that is under pressure when its agent starts is never reported without it", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const { requests, reasons } = startNode({ clock, kube, memoryLeft: 0 });
  await settlePromises();
  expect(requests()).toEqual(["0 ms create nodes"]);
  expect(reasons()).toEqual([
    "Starting",
    "NodeHasInsufficientMemory",
    "NodeHasNoDiskPressure",
    "NodeHasSufficientPID",
    "NodeReady",
  ]);
});

test("a Node object that cannot be decoded is read again with growing delays, and the status is reported once it can", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const spec = { taints: [null] } as unknown as Node["spec"];
  await kube.user.create(nodes, { metadata: { name: "node-a" }, spec });
  const { log, ready, requests } = startNode({ clock, kube });
  await clock.advance(60_000);
  expect(requests().filter((line) => line.includes("create nodes")).length).toBeLessThan(15);
  const problem = "spec.taints[0]: Invalid type: got null, expected object";
  expect(log.takeLines()).toContain(`error: ignoring a Node object that cannot be decoded: ${problem}`);
  await kube.user.patch(nodes, "node-a", { type: "merge", body: { spec: { taints: null } } });
  await clock.advance(60_000);
  expect(await ready()).toContain(READY);
});

test("a changed address is reported at once, a new image soon", async () => {
  const { clock, runtime, addresses, node, nodeSync, invalidateImages, requests } = startNode();
  await clock.advance(100_000);
  requests();
  addresses.all = ["192.0.2.7", "2001:db8::7"];
  nodeSync.invalidateAddresses();
  await settlePromises();
  expect((await node()).status?.addresses?.map(({ address }) => address)).toEqual([
    "192.0.2.7",
    "2001:db8::7",
    "node-a",
  ]);
  runtime.addImage("a:1");
  invalidateImages();
  await clock.advance(30_000);
  expect(requests()).toEqual(["100000 ms patch nodes/node-a/status", "130000 ms patch nodes/node-a/status"]);
  expect((await node()).status?.images).toEqual([{ names: ["a:1"], sizeBytes: 1_000_000 }]);
});

test("an existing Node object is adopted with one report", async () => {
  const first = startNode();
  await settlePromises();
  await first.end();
  const { clock, kube } = first;
  await kube.user.patch(nodes, "node-a", {
    type: "merge",
    body: { metadata: { labels: { "kubernetes.io/hostname": "wrong", mine: "x" } }, spec: { unschedulable: true } },
  });
  await clock.advance(60_000);
  const { requests, node, reasons } = startNode({ clock, kube, bootID: "another" });
  await settlePromises();
  expect(requests().filter((line) => line.startsWith("60000"))).toEqual([
    "60000 ms create nodes",
    "60000 ms get nodes/node-a",
    "60000 ms patch nodes/node-a/status",
  ]);
  const { metadata, spec, status } = await node();
  expect(metadata.labels).toMatchObject({ "kubernetes.io/hostname": "node-a", mine: "x" });
  expect([spec.unschedulable, status?.nodeInfo?.bootID]).toEqual([true, "another"]);
  expect(reasons()).toEqual(["Starting", "Rebooted", "NodeNotSchedulable"]);
});

test("an existing Node object is used if the agent may not create one", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  await kube.user.create(nodes, { metadata: { name: "node-a" }, spec: {} } as Node);
  kube.failures = { create: [kubeError("FORBIDDEN", 403)] };
  const { requests, ready } = startNode({ clock, kube });
  await settlePromises();
  expect([requests(), await ready()]).toEqual([
    ["0 ms create nodes", "0 ms get nodes/node-a", "0 ms patch nodes/node-a/status"],
    `True since 00:00: ${READY}`,
  ]);
});

test("registration is retried for ever, and each error is logged once", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  kube.failures = { create: Array.from({ length: 9 }, () => kubeError("FORBIDDEN", 403)) };
  kube.goDown();
  const { requests, log, ready, nodeSync } = startNode({ clock, kube });
  await clock.advance(2_000);
  expect(nodeSync.state().status).toMatchObject({ reportedAt: undefined, error: { code: "UNREACHABLE" } });
  kube.comeBack();
  await clock.advance(2_000);
  expect(nodeSync.state().status.error).toMatchObject({ code: "FORBIDDEN" });
  await clock.advance(58_000);
  expect(nodeSync.state().status).toEqual({
    reportedAt: FakeClock.start + 61_400,
    error: undefined,
    failedAt: undefined,
  });
  const times = requests()
    .filter((line) => line.includes("create"))
    .map((line) => Number.parseInt(line, 10));
  expect(times).toEqual([
    0, 100, 300, 700, 1_500, 2_800, 6_000, 12_400, 19_400, 26_400, 33_400, 40_400, 47_400, 54_400, 61_400,
  ]);
  expect(log.takeLines()).toEqual([
    "warn: the node cannot be registered yet; trying again",
    "info: the node is registered",
  ]);
  expect(await ready()).toBe(`True since 01:01: ${READY}`);
});

test("a node that starts before its API server is registered as soon as the server responds", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  kube.goDown();
  const { requests } = startNode({ clock, kube });
  await clock.advance(12_800);
  kube.comeBack();
  requests();
  await clock.advance(3_000);
  expect(requests().filter((line) => line.includes("create"))).toHaveLength(1);
});

test("a failed status report is logged, also after a registration that failed at first", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  await kube.user.create(nodes, { metadata: { name: "node-a" }, spec: {} } as Node);
  kube.failures = { create: [kubeError("SERVER", 500)], patch: [kubeError("FORBIDDEN", 403)] };
  const { log, nodeSync } = startNode({ clock, kube });
  await clock.advance(100);
  expect(nodeSync.state().status.error).toMatchObject({ code: "FORBIDDEN" });
  expect(log.takeLines()).toEqual([
    "warn: the node cannot be registered yet; trying again",
    "info: the node was registered before",
    "warn: the node's status cannot be reported; trying again",
  ]);
});

test("a deleted Node object is registered again, with a new lease", async () => {
  const { clock, kube, requests, node, ready } = startNode();
  await clock.advance(5_000);
  const { uid } = (await node()).metadata;
  requests();
  await kube.user.delete(nodes, "node-a");
  await clock.advance(1_000);
  expect(requests()).toEqual(["5000 ms create nodes"]);
  const other = (await node()).metadata.uid;
  expect(other).not.toBe(uid);
  expect(await ready()).toBe(`True since 00:05: ${READY}`);
  const lease = await kube.user.get(leases("kube-node-lease"), "node-a");
  expect(lease.metadata.ownerReferences?.map((owner) => owner.uid)).toEqual([String(other)]);
});

test("a Node object that is deleted during a watch outage is registered again with the next report", async () => {
  const { clock, kube, addresses, nodeSync, requests, ready } = startNode();
  await clock.advance(5_000);
  requests();
  kube.silenceWatches();
  await kube.user.delete(nodes, "node-a");
  addresses.all = ["192.0.2.9"];
  nodeSync.invalidateAddresses();
  await clock.advance(1_000);
  expect(requests()).toEqual(["5000 ms patch nodes/node-a/status", "5100 ms create nodes"]);
  expect(await ready()).toBe(`True since 00:05: ${READY}`);
});

test("a new Node object of the same name is not patched with differences from its predecessor", async () => {
  const { clock, kube, addresses, nodeSync, requests, node } = startNode();
  await clock.advance(5_000);
  requests();
  kube.silenceWatches();
  await kube.user.delete(nodes, "node-a");
  await kube.user.create(nodes, { metadata: { name: "node-a", labels: { made: "by hand" } }, spec: {} } as Node);
  addresses.all = ["192.0.2.9"];
  nodeSync.invalidateAddresses();
  await clock.advance(1_000);
  expect(requests()).toEqual(
    ["patch nodes/node-a/status", "get nodes/node-a", "patch nodes/node-a/status"].map(
      (call, at) => `${at < 2 ? 5000 : 5100} ms ${call}`,
    ),
  );
  const { metadata, status } = await node();
  expect(metadata.labels).toMatchObject({ made: "by hand", "kubernetes.io/hostname": "node-a" });
  expect(Object.keys(status?.capacity ?? {})).toEqual(["cpu", "ephemeral-storage", "memory", "pods"]);
});

test("changes during an outage of the API server are reported when it ends", async () => {
  const { clock, kube, addresses, nodeSync, log, node, requests } = startNode();
  await clock.advance(5_000);
  kube.goDown();
  addresses.all = ["192.0.2.9"];
  nodeSync.invalidateAddresses();
  await clock.advance(60_000);
  kube.comeBack();
  requests();
  await clock.advance(31_000);
  expect((await node()).status?.addresses?.[0]?.address).toBe("192.0.2.9");
  expect(requests().length).toBe(1);
  expect(log.takeLines().filter((line) => line.startsWith("warn"))).toEqual([]);
  expect(nodeSync.state().status.error).toBeUndefined();
});

test("a failed report is retried at once when the API server recovers", async () => {
  const { clock, kube, addresses, nodeSync, requests } = startNode();
  await clock.advance(5_000);
  requests();
  kube.failures = { patch: [kubeError("TOO_MANY_REQUESTS", 429, 20_000)] };
  addresses.all = ["192.0.2.9"];
  nodeSync.invalidateAddresses();
  await settlePromises();
  kube.breakWatches(kubeError("UNREACHABLE"));
  await clock.advance(5_000);
  expect(requests()).toEqual(["5000 ms patch nodes/node-a/status", "5800 ms patch nodes/node-a/status"]);
});

test("a node that may not register itself logs that it waits for its Node object", async () => {
  const { clock, kube, requests, ready, nodeSync, log } = startNode({ registerNode: false });
  await clock.advance(60_000);
  const message = "the cluster has no Node node-a, and registerNode is false: create it, or set registerNode to true";
  expect([requests(), nodeSync.latest(), nodeSync.state().status.error]).toMatchObject([[], undefined, { message }]);
  expect(log.takeLines()).toEqual([`warn: ${message}`]);
  await kube.user.create(nodes, { metadata: { name: "node-a" }, spec: {} } as Node);
  await settlePromises();
  expect(nodeSync.state().status.error).toBeUndefined();
  expect([requests(), await ready()]).toEqual([["60000 ms patch nodes/node-a/status"], `True since 01:00: ${READY}`]);
});

test.each([
  ["forward", 3_600_000],
  ["back", -3_600_000],
])("a clock that jumps an hour %s makes no report late, and one more at most", async (_, jumpMs) => {
  const { clock, requests } = startNode();
  await clock.advance(100_000);
  requests();
  clock.stepWallClock(jumpMs);
  await clock.advance(650_000);
  const reports = requests().map((line) => Number.parseInt(line, 10) / 1000);
  const gaps = [0, ...reports, 750].map((at, n, all) => at - (all[n - 1] ?? 0));
  expect(reports.length).toBeWithin(2, 4);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(300);
});

test.each([
  ["forward", 3_600_000],
  ["back", -3_600_000],
])(
  "a runtime that is lost while the clock jumps an hour %s counts as down within half a minute, not an hour",
  async (_, jumpMs) => {
    const { clock, runtime, ready, runtimeStatus } = startNode();
    await clock.advance(5_000);
    runtime.before = { status: () => Promise.reject(silent()) };
    runtimeStatus.markDisconnected();
    await clock.advance(1_000);
    clock.stepWallClock(jumpMs);
    await clock.advance(40_000);
    expect(await ready()).toContain("container runtime is down");
    runtime.before = {};
    runtimeStatus.markDisconnected();
    await settlePromises();
    expect(await ready()).toEndWith(READY);
  },
);

test("a controller that overwrites our status causes at most one report every ten seconds", async () => {
  const { clock, kube, requests } = startNode();
  await clock.advance(20_000);
  requests();
  for (let count = 0; count < 300; count += 1) {
    const body = { status: { capacity: { cpu: String(count + 100) } } };
    await kube.user.patch(nodes, "node-a", { type: "strategic", subresource: "status", body });
    await clock.advance(100);
  }
  expect(requests().length).toBeWithin(2, 5);
});

test("the node settings come from the configuration", () => {
  const { kubeletVersion, kubeletPort, nodeName, nodeIPs, ...node } = nodeSettings;
  const config = { nodeName, nodeIPs, node: { ...node, registerNode: true, registerWithTaints: [] } };
  expect(nodeSettingsOf(config, kubeletVersion, kubeletPort)).toMatchObject(nodeSettings);
});

test("with an external cloud provider pods get the addresses of the Node object, and none before it has some", async () => {
  const { kube, clock, nodeSync, hostIPs, end } = startNode({ isCloudExternal: true });
  expect(nodeSync.hostIPs()).toEqual([]);
  await settlePromises();
  expect(nodeSync.hostIPs()).toEqual([]);
  const addresses = [
    { type: "Hostname", address: "node-a" },
    { type: "ExternalIP", address: "2001:db8::9" },
    { type: "InternalIP", address: "198.51.100.1" },
  ];
  await kube.user.patch(nodes, "node-a", { type: "strategic", body: { status: { addresses } }, subresource: "status" });
  await clock.advance(1_000);
  expect([nodeSync.hostIPs(), hostIPs()]).toEqual([["198.51.100.1", "2001:db8::9"], ["198.51.100.1,2001:db8::9"]]);
  await clock.advance(600_000);
  expect(hostIPs()).toEqual([]);
  await end();
});

test("without a cloud provider pods get the node's own addresses", async () => {
  const { nodeSync, addresses, hostIPs, end } = startNode();
  await settlePromises();
  expect([nodeSync.hostIPs(), hostIPs()]).toEqual([["192.0.2.1"], []]);
  addresses.all = ["192.0.2.2"];
  expect(nodeSync.hostIPs()).toEqual(["192.0.2.2"]);
  await end();
});
