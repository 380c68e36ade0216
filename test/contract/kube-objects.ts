import { describe, expect, test } from "bun:test";
import type { KubeError } from "../../kube/error.ts";
import {
  configMaps,
  events,
  leases,
  nodes,
  pathOf,
  pods,
  type Resource,
  serviceAccounts,
} from "../../kube/resource.ts";
import type {
  BoundObjectReference,
  ConfigMap,
  Event,
  Lease,
  Node,
  ServiceAccount,
  TokenRequest,
} from "../../proto/kubernetes/gen/types.ts";
import { parseTime } from "../../proto/kubernetes/values/time.ts";
import { errorCodeOf, type KubeFixture, namespace } from "./kube-fixture.ts";

/** The contract of creating, reading, changing, listing and deleting objects. */
export function objectsContract(fixture: KubeFixture): void {
  const { connection, kube, fresh, aPod, createPod, createConfigMap, patchStatus, deletePod, readPod } = fixture;

  describe("an object", () => {
    test("is created without apiVersion and kind; the server fills them in with its metadata", async () => {
      const { apiVersion, kind, metadata, data } = await createConfigMap();
      expect({ apiVersion, kind, data }).toEqual({ apiVersion: "v1", kind: "ConfigMap", data: { a: "b" } });
      expect(metadata).toMatchObject({
        namespace: namespace,
        uid: expect.stringMatching(/^[0-9a-f-]{36}$/),
        resourceVersion: expect.stringMatching(/^\d+$/),
        creationTimestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      });
      expect(await kube.get(configMaps(namespace), metadata.name!)).toMatchObject({ metadata, data: { a: "b" } });
    });

    test("cannot be created twice", async () => {
      const { metadata } = await createConfigMap();
      expect(await errorCodeOf(createConfigMap({ name: metadata.name! }))).toBe("ALREADY_EXISTS");
    });

    test("with generateName gets a unique name", async () => {
      const { metadata } = await kube.create<ConfigMap>(configMaps(namespace), {
        metadata: { generateName: "some-" },
      });
      expect(metadata.name).toMatch(/^some-.{5,}$/);
    });

    test("is of a resource that the server serves, in a version that it serves", async () => {
      const served = (plural: string, version: string) => kube.isServed({ group: "node.k8s.io", version, plural });
      expect(await Promise.all([served("runtimeclasses", "v1"), served("nothing", "v1")])).toEqual([true, false]);
      expect(await served("runtimeclasses", "v9")).toBe(false);
      expect(await Promise.all([kube.isServed(configMaps("any")), kube.isServed(leases("any"))])).toEqual([true, true]);
    });

    test("that does not exist cannot be read, changed or deleted", async () => {
      const absent = aPod();
      const name = absent.metadata.name!;
      expect(await errorCodeOf(kube.get(pods(namespace), name))).toBe("NOT_FOUND");
      expect(await errorCodeOf(patchStatus(absent, { phase: "Running" }, "u1"))).toBe("NOT_FOUND");
      expect(await errorCodeOf(kube.replace(pods(namespace), absent))).toBe("NOT_FOUND");
      expect(await errorCodeOf(deletePod(absent))).toBe("NOT_FOUND");
    });

    test("is replaced only if the resourceVersion matches or is left out", async () => {
      const first = await createConfigMap();
      const second = await kube.replace(configMaps(namespace), { ...first, data: { a: "c" } });
      expect(Number(second.metadata.resourceVersion)).toBeGreaterThan(Number(first.metadata.resourceVersion));
      expect(await errorCodeOf(kube.replace(configMaps(namespace), { ...first, data: { a: "d" } }))).toBe("CONFLICT");
      const { resourceVersion: _, ...metadata } = first.metadata;
      const third = await kube.replace(configMaps(namespace), { ...first, metadata, data: { a: "e" } });
      expect(third.data).toEqual({ a: "e" });
    });

    test("is not replaced under another uid", async () => {
      const map = await createConfigMap();
      const { resourceVersion: _, ...metadata } = { ...map.metadata, uid: "another" };
      expect(await errorCodeOf(kube.replace(configMaps(namespace), { ...map, metadata }))).toBe("CONFLICT");
    });

    test("that is a ServiceAccount issues tokens, only if the uid matches", async () => {
      const name = fresh();
      const account = await kube.create<ServiceAccount>(serviceAccounts(namespace), { metadata: { name } });
      const request = (uid = account.metadata.uid!): TokenRequest => ({
        metadata: { uid },
        spec: { audiences: ["them"] },
      });
      const { spec, status } = await kube.requestToken(namespace, name, request());
      expect(status?.token).toMatch(/./);
      const lifetimeMs = parseTime(status?.expirationTimestamp ?? "") - Date.now();
      expect(Math.abs(lifetimeMs - 3_600_000)).toBeLessThan(60_000);
      expect([spec.audiences, spec.expirationSeconds]).toEqual([["them"], 3_600]);
      expect(await errorCodeOf(kube.requestToken(namespace, name, request("another")))).toBe("CONFLICT");
      const missing = await kube
        .requestToken(namespace, "nothing", { metadata: {}, spec: {} })
        .catch((error: unknown) => error);
      expect(missing).toMatchObject({ code: "NOT_FOUND", serverMessage: 'serviceaccounts "nothing" not found' });
    });

    test("that is a ServiceAccount issues tokens that are bound to a pod of it", async () => {
      const [account, other] = [fresh(), fresh()];
      for (const name of [account, other])
        await kube.create<ServiceAccount>(serviceAccounts(namespace), { metadata: { name } });
      const { metadata, spec: podSpec } = aPod();
      const pod = await kube.create(pods(namespace), { metadata, spec: { ...podSpec, serviceAccountName: account } });
      const request = (bound: Partial<BoundObjectReference>, expirationSeconds = 700): TokenRequest => {
        const { name, uid } = pod.metadata;
        const boundObjectRef = { apiVersion: "v1", kind: "Pod", name: name!, uid: uid!, ...bound };
        return { metadata: {}, spec: { audiences: [], expirationSeconds, boundObjectRef } };
      };
      const { spec, status } = await kube.requestToken(namespace, account, request({}));
      expect([spec.expirationSeconds, spec.audiences?.length]).toEqual([700, 1]);
      const lifetimeMs = parseTime(status?.expirationTimestamp ?? "") - Date.now();
      expect(Math.abs(lifetimeMs - 700_000)).toBeLessThan(60_000);
      const errorOf = (body: TokenRequest, of = account) =>
        kube.requestToken(namespace, of, body).catch((error: unknown) => error);
      expect(await errorOf(request({ uid: "another" }))).toMatchObject({
        code: "CONFLICT",
        serverMessage: expect.stringContaining("the UID in the bound object reference (another) does not match"),
      });
      expect(await errorOf(request({ name: "gone" }))).toMatchObject({
        code: "NOT_FOUND",
        serverMessage: 'pods "gone" not found',
      });
      expect(await errorOf(request({}), other)).toMatchObject({
        code: "INVALID",
        serverMessage: `cannot bind token for serviceaccount "${other}" to pod running with different serviceaccount name.`,
      });
      expect(await errorOf(request({}, 599))).toMatchObject({
        code: "INVALID",
        serverMessage: expect.stringContaining("may not specify a duration less than 10 minutes"),
      });
    });

    test("keeps its resourceVersion when a write changes nothing", async () => {
      const pod = await createPod();
      const { metadata } = await patchStatus(pod, { phase: "Pending" });
      expect(metadata.resourceVersion).toBe(pod.metadata.resourceVersion!);
    });

    test("is neither patched nor deleted under another uid", async () => {
      const pod = await createPod();
      const deletion = { gracePeriodSeconds: 0, preconditions: { uid: "another" } };
      expect(await errorCodeOf(patchStatus(pod, { phase: "Running" }, "another"))).toBe("CONFLICT");
      expect(await errorCodeOf(kube.delete(pods(namespace), pod.metadata.name!, deletion))).toBe("CONFLICT");
      expect((await patchStatus(pod, { phase: "Running" }, pod.metadata.uid)).status?.phase).toBe("Running");
      await kube.delete(pods(namespace), pod.metadata.name!, {
        gracePeriodSeconds: 0,
        preconditions: { uid: pod.metadata.uid! },
      });
      expect(await errorCodeOf(readPod(pod))).toBe("NOT_FOUND");
    });

    test("answers a patch of its uid with 422 Invalid", async () => {
      const { metadata } = await createConfigMap();
      const error = await connection
        .request({
          method: "PATCH",
          path: pathOf(configMaps(namespace), metadata.name),
          contentType: "application/merge-patch+json",
          body: { metadata: { uid: "another" } },
          deadlineMs: 10_000,
        })
        .catch((error: unknown) => error);
      expect(error).toMatchObject({ code: "INVALID", status: 422, reason: "Invalid" });
      expect((error as KubeError).fields).toContain("metadata.uid");
    });

    test("is patched only if the resourceVersion in the patch matches", async () => {
      const pod = await createPod();
      const patch = (resourceVersion: string, colour: string) =>
        kube.patch(pods(namespace), pod.metadata.name!, {
          type: "merge",
          body: { metadata: { resourceVersion, labels: { colour } } },
        });
      expect((await patch(pod.metadata.resourceVersion!, "green")).metadata.labels).toEqual({ colour: "green" });
      expect(await errorCodeOf(patch(pod.metadata.resourceVersion!, "red"))).toBe("CONFLICT");
    });
  });

  describe("a list", () => {
    test("returns the objects that match the label selector, and a resourceVersion", async () => {
      for (const colour of ["green", "red"]) await createConfigMap({ name: fresh(), labels: { colour, of: "list" } });
      const names = async (labelSelector: string) => {
        const { items, resourceVersion } = await kube.list(configMaps(namespace), { labelSelector });
        expect(resourceVersion).toMatch(/^\d+$/);
        return items.map(({ metadata }) => metadata.labels?.["colour"]);
      };
      expect(await names("of=list,colour=green")).toEqual(["green"]);
      expect(await names("of=list,colour!=green")).toEqual(["red"]);
      expect(await names("of=list,colour in (red, blue)")).toEqual(["red"]);
      expect(await names("of=list,!colour")).toEqual([]);
      expect(await names("of=list,colour")).toEqual(["green", "red"]);
    });

    test("returns the pods that match a field selector on the node", async () => {
      const pod = await createPod({ nodeName: "contract-list" });
      const selector = { fieldSelector: "spec.nodeName=contract-list,status.phase!=Failed" };
      const { items } = await kube.list(pods(), selector);
      expect(items.map(({ metadata }) => metadata.uid)).toEqual([pod.metadata.uid]);
    });

    test("returns pages of one consistent state", async () => {
      const labels = { of: "pages" };
      const [first, second, third] = [
        await createConfigMap({ labels }),
        await createConfigMap({ labels }),
        await createConfigMap({ labels }),
      ];
      const page = (query: Record<string, string>) =>
        connection.request({
          method: "GET",
          path: pathOf(configMaps(namespace)),
          query: { labelSelector: "of=pages", limit: "2", ...query },
          deadlineMs: 10_000,
        }) as Promise<{ metadata: { continue?: string; resourceVersion: string }; items: ConfigMap[] }>;
      const one = await page({});
      await kube.delete(configMaps(namespace), third!.metadata.name!);
      const two = await page({ continue: one.metadata.continue! });
      const uids = [...one.items, ...two.items].map(({ metadata }) => metadata.uid);
      expect(uids.toSorted()).toEqual([first, second, third].map((map) => map!.metadata.uid).toSorted());
      expect(one.items.length).toBe(2);
      expect(two.metadata.continue ?? "").toBe("");
      expect(two.metadata.resourceVersion).toBe(one.metadata.resourceVersion);
    });
  });

  test("a deleted ConfigMap is removed at once, unless it has finalizers", async () => {
    const [free, held] = [await createConfigMap(), await createConfigMap({ finalizers: ["berth.test/hold"] })];
    for (const { metadata } of [free, held]) await kube.delete(configMaps(namespace), metadata.name!);
    const get = ({ metadata }: ConfigMap) => kube.get(configMaps(namespace), metadata.name!);
    expect(await errorCodeOf(get(free))).toBe("NOT_FOUND");
    expect((await get(held)).metadata).toMatchObject({ deletionGracePeriodSeconds: 0 });
  });

  describe("a merge patch", () => {
    test("removes fields with null and replaces lists", async () => {
      const map = await createConfigMap({ name: fresh(), labels: { a: "1", b: "2" }, finalizers: ["berth.test/a"] });
      const patched = await kube.patch(configMaps(namespace), map.metadata.name!, {
        type: "merge",
        body: { metadata: { labels: { a: null, c: "3" }, finalizers: ["berth.test/b"] }, data: null },
      });
      expect(patched.metadata.labels).toEqual({ b: "2", c: "3" });
      expect(patched.metadata.finalizers).toEqual(["berth.test/b"]);
      expect(patched.data).toBeUndefined();
    });
  });

  describe("a node", () => {
    const aNode = (): Node => ({
      metadata: { name: `contract-${fresh()}` },
      spec: {},
      status: {
        addresses: [
          { type: "InternalIP", address: "10.0.0.1" },
          { type: "Hostname", address: "a" },
        ],
        conditions: [{ type: "Ready", status: "False" }],
      },
    });
    const addressesOf = ({ status }: Node) => status?.addresses?.map(({ type, address }) => `${type} ${address}`);
    const patchNode = ({ metadata }: Node, addresses: readonly object[]) =>
      kube.patch(nodes, metadata.name!, {
        type: "strategic",
        subresource: "status",
        body: { status: { addresses } },
      });

    test("keeps the status from its creation and has no generation", async () => {
      const node = await kube.create(nodes, aNode());
      expect(node.status).toMatchObject({ ...aNode().status });
      expect(node.metadata.generation).toBeUndefined();
    });

    test("merges the addresses of a patch by type, or replaces them with a directive", async () => {
      const node = await kube.create(nodes, aNode());
      expect(addressesOf(await patchNode(node, [{ type: "InternalIP", address: "10.0.0.2" }]))).toEqual([
        "InternalIP 10.0.0.2",
        "Hostname a",
      ]);
      const two = ["10.0.0.3", "fd00::3"].map((address) => ({ type: "InternalIP", address }));
      expect(addressesOf(await patchNode(node, [{ $patch: "replace" }, ...two]))).toEqual([
        "InternalIP 10.0.0.3",
        "InternalIP fd00::3",
      ]);
    });

    test("accepts labels and annotations in a status patch, but no spec", async () => {
      const { metadata } = await kube.create(nodes, aNode());
      const patched = await kube.patch(nodes, metadata.name!, {
        type: "strategic",
        subresource: "status",
        body: { metadata: { labels: { a: "b" }, annotations: { c: "d" } }, spec: { unschedulable: true } },
      });
      expect(patched.metadata).toMatchObject({ labels: { a: "b" }, annotations: { c: "d" } });
      expect(patched.spec.unschedulable).toBeUndefined();
    });

    test("a strategic patch of the taints replaces the whole list", async () => {
      const { metadata } = await kube.create(nodes, aNode());
      for (const key of ["a", "b"]) {
        const taints = [{ key, effect: "NoSchedule" }];
        const { spec } = await kube.patch(nodes, metadata.name!, { type: "strategic", body: { spec: { taints } } });
        expect(spec.taints).toEqual(taints as never);
      }
    });
  });

  describe("a lease", () => {
    const aLease = (holderIdentity: string, name = fresh()): Lease => ({
      metadata: { name },
      spec: { holderIdentity },
    });

    test("is replaced only with the current resourceVersion", async () => {
      const lease = await kube.create(leases(namespace), aLease("a"));
      const renewed = await kube.replace(leases(namespace), { ...lease, spec: { holderIdentity: "b" } });
      expect(renewed.spec.holderIdentity).toBe("b");
      expect(await errorCodeOf(kube.replace(leases(namespace), { ...lease, spec: { holderIdentity: "c" } }))).toBe(
        "CONFLICT",
      );
      expect(await errorCodeOf(kube.replace(leases(namespace), aLease("d", lease.metadata.name!)))).toBe("INVALID");
    });

    test("that was deleted is created again by a PUT, but not by one with the old uid", async () => {
      const lease = await kube.create(leases(namespace), aLease("a"));
      await kube.delete(leases(namespace), lease.metadata.name!);
      expect(await errorCodeOf(kube.replace(leases(namespace), lease))).toBe("CONFLICT");
      const { uid: _, ...metadata } = lease.metadata;
      const again: Lease = await kube.replace(leases(namespace), { ...lease, metadata });
      expect(again.metadata.uid).not.toBe(lease.metadata.uid);
    });

    test("is created by a PUT", async () => {
      const lease = await kube.replace(leases(namespace), aLease("a"));
      expect(lease.spec.holderIdentity).toBe("a");
    });
  });

  test("an event is created, and a patch changes its count", async () => {
    const event: Event = {
      metadata: { name: `${fresh()}.17f`, namespace: namespace },
      involvedObject: { kind: "Pod", namespace: namespace, name: "web" },
      reason: "Started",
      message: "Started container c",
      source: { component: "kubelet", host: "contract-a" },
      type: "Normal",
      count: 1,
    };
    const { metadata } = await kube.create(events(namespace), event, { priorityLevel: "events" });
    const patched = await kube.patch(
      events(namespace),
      metadata.name!,
      { type: "strategic", body: { count: 2, message: "again" } },
      { priorityLevel: "events" },
    );
    expect(patched).toMatchObject({ count: 2, message: "again", reason: "Started" });
  });

  test("nothing can be created in a terminating namespace; the error names metadata.namespace", async () => {
    const name = `contract-${fresh()}`;
    const namespaces: Resource = { group: "", version: "v1", plural: "namespaces" };
    await kube.create(namespaces, { metadata: { name } });
    await kube.delete(namespaces, name);
    const error = await kube
      .create(configMaps(name), { metadata: { name: "late" } })
      .catch((refusal: unknown) => refusal);
    expect(error).toMatchObject({ code: "FORBIDDEN", status: 403, fields: ["metadata.namespace"] });
  });

  test("a call whose signal has aborted is cancelled", async () => {
    expect(await errorCodeOf(kube.get(nodes, "a", { signal: AbortSignal.abort() }))).toBe("CANCELLED");
  });
}
