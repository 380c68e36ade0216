import { expect, test } from "bun:test";
import { KubeError, type KubeErrorCode, type KubeErrorOptions } from "../../../kube/error.ts";
import { createNetworkDefinitions, definitionsOfStandaloneNode } from "./network-definitions.ts";

const { signal } = new AbortController();
const lan = { namespace: "shop", name: "lan" };
const pod = { namespace: "shop", name: "web", uid: "u1", isStatic: false };

/** Definitions of an API server that answers `answer`, and what it was asked. */
function definitionsOf(answer: unknown) {
  const asked: unknown[] = [];
  const respond = async (...args: unknown[]) => {
    asked.push(args.slice(0, -1));
    if (answer instanceof Error) throw answer;
    return answer as never;
  };
  const attached: string[] = [];
  const definitions = createNetworkDefinitions({ get: respond, patch: respond }, (uid) => void attached.push(uid));
  return { asked, attached, definitions };
}

const failure = (code: KubeErrorCode, serverMessage?: string, options: KubeErrorOptions = {}) =>
  new KubeError(code, `GET /apis/x: ${serverMessage ?? "failed"}`, { serverMessage, ...options });

test("a definition is the object's configuration, or none", async () => {
  const { asked, definitions } = definitionsOf({ metadata: {}, spec: { config: "{}" } });
  expect(await definitions.read(lan, signal)).toEqual({ ...lan, config: "{}" });
  expect(asked).toEqual([
    [{ group: "k8s.cni.cncf.io", version: "v1", plural: "network-attachment-definitions", namespace: "shop" }, "lan"],
  ]);
  expect(await definitionsOf({ metadata: {} }).definitions.read(lan, signal)).toEqual({ ...lan, config: "" });
});

const failures: readonly (readonly [what: string, error: KubeError, code: number, message: string])[] = [
  [
    "what the node may not do names the ClusterRole",
    failure(
      "FORBIDDEN",
      'network-attachment-definitions.k8s.cni.cncf.io "lan" is forbidden: User "system:node:a" cannot get resource',
    ),
    7,
    'the pod selects the network shop/lan: network-attachment-definitions.k8s.cni.cncf.io "lan" is forbidden: User "system:node:a" cannot get resource; the ClusterRole berth:network-attachment-definitions of deploy/network-attachment-definitions.yaml allows it',
  ],
  [
    "a definition that does not exist is the server's words",
    failure("NOT_FOUND", 'network-attachment-definitions.k8s.cni.cncf.io "lan" not found', { status: 404 }),
    7,
    'the pod selects the network shop/lan: network-attachment-definitions.k8s.cni.cncf.io "lan" not found',
  ],
  [
    "a cluster without the resource says so",
    failure("SERVER", undefined, { status: 404 }),
    7,
    "the pod selects the network shop/lan: GET /apis/x: failed; the cluster has no NetworkAttachmentDefinitions",
  ],
  ["an outage may pass", failure("TIMEOUT"), 11, "the pod selects the network shop/lan: GET /apis/x: failed"],
];
for (const [what, error, code, message] of failures)
  test(what, async () => {
    await expect(definitionsOf(error).definitions.read(lan, signal)).rejects.toMatchObject({
      ...{ name: "CniError", code, message },
    });
  });

test("a standalone node says that it has no API server", async () => {
  await expect(definitionsOfStandaloneNode.read(lan, signal)).rejects.toMatchObject({
    code: 7,
    message: expect.stringContaining(
      "the pod selects the network shop/lan, a NetworkAttachmentDefinition of the API server, and this node has none",
    ),
  });
});

test("the status is an annotation of this very pod, and a pod that is gone needs none", async () => {
  const { asked, definitions } = definitionsOf({});
  await definitions.publishStatus(pod, "[]", signal);
  expect(asked).toEqual([
    [
      { group: "", version: "v1", plural: "pods", namespace: "shop" },
      "web",
      {
        ...{ type: "merge", subresource: "status", uid: "u1" },
        body: { metadata: { annotations: { "k8s.v1.cni.cncf.io/network-status": "[]" } } },
      },
    ],
  ]);
  for (const code of ["NOT_FOUND", "CONFLICT"] as const)
    await definitionsOf(failure(code)).definitions.publishStatus(pod, "[]", signal);
  await expect(
    definitionsOf(failure("FORBIDDEN", "no")).definitions.publishStatus(pod, "[]", signal),
  ).rejects.toMatchObject({
    code: 7,
    message: expect.stringContaining("cannot write the annotation k8s.v1.cni.cncf.io/network-status of the pod: no"),
  });
});

test("the status of a static pod is left to its mirror pod, and needs no API server", async () => {
  const { asked, attached, definitions } = definitionsOf(failure("TIMEOUT"));
  await definitions.publishStatus({ ...pod, isStatic: true }, "[]", signal);
  expect([asked, attached]).toEqual([[], ["u1"]]);
});
