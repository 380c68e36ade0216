import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { persistentVolumeClaims, persistentVolumes } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { PersistentVolume, PersistentVolumeClaim, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { createClaims } from "./claims.ts";

const uid = (name: string) => name as PodUid;
const podOf = (podUid: string, ...claimNames: readonly string[]): Pod => ({
  metadata: { name: "web", namespace: "shop", uid: podUid },
  spec: {
    containers: [],
    volumes: claimNames.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } })),
  },
});

function createFixture() {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const reported: string[] = [];
  const keptKeys = new Set<string>();
  const claims = createClaims({
    kube,
    clock,
    isKept: (key) => keptKeys.has(key),
    onChange: (_uid, key) => reported.push(key),
  });
  const end = new AbortController();
  const running = claims.run(end.signal);
  const makeVolume = (spec: object): Promise<PersistentVolume> =>
    kube.user.create(persistentVolumes, { metadata: { name: "pv-1" }, spec });
  return {
    ...{ clock, kube, claims, keptKeys },
    makeClaim: (status: object, spec: object = { volumeName: "pv-1" }): Promise<PersistentVolumeClaim> =>
      kube.user.create(persistentVolumeClaims("shop"), { metadata: { name: "data", namespace: "shop" }, spec, status }),
    makeVolume,
    async known(): Promise<readonly string[]> {
      await settlePromises();
      return [...claims.latest()].map(
        ([key, known]) =>
          `${key}: ${"failure" in known ? known.failure : `bound to ${known.persistentVolume.metadata.name}`}`,
      );
    },
    changes: () => reported.splice(0),
    requests: () => kube.calls.splice(0),
    async stop(): Promise<void> {
      end.abort();
      await running;
    },
  };
}

test("a bound claim and its volume are read once for each pod, with no watch", async () => {
  const { clock, claims, kube, makeClaim, makeVolume, known, changes, requests } = createFixture();
  const { metadata } = await makeClaim({ phase: "Bound" });
  await makeVolume({ claimRef: { uid: metadata.uid } });
  claims.retain(uid("a"), podOf("a", "data", "data"));
  expect(await known()).toEqual(["claim shop/data for a: bound to pv-1"]);
  expect(changes()).toEqual(["claim shop/data for a"]);
  expect(requests()).toEqual(["get persistentvolumeclaims/shop/data", "get persistentvolumes/pv-1"]);
  await clock.advance(3_600_000);
  claims.retain(uid("a"), { ...podOf("a", "data") });
  await known();
  expect([requests(), changes(), kube.openWatches]).toEqual([[], [], 0]);
  claims.release(uid("a"));
  expect(await known()).toEqual([]);
});

test("a claim that is not bound is read again until it is, at longer and longer intervals", async () => {
  const { clock, kube, claims, known, changes, requests, makeClaim, makeVolume } = createFixture();
  claims.retain(uid("a"), podOf("a", "data"));
  expect(await known()).toEqual([
    'claim shop/data for a: failed to fetch PVC from API server: persistentvolumeclaims "data" not found',
  ]);
  const { metadata } = await makeClaim({ phase: "Pending" }, {});
  await clock.advance(500);
  expect(await known()).toEqual(["claim shop/data for a: PVC is not bound"]);
  expect(changes()).toHaveLength(2);
  requests();
  await clock.advance(60_000);
  expect([changes(), requests().length]).toEqual([[], 9]);
  await kube.user.patch(persistentVolumeClaims("shop"), "data", {
    type: "merge",
    body: { spec: { volumeName: "pv-1" }, status: { phase: "Bound" } },
  });
  await clock.advance(8_000);
  expect(await known()).toEqual([
    'claim shop/data for a: failed to fetch PV pv-1 from API server: persistentvolumes "pv-1" not found',
  ]);
  await makeVolume({ claimRef: { uid: metadata.uid } });
  await clock.advance(8_000);
  expect(await known()).toEqual(["claim shop/data for a: bound to pv-1"]);
});

test("a claim that is being deleted serves the pod that uses it, and no new one", async () => {
  const { kube, claims, known, makeClaim, makeVolume } = createFixture();
  const { metadata } = await makeClaim({ phase: "Bound" });
  await makeVolume({ claimRef: { uid: metadata.uid } });
  claims.retain(uid("a"), podOf("a", "data"));
  await known();
  // Its protection lasts as long as pods use it.
  const finalizers = ["kubernetes.io/pvc-protection"];
  await kube.user.patch(persistentVolumeClaims("shop"), "data", { type: "merge", body: { metadata: { finalizers } } });
  await kube.user.delete(persistentVolumeClaims("shop"), "data");
  claims.retain(uid("b"), podOf("b", "data"));
  expect(await known()).toEqual([
    "claim shop/data for a: bound to pv-1",
    "claim shop/data for b: PVC is being deleted",
  ]);
});

test("the authorizer may not know a new pod yet: FORBIDDEN is reported only when it lasts", async () => {
  const { clock, kube, claims, known, changes, makeClaim, makeVolume } = createFixture();
  const forbidden = () =>
    new KubeError("FORBIDDEN", "GET /x: no relationship found", { serverMessage: "no relationship found" });
  const { metadata } = await makeClaim({ phase: "Bound" });
  await makeVolume({ claimRef: { uid: metadata.uid } });
  kube.failures.get = [forbidden()];
  claims.retain(uid("a"), podOf("a", "data"));
  expect([await known(), changes()]).toEqual([[], []]);
  await clock.advance(100);
  expect(await known()).toEqual(["claim shop/data for a: bound to pv-1"]);
  kube.failures.get = Array.from({ length: 20 }, forbidden);
  claims.retain(uid("b"), podOf("b", "data"));
  await clock.advance(1_100);
  expect((await known()).at(-1)).toBe(
    "claim shop/data for b: failed to fetch PVC from API server: no relationship found",
  );
});

test("an outage is over for claims as soon as it is over", async () => {
  const { clock, kube, claims, known, makeClaim, makeVolume, stop } = createFixture();
  const { metadata } = await makeClaim({ phase: "Bound" });
  await makeVolume({ claimRef: { uid: metadata.uid } });
  kube.goDown();
  claims.retain(uid("a"), podOf("a", "data"));
  await clock.advance(30_000);
  expect(await known()).toEqual([
    "claim shop/data for a: failed to fetch PVC from API server: get persistentvolumeclaims/shop/data: connection refused",
  ]);
  kube.comeBack();
  // Any request shows it.
  await kube.get(persistentVolumes, "pv-1");
  await clock.advance(1);
  expect(await known()).toEqual(["claim shop/data for a: bound to pv-1"]);
  await stop();
});

test("a stop ends the reads of claims that are not bound", async () => {
  const { clock, claims, known, requests, changes, stop } = createFixture();
  claims.retain(uid("a"), podOf("a", "data"));
  claims.retain(uid("b"), podOf("b", "data"));
  await known();
  claims.release(uid("a"));
  await stop();
  changes();
  requests();
  await clock.advance(60_000);
  expect([requests(), changes()]).toEqual([[], []]);
});

test("a claim that is kept on the disk makes no pod wait longer than a second for the API server", async () => {
  const { clock, kube, claims, keptKeys, known, changes, makeClaim, makeVolume } = createFixture();
  keptKeys.add("claim shop/data for a");
  kube.before.get = () => new Promise(() => {});
  for (const pod of ["a", "b"]) claims.retain(uid(pod), podOf(pod, "data"));
  await clock.advance(999);
  expect([await known(), changes()]).toEqual([[], []]);
  await clock.advance(1);
  expect(await known()).toEqual([
    "claim shop/data for a: failed to fetch PVC from API server: timed out waiting for the condition",
  ]);
  expect(claims.latest().get("claim shop/data for a")).toMatchObject({ isOutage: true });
  kube.before = {};
  const { metadata } = await makeClaim({ phase: "Bound" });
  await makeVolume({ claimRef: { uid: metadata.uid } });
  await clock.advance(30_000);
  expect(await known()).toEqual(["claim shop/data for a: bound to pv-1", "claim shop/data for b: bound to pv-1"]);
});

const failures: readonly [code: ConstructorParameters<typeof KubeError>[0], isOutage: true | undefined][] = [
  ["UNREACHABLE", true],
  ["TIMEOUT", true],
  ["SERVER", true],
  ["NOT_FOUND", undefined],
  ["FORBIDDEN", undefined],
];
for (const [code, isOutage] of failures)
  test(`a read that fails with ${code} is ${isOutage ? "no" : "an"} answer of the API server`, async () => {
    const { clock, kube, claims } = createFixture();
    kube.failAll(() => new KubeError(code, "it fails"));
    claims.retain(uid("a"), podOf("a", "data"));
    await clock.advance(3_000);
    const found = claims.latest().get("claim shop/data for a");
    expect(found).toMatchObject({ failure: "failed to fetch PVC from API server: it fails" });
    expect(found && "isOutage" in found ? found.isOutage : undefined).toBe(isOutage);
  });
