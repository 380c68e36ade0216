import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { leases } from "../../../kube/resource.ts";
import type { Lease } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { kubeError, recordRequests } from "../../../test/fakes/kube-requests.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createNodeLease } from "./lease.ts";

const resource = leases("kube-node-lease");
const LEASE = "leases.coordination.k8s.io/kube-node-lease";

function createFixture(given?: Lease) {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const requests = recordRequests(kube, clock);
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
  const requestLog = () => requests.take().map((line) => line.replace(LEASE, "").trim());
  const created = given === undefined ? Promise.resolve() : kube.user.create(resource, given).then(() => {});
  return {
    clock,
    kube,
    log,
    stop,
    node,
    lease,
    seen,
    renewed,
    reported: requestLog,
    ended: created.then(() => lease.run(stop.signal)),
  };
}

test("a lease is created, and renewed every ten seconds with one request", async () => {
  const { clock, reported, seen, lease, stop, renewed, ended } = createFixture();
  await clock.advance(25_000);
  expect(reported()).toEqual([
    "0 ms get /node-a",
    "0 ms create",
    "10000 ms replace /node-a",
    "20000 ms replace /node-a",
  ]);
  expect(await renewed()).toBe("00:00:20.000");
  expect((await seen()).metadata.ownerReferences).toEqual([
    { apiVersion: "v1", kind: "Node", name: "node-a", uid: "n1" },
  ]);
  expect(lease.state()).toEqual({ renewedAt: FakeClock.start + 20_000, error: undefined, failedAt: undefined });
  stop.abort();
  await ended;
  expect(clock.pendingTimers).toBe(0);
});

test("a lease of an earlier agent is renewed at once", async () => {
  const first = createFixture();
  await first.clock.advance(1_000);
  const { clock, reported } = createFixture(await first.seen());
  await clock.advance(0);
  expect(reported()).toEqual(["0 ms get /node-a", "0 ms replace /node-a"]);
});

test("the lease is created after the node, and its owner follows the node's uid", async () => {
  const { clock, seen, reported, lease, node, renewed } = createFixture();
  node.uid = undefined;
  await clock.advance(60_000);
  expect(reported()).toEqual([]);
  for (const uid of ["n1", "n2"]) {
    node.uid = uid;
    lease.retryNow();
    await settlePromises();
    expect((await seen()).metadata.ownerReferences?.map((owner) => owner.uid)).toEqual([uid]);
  }
  expect(await renewed()).toBe("00:01:00.001");
});

test("a failed renewal is retried after 0.1 s, then with growing delays, for ever", async () => {
  const { clock, kube, log, reported, lease, renewed } = createFixture();
  await clock.advance(9_000);
  reported();
  kube.goDown();
  await clock.advance(60_000);
  const times = reported().map((line) => Number.parseInt(line, 10));
  expect(times).toEqual([
    10_000, 10_100, 10_300, 10_700, 11_500, 13_100, 16_300, 22_700, 29_700, 36_700, 43_700, 50_700, 57_700, 64_700,
  ]);
  // The connection logs the outage.
  expect(log.takeLines()).toEqual([]);
  expect(lease.state()).toMatchObject({ renewedAt: FakeClock.start, error: { code: "UNREACHABLE" } });
  kube.comeBack();
  lease.retryNow();
  await settlePromises();
  expect([await renewed(), lease.state().error]).toEqual(["00:01:09.000", undefined]);
  reported();
  await clock.advance(10_000);
  expect(reported()).toEqual(["79000 ms replace /node-a"]);
});

test("a repeated rejection is logged once", async () => {
  const { clock, kube, log } = createFixture();
  const refuse = () => Promise.reject(kubeError("FORBIDDEN", 403));
  kube.before = { get: refuse, create: refuse, replace: refuse };
  await clock.advance(60_000);
  expect(log.takeLines()).toEqual(["warn: the node's lease cannot be renewed; trying again"]);
});

test("at most 32 rejections with different messages are logged", async () => {
  const { clock, kube, log } = createFixture();
  let count = 0;
  const refuse = () => Promise.reject(new KubeError("FORBIDDEN", `request ${count++} is refused`, { status: 403 }));
  kube.before = { get: refuse, create: refuse, replace: refuse };
  await clock.advance(1_000_000);
  expect([log.takeLines().length, count > 100]).toEqual([32, true]);
});

test("a renewal honours Retry-After, but not so long that the node becomes unreachable", async () => {
  const { clock, kube, reported } = createFixture();
  kube.failures = {
    get: [kubeError("TOO_MANY_REQUESTS", 429, 3_000), kubeError("TOO_MANY_REQUESTS", 429, 3_600_000)],
  };
  await clock.advance(30_000);
  expect(reported().map((line) => Number.parseInt(line, 10))).toEqual([0, 3_000, 23_000, 23_000]);
});

const rows: readonly (readonly [string, (kube: FakeKube) => Promise<unknown> | unknown])[] = [
  [
    "written by another client",
    (kube) => kube.user.patch(resource, "node-a", { type: "merge", body: { metadata: { labels: { a: "b" } } } }),
  ],
  ["deleted", (kube) => kube.user.delete(resource, "node-a")],
  [
    "deleted, which the server reports as a conflict",
    async (kube) => {
      await kube.user.delete(resource, "node-a");
      kube.failures = { replace: [kubeError("CONFLICT", 409)] };
    },
  ],
  [
    "renewed by a request whose response was lost",
    (kube) => {
      kube.after = { replace: () => Promise.reject(kubeError("TIMEOUT")) };
    },
  ],
];
for (const [name, happen] of rows)
  test(`a lease that was ${name} is renewed`, async () => {
    const { clock, kube, log, renewed } = createFixture();
    await clock.advance(5_000);
    await happen(kube);
    await clock.advance(5_000);
    kube.after = {};
    await clock.advance(500);
    const reported = name.includes("response was lost")
      ? ["warn: the node's lease cannot be renewed; trying again"]
      : [];
    expect([(await renewed())?.slice(0, 8), log.takeLines()]).toEqual(["00:00:10", reported]);
  });

test("renewTime always increases, even if the clock is set back and the lease deleted", async () => {
  const { clock, kube, renewed } = createFixture();
  const seen: (string | undefined)[] = [];
  const look = async () => {
    await clock.advance(10_000);
    seen.push(await renewed());
  };
  await look();
  clock.stepWallClock(-3_600_000);
  await look();
  await kube.user.delete(resource, "node-a");
  // The server's error for a replace of a deleted object.
  kube.failures = { replace: [kubeError("CONFLICT", 409)] };
  await look();
  clock.stepWallClock(7_200_000);
  await look();
  expect(seen).toEqual(["00:00:10.000", "00:00:10.001", "00:00:10.002", "01:00:40.000"]);
});
