import { describe, expect, test } from "bun:test";
import type { Lease, Pod } from "../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../test/fakes/clock.ts";
import { FakeConnection } from "../test/fakes/connection.ts";
import { FakeLog } from "../test/fakes/log.ts";
import { createKubeClient, type KubeClient } from "./client.ts";
import { errorOfStatus, KubeError } from "./error.ts";
import { leases, pods } from "./resource.ts";
import type { KubeRequest } from "./transport/connection.ts";

const pod: Pod = { metadata: { name: "web", namespace: "shop" }, spec: { containers: [] } };
const lease: Lease = { metadata: { name: "a", resourceVersion: "7" }, spec: {} };

function createClient(answer: unknown): { readonly kube: KubeClient; readonly connection: FakeConnection } {
  const connection = new FakeConnection();
  connection.respond = () => answer;
  const kube = createKubeClient({ connection, clock: new FakeClock(), log: new FakeLog(), random: () => 0 });
  return { kube, connection };
}

const isUrgent = () => true;
const calls: readonly (readonly [string, (kube: KubeClient) => Promise<unknown>, KubeRequest])[] = [
  [
    "get",
    (kube) => kube.get(pods("shop"), "web"),
    { method: "GET", path: "/api/v1/namespaces/shop/pods/web", deadlineMs: 30_000 },
  ],
  [
    "get, from the API server's cache",
    (kube) => kube.get(pods("shop"), "web", { isFromCache: true }),
    {
      method: "GET",
      path: "/api/v1/namespaces/shop/pods/web",
      query: { resourceVersion: "0" },
      deadlineMs: 30_000,
    },
  ],
  [
    "create, with flow control and a deadline of its own",
    (kube) => kube.create(pods("shop"), pod, { priorityLevel: "events", deadlineMs: 5 }),
    { method: "POST", path: "/api/v1/namespaces/shop/pods", body: pod, priorityLevel: "events", deadlineMs: 5 },
  ],
  [
    "replace",
    (kube) => kube.replace(leases("kube-node-lease"), lease, { priorityLevel: "heartbeat" }),
    {
      method: "PUT",
      path: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a",
      body: lease,
      priorityLevel: "heartbeat",
      deadlineMs: 30_000,
    },
  ],
  [
    "replace the status",
    (kube) => kube.replace(pods("shop"), pod, { subresource: "status" }),
    { method: "PUT", path: "/api/v1/namespaces/shop/pods/web/status", body: pod, deadlineMs: 30_000 },
  ],
  [
    "strategic merge patch of the status, with a uid precondition",
    (kube) =>
      kube.patch(pods("shop"), "web", {
        type: "strategic",
        subresource: "status",
        uid: "u1",
        body: { metadata: { labels: { a: "b" } }, status: { phase: "Running" } },
      }),
    {
      method: "PATCH",
      path: "/api/v1/namespaces/shop/pods/web/status",
      contentType: "application/strategic-merge-patch+json",
      body: { metadata: { labels: { a: "b" }, uid: "u1" }, status: { phase: "Running" } },
      deadlineMs: 30_000,
    },
  ],
  [
    "patch with a body that is made when it is sent",
    (kube) => kube.patch(pods("shop"), "web", { type: "merge", uid: "u1", body: () => ({ a: 1 }) }, { isUrgent }),
    {
      method: "PATCH",
      path: "/api/v1/namespaces/shop/pods/web",
      contentType: "application/merge-patch+json",
      body: { a: 1, metadata: { uid: "u1" } },
      deadlineMs: 30_000,
      isUrgent,
    },
  ],
  [
    "merge patch",
    (kube) => kube.patch(pods("shop"), "web", { type: "merge", body: { metadata: { finalizers: null } } }),
    {
      method: "PATCH",
      path: "/api/v1/namespaces/shop/pods/web",
      contentType: "application/merge-patch+json",
      body: { metadata: { finalizers: null } },
      deadlineMs: 30_000,
    },
  ],
  [
    "delete",
    (kube) => kube.delete(pods("shop"), "web", { gracePeriodSeconds: 0, preconditions: { uid: "u1" } }),
    {
      method: "DELETE",
      path: "/api/v1/namespaces/shop/pods/web",
      body: { apiVersion: "v1", kind: "DeleteOptions", gracePeriodSeconds: 0, preconditions: { uid: "u1" } },
      deadlineMs: 30_000,
    },
  ],
];

describe("the client sends the right request for", () => {
  for (const [what, call, request] of calls)
    test(what, async () => {
      const { kube, connection } = createClient(pod);
      await call(kube);
      const sent = connection.requests.map((each) =>
        typeof each.body === "function" ? { ...each, body: each.body() } : each,
      );
      expect(sent).toEqual([request]);
    });
});

test("the answer is returned unchanged, with the fields of a newer API", async () => {
  const answer = { ...pod, flux: 1.21 };
  expect(await createClient(answer).kube.get(pods("shop"), "web")).toBe(answer);
});

test("a deletion accepts any answer", async () => {
  await createClient(undefined).kube.delete(pods("shop"), "web");
});

for (const answer of [undefined, null, "pod", 42, [], {}, { metadata: {} }])
  test(`an answer that is not an object is an error: ${JSON.stringify(answer)}`, async () => {
    const failure = await createClient(answer)
      .kube.get(pods("shop"), "web")
      .then(
        () => "it succeeded",
        (error: KubeError) => error.code,
      );
    expect(failure).toBe("NOT_JSON");
  });

describe("a patch that the server calls invalid becomes", () => {
  const rows: readonly (readonly [string, string, KubeError["code"]])[] = [
    ["a failed precondition", "metadata.uid", "CONFLICT"],
    ["still an error of the patch", "status.phase", "INVALID"],
  ];
  for (const [what, field, code] of rows)
    test(`${what}: ${field}`, async () => {
      const { kube, connection } = createClient(pod);
      connection.respond = ({ method, path }) => {
        throw errorOfStatus(`${method} ${path}`, 422, {
          reason: "Invalid",
          details: { causes: [{ field: "metadata.name" }, { field }] },
        });
      };
      const failure = await kube
        .patch(pods("shop"), "web", { type: "strategic", uid: "u1", body: {} })
        .catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(KubeError);
      expect((failure as KubeError).code).toBe(code);
    });
});
