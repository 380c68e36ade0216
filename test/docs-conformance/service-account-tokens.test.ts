/*
 * https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
 * https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/
 *
 * Not tested here, since it concerns others:
 *   Use the default service account, Opt out of API credential automounting   the ServiceAccount admission controller,
 *                           which gives the pod its volume
 *   Bound service account   a token is invalid once its pod is gone, its claims, whom it authenticates: the API server;
 *   tokens                  test/differential compares the claims
 *   Manually managed tokens, ServiceAccount controllers, issuer discovery      the control plane
 *   Reloading the token     the application
 * Paths, audiences and owners of tokens are in projected-volumes.test.ts.
 */
import { expect, test } from "bun:test";
import { pods, serviceAccounts } from "../../kube/resource.ts";
import type { PodSpec, TokenRequest, VolumeProjection } from "../../proto/kubernetes/gen/types.ts";
import type { AgentHarness } from "../scenarios/harness.ts";
import { container, describeSection, runPod } from "./pod-case.ts";
import { addConfigMap, collectTokenRequests, leftovers, textsIn } from "./volume-view.ts";

const projected = (...sources: readonly VolumeProjection[]): Partial<PodSpec> => ({
  volumes: [{ name: "vault", projected: { sources } }],
});
const vaultToken = (expirationSeconds = 7200): VolumeProjection => ({
  serviceAccountToken: { path: "vault-token", expirationSeconds, audience: "vault" },
});
const path = "/vault/vault-token";

/** The number of the token that the container sees, by the text of the fake server's tokens. */
async function tokenSeen(harness: AgentHarness): Promise<number> {
  const [, number = ""] = /^token (\d+) of /.exec((await textsIn(harness))[path] ?? "") ?? [];
  return Number(number);
}

describeSection("Launch a Pod using service account token projection", () => {
  test("the kubelet requests the token on behalf of the pod, bound to it", async () => {
    const requests: TokenRequest[] = [];
    const { harness } = await runPod({
      spec: { ...projected(vaultToken()), serviceAccountName: "build-robot" },
      before: async (node) => {
        const metadata = { name: "build-robot", namespace: "default" };
        await node.kube.user.create(serviceAccounts("default"), { metadata });
        collectTokenRequests(node, requests);
      },
    });
    const { items } = await harness.kube.user.list(pods("default"), {});
    const { name = "", uid = "" } = items[0]?.metadata ?? {};
    expect(requests).toMatchObject([
      {
        spec: {
          audiences: ["vault"],
          expirationSeconds: 7200,
          boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid },
        },
      },
    ]);
    expect(await textsIn(harness)).toEqual({ [path]: "token 1 of build-robot for vault" });
  });

  test("the token is refreshed once it is older than 80% of its time to live, and not before", async () => {
    const { harness } = await runPod({ spec: projected(vaultToken()) });
    await harness.advance("95m");
    expect(await tokenSeen(harness)).toBe(1);
    await harness.advance("2m");
    expect(await tokenSeen(harness)).toBe(2);
    await harness.advance("97m");
    expect(await tokenSeen(harness)).toBe(3);
  });

  test("the token is refreshed once it is older than 24 hours", async () => {
    const { harness } = await runPod({ spec: projected(vaultToken(30 * 24 * 3600)) });
    await harness.advance("1430m");
    expect(await tokenSeen(harness)).toBe(1);
    await harness.advance("11m");
    expect(await tokenSeen(harness)).toBe(2);
  });

  test("the containers run on while their token is refreshed", async () => {
    const { harness } = await runPod({ spec: projected(vaultToken(600)) });
    const first = harness.containerIdOf("a");
    await harness.advance("60m");
    expect(await tokenSeen(harness)).toBeGreaterThan(6);
    expect([harness.containerIdOf("a"), await harness.apiPods()]).toEqual([first, ["web Running, ready: a running"]]);
  });

  test("a pod whose token cannot be had does not start, and an event says why", async () => {
    const { harness } = await runPod({ spec: { ...projected(vaultToken()), serviceAccountName: "none" } });
    await harness.advance("10s");
    expect(harness.runtime.sandboxes.size).toBe(0);
    expect((await harness.events("web")).find((event) => event.includes("FailedMount"))).toContain(
      'serviceaccounts "none" not found',
    );
  });
});

describeSection("Bound service account token volume mechanism", () => {
  /** The volume that the admission controller adds. */
  const apiAccess = projected(
    { serviceAccountToken: { path: "token", expirationSeconds: 3607 } },
    { configMap: { name: "kube-root-ca.crt", items: [{ key: "ca.crt", path: "ca.crt" }] } },
    { downwardAPI: { items: [{ path: "namespace", fieldRef: { fieldPath: "metadata.namespace" } }] } },
  );
  const volumeMounts = [{ name: "vault", mountPath: "/var/run/secrets/kubernetes.io/serviceaccount", readOnly: true }];
  const mountedAt = "/var/run/secrets/kubernetes.io/serviceaccount";
  const before = (node: AgentHarness) => addConfigMap(node, "kube-root-ca.crt", { "ca.crt": "a certificate" });
  const seen = {
    [`${mountedAt}/token`]: "token 1 of default for ",
    [`${mountedAt}/ca.crt`]: "a certificate",
    [`${mountedAt}/namespace`]: "default",
  };

  test("the volume has a token for the API server, its certificates, and the namespace", async () => {
    const spec = { ...apiAccess, containers: [container("a", { volumeMounts })] };
    const { harness } = await runPod({ spec, before });
    expect(await textsIn(harness)).toEqual(seen);
  });

  test("any container that mounts the volume can access them", async () => {
    const containers = [container("a", { volumeMounts }), container("b", { volumeMounts }), container("c")];
    const { harness } = await runPod({ spec: { ...apiAccess, containers }, before });
    const all = await Promise.all(["a", "b", "c"].map((name) => textsIn(harness, name)));
    expect(all).toEqual([seen, seen, {}]);
  });

  test("nothing of the token is left on the node once the pod is deleted, nor requested again", async () => {
    const { harness } = await runPod({ spec: projected(vaultToken(600)) });
    const requests: TokenRequest[] = [];
    await harness.deletePod("web");
    await harness.advance("60s");
    collectTokenRequests(harness, requests);
    await harness.advance("60m");
    expect([leftovers(harness), requests]).toEqual([[], []]);
  });
});
