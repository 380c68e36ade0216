import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { leases, nodes } from "../../kube/resource.ts";
import type { Node } from "../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { FakeKube } from "../../test/fakes/kube.ts";
import { kubeError, requestsOf } from "../../test/fakes/kube-requests.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createSupplies, nodeSettings, observedMachine } from "../../test/fakes/observed-node.ts";
import { FakeRuntime } from "../../test/fakes/runtime.ts";
import type { NodeEvent } from "../decide/node/node-report.ts";
import { createOwnNodeRoom, nodeSettingsOf } from "./local-node.ts";

const LEASE = "leases.coordination.k8s.io/kube-node-lease";

interface Given {
  readonly kube?: FakeKube;
  readonly clock?: FakeClock;
  readonly runtime?: FakeRuntime;
  readonly mayRegister?: boolean;
  readonly bootID?: string;
  readonly memoryLeft?: number;
  readonly isCloudExternal?: boolean;
}

/** An agent's node on fakes; it runs from the start. */
function createScene(given: Given = {}) {
  const clock = given.clock ?? new FakeClock();
  const kube = given.kube ?? new FakeKube({ clock });
  const runtime = given.runtime ?? new FakeRuntime({ clock });
  const requests = requestsOf(kube, clock);
  const log = new FakeLog();
  const events: NodeEvent[] = [];
  const told: string[] = [];
  const heard: string[] = [];
  const stop = new AbortController();
  const addresses = { all: ["192.0.2.1"] };
  const { left, ...supplies } = createSupplies();
  if (given.memoryLeft !== undefined) left.memory = { ...left.memory, available: given.memoryLeft };
  const room = createOwnNodeRoom({
    kube,
    runtime,
    ...supplies,
    clock,
    log,
    random: () => 0.5,
    settings: { ...nodeSettings, isCloudExternal: given.isCloudExternal ?? false },
    mayRegister: given.mayRegister ?? true,
    machine: { ...observedMachine, bootID: given.bootID ?? observedMachine.bootID },
    addresses: () => addresses.all,
    record: (event) => events.push(event),
    changed: () => {},
    networkChanged: () => void told.push(room.networkProblem() ?? "the network is ready"),
    hostIPsChanged: () => void heard.push(room.hostIPs().join()),
  });
  const ended = room.run(stop.signal);
  return {
    clock,
    kube,
    runtime,
    log,
    room,
    addresses,
    left,
    /** The requests since the last time; those of the lease apart, or alone. */
    told: () => requests.told().filter((line) => !line.includes(LEASE)),
    leased: () => requests.told().filter((line) => line.includes(LEASE)),
    /** What is told of the network. */
    network: () => told.splice(0),
    /** What is told of the addresses that pods are told. */
    hostIPs: () => heard.splice(0),
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

test("a node is created ready, and then nothing is asked but its lease, and a report every five minutes", async () => {
  const { clock, told, node, ready, reasons, room, end } = createScene();
  await rest();
  expect(told()).toEqual(["0 ms create nodes"]);
  expect(await ready()).toBe(`True since 00:00: ${READY}`);
  expect(reasons()).toEqual([
    "Starting",
    "NodeHasSufficientMemory",
    "NodeHasNoDiskPressure",
    "NodeHasSufficientPID",
    "NodeReady",
  ]);
  await clock.advance(601_000);
  expect(told()).toEqual(["300000 ms patch nodes/node-a/status", "600000 ms patch nodes/node-a/status"]);
  const { status } = await node();
  expect(status?.conditions?.map(({ lastHeartbeatTime }) => lastHeartbeatTime)).toEqual(
    Array(4).fill("2026-01-01T00:10:00Z"),
  );
  expect([await ready(), reasons()]).toEqual([`True since 00:00: ${READY}`, []]);
  expect(room.state()).toMatchObject({ status: { error: undefined }, lease: { error: undefined } });
  await end();
  expect(clock.timers).toBe(0);
});

test("a lease is there as soon as the node is, and belongs to it", async () => {
  const { kube, clock, leased, node } = createScene();
  await clock.advance(10_000);
  expect(leased()).toEqual([`0 ms get ${LEASE}/node-a`, `0 ms create ${LEASE}`]);
  const lease = await kube.user.get(leases("kube-node-lease"), "node-a");
  expect(lease.metadata.ownerReferences?.[0]?.uid).toBe((await node()).metadata.uid);
});

test("a node whose runtime comes up later is ready at once when it does", async () => {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  runtime.failures = { status: [silent(), silent(), silent()] };
  const { told, ready, reasons } = createScene({ clock, runtime });
  await rest();
  expect(await ready()).toBe(
    "False since 00:00: [container runtime status check may not have completed yet, network state unknown]",
  );
  await clock.advance(1_000);
  expect(told()).toEqual(["0 ms create nodes", "300 ms patch nodes/node-a/status"]);
  expect([await ready(), reasons().at(-1)]).toEqual([`True since 00:00: ${READY}`, "NodeReady"]);
});

test("a runtime that hangs keeps no node from being registered", async () => {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  runtime.before = { status: () => new Promise(() => {}) };
  const { told } = createScene({ clock, runtime });
  await clock.advance(1_000);
  expect(told()).toEqual(["1000 ms create nodes"]);
});

test("a runtime that goes away makes the node unready after half a minute, and its return ready at once", async () => {
  const { clock, runtime, told, ready, reasons, room } = createScene();
  await clock.advance(5_000);
  told();
  reasons();
  runtime.before = { status: () => Promise.reject(silent()) };
  room.doubtRuntime();
  await clock.advance(24_000);
  expect([told(), await ready()]).toEqual([[], `True since 00:00: ${READY}`]);
  await clock.advance(2_000);
  expect([told(), await ready()]).toEqual([
    ["30000 ms patch nodes/node-a/status"],
    "False since 00:30: container runtime is down",
  ]);
  runtime.before = {};
  room.doubtRuntime();
  await rest();
  expect([await ready(), reasons()]).toEqual([`True since 00:31: ${READY}`, ["NodeNotReady", "NodeReady"]]);
});

test("the network's end is noticed within ten seconds, and its beginning within five, also by pods that wait for it", async () => {
  const { clock, runtime, told, ready, network } = createScene();
  await clock.advance(5_000);
  told();
  runtime.conditions = { RuntimeReady: true, NetworkReady: false };
  await clock.advance(5_000);
  const problem = "container runtime network not ready: NetworkReady=false reason: message:";
  expect([await ready(), network()]).toEqual([`False since 00:10: ${problem}`, [problem]]);
  await clock.advance(60_000);
  runtime.conditions = { RuntimeReady: true, NetworkReady: true };
  await clock.advance(5_000);
  expect(await ready()).toStartWith("True since 01:1");
  expect(network()).toEqual(["the network is ready"]);
  expect(told().length).toBe(2);
});

test("a node that runs short says so within ten seconds, and that it is over when it has not for five minutes", async () => {
  const { clock, left, told, node, reasons, log } = createScene();
  const pressures = async () =>
    (await node()).status?.conditions
      ?.filter(({ status, type }) => status === "True" && type !== "Ready")
      .map(({ type, reason, lastTransitionTime }) => `${type} ${reason} since ${lastTransitionTime?.slice(14, 19)}`);
  await clock.advance(25_000);
  expect([told().length, await pressures(), reasons().length]).toEqual([1, [], 5]);
  left.memory = { ...left.memory, available: 99 * 2 ** 20 };
  left.spaces.set("/var/lib/fake/images", { totalBytes: 100e9, freeBytes: 14e9, totalInodes: 0, freeInodes: 0 });
  await clock.advance(10_000);
  expect(told()).toEqual(["30000 ms patch nodes/node-a/status"]);
  expect(await pressures()).toEqual([
    "MemoryPressure KubeletHasInsufficientMemory since 00:30",
    "DiskPressure KubeletHasDiskPressure since 00:30",
  ]);
  expect(reasons()).toEqual(["NodeHasInsufficientMemory", "NodeHasDiskPressure"]);
  expect(log.told().at(-1)).toBe(
    "warn: the node runs short: memory.available is 103809024 of 8589934592, its hard threshold 100Mi; imagefs.available is 14000000000 of 100000000000, its hard threshold 15%",
  );
  left.memory = { ...left.memory, available: 2 ** 30 };
  await clock.advance(285_000);
  expect((await pressures())?.length).toBe(2);
  await clock.advance(10_000);
  expect(await pressures()).toEqual(["DiskPressure KubeletHasDiskPressure since 00:30"]);
  expect(reasons()).toEqual(["NodeHasSufficientMemory"]);
});

test("a node that runs short when its agent starts is never told to have enough", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const { told, reasons } = createScene({ clock, kube, memoryLeft: 0 });
  await rest();
  expect(told()).toEqual(["0 ms create nodes"]);
  expect(reasons()).toEqual([
    "Starting",
    "NodeHasInsufficientMemory",
    "NodeHasNoDiskPressure",
    "NodeHasSufficientPID",
    "NodeReady",
  ]);
});

test("a Node that cannot be read is asked for again, later each time, and reported once it can be", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const spec = { taints: [null] } as unknown as Node["spec"];
  await kube.user.create(nodes, { metadata: { name: "node-a" }, spec });
  const { log, ready, told } = createScene({ clock, kube });
  await clock.advance(60_000);
  expect(told().filter((line) => line.includes("create nodes")).length).toBeLessThan(15);
  const problem = "spec.taints[0]: Invalid type: got null, expected object";
  expect(log.told()).toContain(`error: the API server's Node cannot be read, and is left aside: ${problem}`);
  await kube.user.patch(nodes, "node-a", { type: "merge", body: { spec: { taints: null } } });
  await clock.advance(60_000);
  expect(await ready()).toContain(READY);
});

test("another address is reported at once, a new image soon", async () => {
  const { clock, runtime, addresses, node, room, told } = createScene();
  await clock.advance(100_000);
  told();
  addresses.all = ["192.0.2.7", "2001:db8::7"];
  room.doubtAddresses();
  await rest();
  expect((await node()).status?.addresses?.map(({ address }) => address)).toEqual([
    "192.0.2.7",
    "2001:db8::7",
    "node-a",
  ]);
  runtime.addImage("a:1");
  room.doubtImages();
  await clock.advance(30_000);
  expect(told()).toEqual(["100000 ms patch nodes/node-a/status", "130000 ms patch nodes/node-a/status"]);
  expect((await node()).status?.images).toEqual([{ names: ["a:1"], sizeBytes: 1_000_000 }]);
});

test("a node that was there before is taken over with one report", async () => {
  const first = createScene();
  await rest();
  await first.end();
  const { clock, kube } = first;
  await kube.user.patch(nodes, "node-a", {
    type: "merge",
    body: { metadata: { labels: { "kubernetes.io/hostname": "wrong", mine: "x" } }, spec: { unschedulable: true } },
  });
  await clock.advance(60_000);
  const { told, node, reasons } = createScene({ clock, kube, bootID: "another" });
  await rest();
  expect(told().filter((line) => line.startsWith("60000"))).toEqual([
    "60000 ms create nodes",
    "60000 ms get nodes/node-a",
    "60000 ms patch nodes/node-a/status",
  ]);
  const { metadata, spec, status } = await node();
  expect(metadata.labels).toMatchObject({ "kubernetes.io/hostname": "node-a", mine: "x" });
  expect([spec.unschedulable, status?.nodeInfo?.bootID]).toEqual([true, "another"]);
  expect(reasons()).toEqual(["Starting", "Rebooted", "NodeNotSchedulable"]);
});

test("where a node may not be created, the one that is there is used", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  await kube.user.create(nodes, { metadata: { name: "node-a" }, spec: {} } as Node);
  kube.failures = { create: [kubeError("FORBIDDEN", 403)] };
  const { told, ready } = createScene({ clock, kube });
  await rest();
  expect([told(), await ready()]).toEqual([
    ["0 ms create nodes", "0 ms get nodes/node-a", "0 ms patch nodes/node-a/status"],
    `True since 00:00: ${READY}`,
  ]);
});

test("registration is tried for ever, and each reason told once", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  kube.failures = { create: Array.from({ length: 9 }, () => kubeError("FORBIDDEN", 403)) };
  kube.goDown();
  const { told, log, ready, room } = createScene({ clock, kube });
  await clock.advance(2_000);
  expect(room.state().status).toMatchObject({ reportedAt: undefined, error: { code: "UNREACHABLE" } });
  kube.comeBack();
  await clock.advance(2_000);
  expect(room.state().status.error).toMatchObject({ code: "FORBIDDEN" });
  await clock.advance(58_000);
  expect(room.state().status).toEqual({
    reportedAt: FakeClock.start + 61_400,
    error: undefined,
    failedAt: undefined,
  });
  const times = told()
    .filter((line) => line.includes("create"))
    .map((line) => Number.parseInt(line, 10));
  expect(times).toEqual([
    0, 100, 300, 700, 1_500, 2_800, 6_000, 12_400, 19_400, 26_400, 33_400, 40_400, 47_400, 54_400, 61_400,
  ]);
  expect(log.told()).toEqual(["warn: the node cannot be registered yet; trying again", "info: the node is registered"]);
  expect(await ready()).toBe(`True since 01:01: ${READY}`);
});

test("a node that starts before its API server is registered as soon as that can be heard", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  kube.goDown();
  const { told } = createScene({ clock, kube });
  await clock.advance(12_800);
  kube.comeBack();
  told();
  await clock.advance(3_000);
  expect(told().filter((line) => line.includes("create"))).toHaveLength(1);
});

test("a status that cannot be reported is told of, also after a registration that failed at first", async () => {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  await kube.user.create(nodes, { metadata: { name: "node-a" }, spec: {} } as Node);
  kube.failures = { create: [kubeError("SERVER", 500)], patch: [kubeError("FORBIDDEN", 403)] };
  const { log, room } = createScene({ clock, kube });
  await clock.advance(100);
  expect(room.state().status.error).toMatchObject({ code: "FORBIDDEN" });
  expect(log.told()).toEqual([
    "warn: the node cannot be registered yet; trying again",
    "info: the node was registered before",
    "warn: the node's status cannot be reported; trying again",
  ]);
});

test("a node that somebody deletes is registered again, with a lease of its own", async () => {
  const { clock, kube, told, node, ready } = createScene();
  await clock.advance(5_000);
  const { uid } = (await node()).metadata;
  told();
  await kube.user.delete(nodes, "node-a");
  await clock.advance(1_000);
  expect(told()).toEqual(["5000 ms create nodes"]);
  const other = (await node()).metadata.uid;
  expect(other).not.toBe(uid);
  expect(await ready()).toBe(`True since 00:05: ${READY}`);
  const lease = await kube.user.get(leases("kube-node-lease"), "node-a");
  expect(lease.metadata.ownerReferences?.map((owner) => owner.uid)).toEqual([String(other)]);
});

test("a node that is deleted while nobody hears of it is missed with the next report", async () => {
  const { clock, kube, addresses, room, told, ready } = createScene();
  await clock.advance(5_000);
  told();
  kube.silence();
  await kube.user.delete(nodes, "node-a");
  addresses.all = ["192.0.2.9"];
  room.doubtAddresses();
  await clock.advance(1_000);
  expect(told()).toEqual(["5000 ms patch nodes/node-a/status", "5100 ms create nodes"]);
  expect(await ready()).toBe(`True since 00:05: ${READY}`);
});

test("another object of the same name is not written over with differences to the one before it", async () => {
  const { clock, kube, addresses, room, told, node } = createScene();
  await clock.advance(5_000);
  told();
  kube.silence();
  await kube.user.delete(nodes, "node-a");
  await kube.user.create(nodes, { metadata: { name: "node-a", labels: { made: "by hand" } }, spec: {} } as Node);
  addresses.all = ["192.0.2.9"];
  room.doubtAddresses();
  await clock.advance(1_000);
  expect(told()).toEqual(
    ["patch nodes/node-a/status", "get nodes/node-a", "patch nodes/node-a/status"].map(
      (call, at) => `${at < 2 ? 5000 : 5100} ms ${call}`,
    ),
  );
  const { metadata, status } = await node();
  expect(metadata.labels).toMatchObject({ made: "by hand", "kubernetes.io/hostname": "node-a" });
  expect(Object.keys(status?.capacity ?? {})).toEqual(["cpu", "ephemeral-storage", "memory", "pods"]);
});

test("an outage is outlasted, and what has changed meanwhile is told at its end", async () => {
  const { clock, kube, addresses, room, log, node, told } = createScene();
  await clock.advance(5_000);
  kube.goDown();
  addresses.all = ["192.0.2.9"];
  room.doubtAddresses();
  await clock.advance(60_000);
  kube.comeBack();
  told();
  await clock.advance(31_000);
  expect((await node()).status?.addresses?.[0]?.address).toBe("192.0.2.9");
  expect(told().length).toBe(1);
  expect(log.told().filter((line) => line.startsWith("warn"))).toEqual([]);
  expect(room.state().status.error).toBeUndefined();
});

test("a server that is back is told at once what it did not take", async () => {
  const { clock, kube, addresses, room, told } = createScene();
  await clock.advance(5_000);
  told();
  kube.failures = { patch: [kubeError("TOO_MANY_REQUESTS", 429, 20_000)] };
  addresses.all = ["192.0.2.9"];
  room.doubtAddresses();
  await rest();
  kube.cutWatches(kubeError("UNREACHABLE"));
  await clock.advance(5_000);
  expect(told()).toEqual(["5000 ms patch nodes/node-a/status", "5800 ms patch nodes/node-a/status"]);
});

test("a node that may not register itself says what it waits for until somebody else has done it", async () => {
  const { clock, kube, told, ready, room, log } = createScene({ mayRegister: false });
  await clock.advance(60_000);
  const message = "the cluster has no Node node-a, and registerNode is false: create it, or set registerNode to true";
  expect([told(), room.node(), room.state().status.error]).toMatchObject([[], undefined, { message }]);
  expect(log.told()).toEqual([`warn: ${message}`]);
  await kube.user.create(nodes, { metadata: { name: "node-a" }, spec: {} } as Node);
  await rest();
  expect(room.state().status.error).toBeUndefined();
  expect([told(), await ready()]).toEqual([["60000 ms patch nodes/node-a/status"], `True since 01:00: ${READY}`]);
});

test.each([
  ["forth", 3_600_000],
  ["back", -3_600_000],
])("a clock that jumps an hour %s makes no report late, and one more at most", async (_, jumpMs) => {
  const { clock, told } = createScene();
  await clock.advance(100_000);
  told();
  clock.jump(jumpMs);
  await clock.advance(650_000);
  const reports = told().map((line) => Number.parseInt(line, 10) / 1000);
  const gaps = [0, ...reports, 750].map((at, n, all) => at - (all[n - 1] ?? 0));
  expect(reports.length).toBeWithin(2, 4);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(300);
});

test.each([
  ["forth", 3_600_000],
  ["back", -3_600_000],
])(
  "a runtime that goes away as the clock jumps an hour %s counts as down within half a minute, not an hour",
  async (_, jumpMs) => {
    const { clock, runtime, ready, room } = createScene();
    await clock.advance(5_000);
    runtime.before = { status: () => Promise.reject(silent()) };
    room.doubtRuntime();
    await clock.advance(1_000);
    clock.jump(jumpMs);
    await clock.advance(40_000);
    expect(await ready()).toContain("container runtime is down");
    runtime.before = {};
    room.doubtRuntime();
    await rest();
    expect(await ready()).toEndWith(READY);
  },
);

test("whoever writes against us makes us no busier than one report in ten seconds", async () => {
  const { clock, kube, told } = createScene();
  await clock.advance(20_000);
  told();
  for (let count = 0; count < 300; count += 1) {
    const body = { status: { capacity: { cpu: String(count + 100) } } };
    await kube.user.patch(nodes, "node-a", { type: "strategic", subresource: "status", body });
    await clock.advance(100);
  }
  expect(told().length).toBeWithin(2, 5);
});

test("what is decided on comes from the configuration", () => {
  const { kubeletVersion, kubeletPort, nodeName, nodeIPs, ...node } = nodeSettings;
  const config = { nodeName, nodeIPs, node: { ...node, registerNode: true, registerWithTaints: [] } };
  expect(nodeSettingsOf(config, kubeletVersion, kubeletPort)).toMatchObject(nodeSettings);
});

test("where a cloud tells the addresses, pods are told those of the Node, and none before", async () => {
  const { kube, clock, room, hostIPs, end } = createScene({ isCloudExternal: true });
  expect(room.hostIPs()).toEqual([]);
  await rest();
  expect(room.hostIPs()).toEqual([]);
  const addresses = [
    { type: "Hostname", address: "node-a" },
    { type: "ExternalIP", address: "2001:db8::9" },
    { type: "InternalIP", address: "198.51.100.1" },
  ];
  await kube.user.patch(nodes, "node-a", { type: "strategic", body: { status: { addresses } }, subresource: "status" });
  await clock.advance(1_000);
  expect([room.hostIPs(), hostIPs()]).toEqual([["198.51.100.1", "2001:db8::9"], ["198.51.100.1,2001:db8::9"]]);
  await clock.advance(600_000);
  expect(hostIPs()).toEqual([]);
  await end();
});

test("a node of no cloud tells its pods its own addresses", async () => {
  const { room, addresses, hostIPs, end } = createScene();
  await rest();
  expect([room.hostIPs(), hostIPs()]).toEqual([["192.0.2.1"], []]);
  addresses.all = ["192.0.2.2"];
  expect(room.hostIPs()).toEqual(["192.0.2.2"]);
  await end();
});
