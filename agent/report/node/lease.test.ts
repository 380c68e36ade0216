import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { leases } from "../../../kube/resource.ts";
import type { Lease } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { kubeError, requestsOf } from "../../../test/fakes/kube-requests.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createNodeLease } from "./lease.ts";

const resource = leases("kube-node-lease");
const LEASE = "leases.coordination.k8s.io/kube-node-lease";

function createScene(given?: Lease) {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const requests = requestsOf(kube, clock);
  const log = new FakeLog();
  const stop = new AbortController();
  const node = { uid: "n1" as string | undefined };
  const lease = createNodeLease({
    kube,
    clock,
    log,
    random: () => 0,
    settings: { nodeName: "node-a", nodeLeaseDurationSeconds: 40 },
    nodeUid: () => node.uid,
    deadlineMs: 10_000,
  });
  const seen = () => kube.user.get(resource, "node-a");
  const renewed = async () => (await seen()).spec.renewTime?.slice(11, 23);
  const told = () => requests.told().map((line) => line.replace(LEASE, "").trim());
  const begun = given === undefined ? Promise.resolve() : kube.user.create(resource, given).then(() => {});
  return { clock, kube, log, stop, node, lease, seen, renewed, told, ended: begun.then(() => lease.run(stop.signal)) };
}

test("a lease is made, and renewed every ten seconds by one request", async () => {
  const { clock, told, seen, lease, stop, renewed, ended } = createScene();
  await clock.advance(25_000);
  expect(told()).toEqual(["0 ms get /node-a", "0 ms create", "10000 ms replace /node-a", "20000 ms replace /node-a"]);
  expect(await renewed()).toBe("00:00:20.000");
  expect((await seen()).metadata.ownerReferences).toEqual([
    { apiVersion: "v1", kind: "Node", name: "node-a", uid: "n1" },
  ]);
  expect(lease.state()).toEqual({ renewedAt: FakeClock.start + 20_000, error: undefined, failedAt: undefined });
  stop.abort();
  await ended;
  expect(clock.timers).toBe(0);
});

test("a lease that an earlier agent has made is renewed at once", async () => {
  const first = createScene();
  await first.clock.advance(1_000);
  const { clock, told } = createScene(await first.seen());
  await clock.advance(0);
  expect(told()).toEqual(["0 ms get /node-a", "0 ms replace /node-a"]);
});

test("there is no lease before there is a node, and it follows the node's uid", async () => {
  const { clock, seen, told, lease, node, renewed } = createScene();
  node.uid = undefined;
  await clock.advance(60_000);
  expect(told()).toEqual([]);
  for (const uid of ["n1", "n2"]) {
    node.uid = uid;
    lease.hurry();
    await rest();
    expect((await seen()).metadata.ownerReferences?.map((owner) => owner.uid)).toEqual([uid]);
  }
  expect(await renewed()).toBe("00:01:00.001");
});

test("what fails is tried again after a tenth of a second, then less and less often, for ever", async () => {
  const { clock, kube, log, told, lease, renewed } = createScene();
  await clock.advance(9_000);
  told();
  kube.goDown();
  await clock.advance(60_000);
  const times = told().map((line) => Number.parseInt(line, 10));
  expect(times).toEqual([
    10_000, 10_100, 10_300, 10_700, 11_500, 13_100, 16_300, 22_700, 29_700, 36_700, 43_700, 50_700, 57_700, 64_700,
  ]);
  // Whoever follows the API server tells of the outage.
  expect(log.told()).toEqual([]);
  expect(lease.state()).toMatchObject({ renewedAt: FakeClock.start, error: { code: "UNREACHABLE" } });
  kube.comeBack();
  lease.hurry();
  await rest();
  expect([await renewed(), lease.state().error]).toEqual(["00:01:09.000", undefined]);
  told();
  await clock.advance(10_000);
  expect(told()).toEqual(["79000 ms replace /node-a"]);
});

test("a server that refuses is told of once", async () => {
  const { clock, kube, log } = createScene();
  const refuse = () => Promise.reject(kubeError("FORBIDDEN", 403));
  kube.before = { get: refuse, create: refuse, replace: refuse };
  await clock.advance(60_000);
  expect(log.told()).toEqual(["warn: the node's lease cannot be renewed; trying again"]);
});

test("of a server that words its refusal anew each time no more than 32 are told", async () => {
  const { clock, kube, log } = createScene();
  let count = 0;
  const refuse = () => Promise.reject(new KubeError("FORBIDDEN", `request ${count++} is refused`, { status: 403 }));
  kube.before = { get: refuse, create: refuse, replace: refuse };
  await clock.advance(1_000_000);
  expect([log.told().length, count > 100]).toEqual([32, true]);
});

test("a server that wants to be left alone is left alone, but not until the node is lost", async () => {
  const { clock, kube, told } = createScene();
  kube.failures = {
    get: [kubeError("TOO_MANY_REQUESTS", 429, 3_000), kubeError("TOO_MANY_REQUESTS", 429, 3_600_000)],
  };
  await clock.advance(30_000);
  expect(told().map((line) => Number.parseInt(line, 10))).toEqual([0, 3_000, 23_000, 23_000]);
});

const rows: readonly (readonly [string, (kube: FakeKube) => Promise<unknown> | unknown])[] = [
  [
    "written by somebody else",
    (kube) => kube.user.patch(resource, "node-a", { type: "merge", body: { metadata: { labels: { a: "b" } } } }),
  ],
  ["deleted", (kube) => kube.user.delete(resource, "node-a")],
  [
    "deleted, which the server calls a conflict",
    async (kube) => {
      await kube.user.delete(resource, "node-a");
      kube.failures = { replace: [kubeError("CONFLICT", 409)] };
    },
  ],
  [
    "renewed by a request whose answer was lost",
    (kube) => {
      kube.after = { replace: () => Promise.reject(kubeError("TIMEOUT")) };
    },
  ],
];
for (const [name, happen] of rows)
  test(`a lease that was ${name} is renewed all the same`, async () => {
    const { clock, kube, log, renewed } = createScene();
    await clock.advance(5_000);
    await happen(kube);
    await clock.advance(5_000);
    kube.after = {};
    await clock.advance(500);
    const told = name.includes("answer was lost") ? ["warn: the node's lease cannot be renewed; trying again"] : [];
    expect([(await renewed())?.slice(0, 8), log.told()]).toEqual(["00:00:10", told]);
  });

test("each renewal is later than the one before it, also where the clock is set back and the lease deleted", async () => {
  const { clock, kube, renewed } = createScene();
  const seen: (string | undefined)[] = [];
  const look = async () => {
    await clock.advance(10_000);
    seen.push(await renewed());
  };
  await look();
  clock.jump(-3_600_000);
  await look();
  await kube.user.delete(resource, "node-a");
  // What a server says to a write over an object that is gone.
  kube.failures = { replace: [kubeError("CONFLICT", 409)] };
  await look();
  clock.jump(7_200_000);
  await look();
  expect(seen).toEqual(["00:00:10.000", "00:00:10.001", "00:00:10.002", "01:00:40.000"]);
});
