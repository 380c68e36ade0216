/*
 * https://kubernetes.io/docs/concepts/storage/projected-volumes/
 * https://kubernetes.io/docs/tasks/configure-pod-container/configure-projected-volume-storage/
 *
 * Not tested here, since it concerns others or is not implemented:
 *   clusterTrustBundle and podCertificate projected volumes   test/scenarios/certificates.test.ts
 *   serviceAccountToken    which audiences and lifetimes are allowed, who accepts a token: the API server. The refresh:
 *                          service-account-tokens.test.ts
 *   Windows                another operating system
 */
import { expect, test } from "bun:test";
import type {
  PodSpec,
  ServiceAccountTokenProjection,
  TokenRequest,
  VolumeProjection,
} from "../../proto/kubernetes/gen/types.ts";
import { container, describeSection, runPod } from "./pod-case.ts";
import {
  addConfigMap,
  addSecret,
  changeConfigMap,
  collectTokenRequests,
  modesIn,
  mountsOf,
  ownerOf,
  textsIn,
  writeIn,
} from "./volume-view.ts";

const projected = (sources: readonly VolumeProjection[], more: object = {}): Partial<PodSpec> => ({
  volumes: [{ name: "all-in-one", projected: { sources, ...more } }],
});
const token = (more: Partial<ServiceAccountTokenProjection> = {}): VolumeProjection => ({
  serviceAccountToken: { path: "token", ...more },
});
const before = async (node: Parameters<typeof addSecret>[0]) => {
  await addSecret(node, "mysecret", { username: "admin", password: "s3cr3t" });
  await addSecret(node, "mysecret2", { password: "other" });
  await addConfigMap(node, "myconfigmap", { config: "colour=blue", more: "more" });
};

describeSection("Introduction", () => {
  test("several volume sources are mapped into the same directory", async () => {
    const sources: readonly VolumeProjection[] = [
      { secret: { name: "mysecret" } },
      { downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
      { configMap: { name: "myconfigmap" } },
      token(),
    ];
    const { harness } = await runPod({ spec: projected(sources), before });
    expect(mountsOf(harness)).toHaveLength(1);
    expect(await textsIn(harness)).toEqual({
      "/all-in-one/username": "admin",
      "/all-in-one/password": "s3cr3t",
      "/all-in-one/name": "web",
      "/all-in-one/config": "colour=blue",
      "/all-in-one/more": "more",
      "/all-in-one/token": expect.stringMatching(/^token 1 of default/),
    });
  });
});

describeSection("Example configuration with a secret, a downwardAPI, and a configMap", () => {
  test("each file is at its own path", async () => {
    const limits = { cpu: "1500m" };
    const { harness } = await runPod({
      spec: {
        ...projected([
          { secret: { name: "mysecret", items: [{ key: "username", path: "my-group/my-username" }] } },
          {
            downwardAPI: {
              items: [
                { path: "labels", fieldRef: { fieldPath: "metadata.labels" } },
                { path: "cpu_limit", resourceFieldRef: { containerName: "a", resource: "limits.cpu" } },
              ],
            },
          },
          { configMap: { name: "myconfigmap", items: [{ key: "config", path: "my-group/my-config" }] } },
        ]),
        containers: [
          container("a", {
            resources: { limits },
            volumeMounts: [{ name: "all-in-one", mountPath: "/projected-volume", readOnly: true }],
          }),
        ],
      },
      metadata: { labels: { app: "web" } },
      before,
    });
    expect(await textsIn(harness)).toEqual({
      "/projected-volume/my-group/my-username": "admin",
      "/projected-volume/labels": 'app="web"',
      // Rounded up to whole cores.
      "/projected-volume/cpu_limit": "2",
      "/projected-volume/my-group/my-config": "colour=blue",
    });
    await expect(writeIn(harness, "/projected-volume/labels", "x")).rejects.toThrow("Read-only file system");
  });
});

describeSection("Example configuration: secrets with a non-default permission mode set", () => {
  const sources: readonly VolumeProjection[] = [
    { secret: { name: "mysecret", items: [{ key: "username", path: "my-group/my-username" }] } },
    { secret: { name: "mysecret2", items: [{ key: "password", path: "my-group/my-password", mode: 0o777 }] } },
  ];

  test("the mode of a projection is that of its file", async () => {
    const { harness } = await runPod({ spec: projected(sources), before });
    expect(await modesIn(harness)).toEqual({
      "/all-in-one/my-group/my-username": "644",
      "/all-in-one/my-group/my-password": "777",
    });
  });

  test("defaultMode is specified for all projections", async () => {
    const { harness } = await runPod({ spec: projected(sources, { defaultMode: 0o440 }), before });
    expect(await modesIn(harness)).toEqual({
      "/all-in-one/my-group/my-username": "440",
      "/all-in-one/my-group/my-password": "777",
    });
  });
});

describeSection("serviceAccountToken projected volumes", () => {
  test("the token of the pod's service account is at the specified path, relative to the mount point", async () => {
    const { harness } = await runPod({ spec: projected([token({ path: "of/account" })]) });
    expect(await textsIn(harness)).toEqual({ "/all-in-one/of/account": "token 1 of default for " });
  });

  test("the token has the intended audience and the expected duration of validity", async () => {
    const requests: TokenRequest[] = [];
    const { harness } = await runPod({
      spec: projected([token({ audience: "vault", expirationSeconds: 7200 })]),
      before: (node) => collectTokenRequests(node, requests),
    });
    expect(await textsIn(harness)).toEqual({ "/all-in-one/token": "token 1 of default for vault" });
    expect(requests).toMatchObject([{ spec: { audiences: ["vault"], expirationSeconds: 7200 } }]);
  });

  test("audience and duration are optional: by default the API server's, and 1 hour", async () => {
    const requests: TokenRequest[] = [];
    await runPod({
      spec: projected([token()]),
      before: (node) => collectTokenRequests(node, requests),
    });
    expect(requests).toMatchObject([{ spec: { audiences: [], expirationSeconds: 3600 } }]);
  });

  test("a container with a projected source as a subPath does not receive updates", async () => {
    const volumeMounts = [{ name: "all-in-one", mountPath: "/etc/config", subPath: "config" }];
    const { harness } = await runPod({
      spec: { ...projected([{ configMap: { name: "myconfigmap" } }]), containers: [container("a", { volumeMounts })] },
      before,
    });
    expect(await textsIn(harness)).toEqual({ "/etc/config": "colour=blue" });
    await changeConfigMap(harness, "myconfigmap", { config: "colour=red" });
    await harness.advance("2m");
    expect((await textsIn(harness))["/etc/config"]).not.toBe("colour=red");
  });
});

const volumeMounts = [{ name: "all-in-one", mountPath: "/all-in-one" }];
const asUser = (name: string, runAsUser?: number) =>
  container(name, { volumeMounts, ...(runAsUser !== undefined && { securityContext: { runAsUser } }) });

describeSection("SecurityContext interactions: Linux", () => {
  test.each([
    ["the pod", { securityContext: { runAsUser: 1000 }, containers: [asUser("a"), asUser("b")] }],
    ["all containers", { containers: [asUser("a", 1000), asUser("b", 1000)] }],
  ] as const)("with one runAsUser of %s the token belongs to that user and has the mode 0600", async (_who, spec) => {
    const { harness } = await runPod({ spec: { ...projected([token()]), ...spec } });
    expect(await modesIn(harness, "a")).toEqual({ "/all-in-one/token": "600" });
    expect(await ownerOf(harness, "/all-in-one/token", "a")).toStartWith("1000:");
  });

  test("containers with different users can all read the token", async () => {
    const containers = [asUser("a", 1000), asUser("b", 2000)];
    const { harness } = await runPod({ spec: { ...projected([token()]), containers } });
    expect(await modesIn(harness, "a")).toEqual({ "/all-in-one/token": "644" });
  });

  test("an ephemeral container that is added later does not change the permissions", async () => {
    const { harness } = await runPod({ spec: { ...projected([token()]), containers: [asUser("a", 1000)] } });
    await harness.debug("web", { ...asUser("debugger", 2000) });
    await harness.advance("65m");
    expect(await textsIn(harness, "a")).toEqual({ "/all-in-one/token": "token 2 of default for " });
    expect(await modesIn(harness, "a")).toEqual({ "/all-in-one/token": "600" });
    expect(await ownerOf(harness, "/all-in-one/token", "a")).toStartWith("1000:");
  });
});
