import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createMirrorNetworkStatus } from "./mirror-network-status.ts";

const mirrorOf = (annotations: Readonly<Record<string, string>>): Pod => ({
  metadata: { name: "web-n", namespace: "shop", annotations: { "kubernetes.io/config.mirror": "s1", ...annotations } },
  spec: { containers: [{ name: "a", image: "busybox:1" }], nodeName: "n" },
});
const selecting = mirrorOf({ "k8s.v1.cni.cncf.io/networks": "lan" });

/** A static pod with the uid `s1`; a test sets its status. */
function createFixture() {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const log = new FakeLog();
  const node = { status: undefined as string | undefined };
  const readStatus = async (uid: string) => (uid === "s1" ? node.status : undefined);
  const statuses = createMirrorNetworkStatus({ kube, readStatus, clock, log });
  const create = async (pod: Pod) => {
    const mirror = await kube.user.create(pods("shop"), pod, {});
    statuses.onMirror(mirror, "observed");
    await settlePromises();
  };
  const attach = async (status: string) => {
    node.status = status;
    statuses.onAttached("s1");
    await settlePromises();
  };
  const written = async () =>
    (await kube.user.get(pods("shop"), "web-n", {})).metadata.annotations?.["k8s.v1.cni.cncf.io/network-status"];
  return { clock, kube, log, statuses, create, attach, written };
}

test("a mirror pod gets the status, whether it is created before or after its networks are made", async () => {
  const before = createFixture();
  await before.create(selecting);
  expect([await before.written(), before.kube.calls]).toEqual([undefined, []]);
  await before.attach("[1]");
  expect(await before.written()).toBe("[1]");
  const after = createFixture();
  await after.attach("[1]");
  expect(after.kube.calls).toEqual([]);
  await after.create(selecting);
  expect(await after.written()).toBe("[1]");
});

test("a mirror pod that replaces a deleted one gets the status, and a new sandbox changes it", async () => {
  const { kube, create, attach, written } = createFixture();
  await create(selecting);
  await attach("[1]");
  await kube.user.delete(pods("shop"), "web-n", { gracePeriodSeconds: 0 }, {});
  await attach("[2]");
  await create(selecting);
  expect(await written()).toBe("[2]");
  await attach("[3]");
  expect(await written()).toBe("[3]");
});

test("nothing stays of a mirror pod that was deleted", async () => {
  const { clock, kube, statuses, create, attach, written } = createFixture();
  kube.failures = { patch: [new KubeError("TIMEOUT", "PATCH: no answer")] };
  await create(selecting);
  const first = await kube.user.get(pods("shop"), "web-n", {});
  await attach("[1]");
  expect(clock.pendingTimers).toBe(1);
  await kube.user.delete(pods("shop"), "web-n", { gracePeriodSeconds: 0 }, {});
  statuses.onMirror(first, "deleted");
  expect(clock.pendingTimers).toBe(0);
  const requests = kube.calls.length;
  await attach("[2]");
  expect(kube.calls.length).toBe(requests);
  await create(selecting);
  // The deletion of the former one may come late.
  statuses.onMirror(first, "deleted");
  await attach("[3]");
  expect(await written()).toBe("[3]");
});

test("nothing is written if the status is there already, nor for a mirror pod without secondary networks", async () => {
  const { kube, create, attach } = createFixture();
  await attach("[1]");
  await create(mirrorOf({ "k8s.v1.cni.cncf.io/networks": "lan", "k8s.v1.cni.cncf.io/network-status": "[1]" }));
  await kube.user.delete(pods("shop"), "web-n", { gracePeriodSeconds: 0 }, {});
  await create(mirrorOf({}));
  expect(kube.calls).toEqual([]);
});

test("a failed write is logged and repeated, until the agent stops", async () => {
  const { clock, kube, log, statuses, create, attach, written } = createFixture();
  const failure = () => new KubeError("TIMEOUT", "PATCH: no answer");
  kube.failures = { patch: [failure(), failure()] };
  await attach("[1]");
  await create(selecting);
  expect([await written(), log.lines.length]).toEqual([undefined, 1]);
  await clock.advance(1_000);
  await clock.advance(2_000);
  expect([await written(), log.lines.length]).toEqual(["[1]", 2]);
  kube.failures = { patch: [failure()] };
  await attach("[2]");
  await statuses.stop();
  await clock.advance(60_000);
  expect(await written()).toBe("[1]");
});
