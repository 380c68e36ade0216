/*
 * https://kubernetes.io/docs/concepts/configuration/secret/
 * https://kubernetes.io/docs/tasks/inject-data-application/distribute-credentials-secure/
 *
 * Not tested here, since it concerns others or is not implemented:
 *   Constraints on Secret names and data, Size limit, Types of Secret, Editing   the API server, kubectl
 *   Using Secrets as files from a Pod   the strategies Cache and Get: test/scenarios/change-detection.test.ts
 *   Container image pull secrets        test/scenarios/private-images.test.ts
 *   Using Secrets as environment variables   names that are none are skipped: since 1.34 each key is a valid name
 *   Immutable Secrets                   changes are refused: the API server. The watch: configmaps.test.ts
 *   Using Secrets with static Pods      proto/kubernetes/static-pod.test.ts
 * What `secret` volumes are is in volume-types.test.ts.
 */
import { expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { secrets } from "../../kube/resource.ts";
import type { KeyToPath, Volume } from "../../proto/kubernetes/gen/types.ts";
import type { AgentHarness } from "../scenarios/harness.ts";
import { container, describeSection, runPod, statusOf } from "./pod-case.ts";
import { addSecret, changeSecret, environmentOf, leftovers, modesIn, mountFailures, textsIn } from "./volume-view.ts";

const credentials = { username: "my-app", password: "39528$vdg7Jb" };
const addCredentials = (node: AgentHarness) => addSecret(node, "mysecret", credentials);
const foo = (more: Partial<NonNullable<Volume["secret"]>> = {}) => ({
  volumes: [{ name: "foo", secret: { secretName: "mysecret", ...more } }],
});
const notFound = 'MountVolume.SetUp failed for volume "foo" : secret "mysecret" not found';

describeSection("Using a Secret", () => {
  test("a pod whose Secret does not exist is retried periodically, and an event has the details", async () => {
    const { harness } = await runPod({ spec: foo() });
    await harness.advance("20s");
    expect([await harness.apiPods(), await mountFailures(harness)]).toEqual([
      ["web Pending: a waiting ContainerCreating"],
      [notFound],
    ]);
    await addCredentials(harness);
    await harness.advance("2s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });

  test("a pod whose Secret cannot be fetched for lack of a connection starts once there is one", async () => {
    let reconnect = () => {};
    const { harness } = await runPod({
      spec: foo(),
      before: async (node) => {
        await addCredentials(node);
        node.kube.before.watch = async (about) => {
          if (about.startsWith("secrets")) throw new KubeError("UNREACHABLE", "connection refused");
        };
        reconnect = () => void delete node.kube.before.watch;
      },
    });
    await harness.advance("20s");
    expect(harness.runtime.sandboxes.size).toBe(0);
    reconnect();
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });
});

describeSection("Optional Secrets", () => {
  test("an optional Secret that does not exist is ignored", async () => {
    const { harness } = await runPod({ spec: foo({ optional: true }) });
    expect([await harness.apiPods(), await textsIn(harness)]).toEqual([["web Running, ready: a running"], {}]);
  });

  test("by default no container of the pod starts until all its Secrets are available", async () => {
    const containers = [container("a", { volumeMounts: [{ name: "foo", mountPath: "/foo" }] }), container("b")];
    const { harness } = await runPod({ spec: { ...foo(), containers } });
    await harness.advance("1m");
    expect(harness.runtime.containers.size).toBe(0);
    expect((await statusOf(harness)).phase).toBe("Pending");
  });

  test("the pod does not start up if its Secret lacks the named key", async () => {
    const { harness } = await runPod({ spec: foo({ items: [{ key: "none", path: "none" }] }), before: addCredentials });
    await harness.advance("10s");
    expect([harness.runtime.containers.size, await mountFailures(harness)]).toEqual([
      0,
      ['MountVolume.SetUp failed for volume "foo" : references non-existent secret key: none'],
    ]);
  });
});

describeSection("Using Secrets as files from a Pod", () => {
  test("when the Secret is updated, the files in the volume are", async () => {
    const { harness } = await runPod({ spec: foo(), before: addCredentials });
    await changeSecret(harness, "mysecret", { username: "other", added: "new" });
    await harness.advance("2s");
    expect(await textsIn(harness)).toEqual({ "/foo/username": "other", "/foo/added": "new" });
  });

  test("files of a deleted Secret stay in the running pod", async () => {
    const { harness } = await runPod({ spec: foo(), before: addCredentials });
    await harness.kube.user.delete(secrets("default"), "mysecret");
    await harness.advance("5m");
    expect(await textsIn(harness)).toEqual({ "/foo/username": "my-app", "/foo/password": "39528$vdg7Jb" });
  });
});

describeSection("Use case: dotfiles in a secret volume", () => {
  test("a key that begins with a dot becomes a hidden file", async () => {
    const { harness } = await runPod({
      spec: foo(),
      before: (node) => addSecret(node, "mysecret", { ".secret-file": "value-2" }),
    });
    expect(await textsIn(harness)).toEqual({ "/foo/.secret-file": "value-2" });
  });
});

describeSection("Use case: Secret visible to one container in a Pod", () => {
  test("the other container cannot access it", async () => {
    const containers = [
      container("signer", { volumeMounts: [{ name: "foo", mountPath: "/foo" }] }),
      container("front"),
    ];
    const { harness } = await runPod({ spec: { ...foo(), containers }, before: addCredentials });
    expect([Object.keys(await textsIn(harness, "signer")), await textsIn(harness, "front")]).toEqual([
      ["/foo/password", "/foo/username"],
      {},
    ]);
    expect(environmentOf(harness, "front")).not.toHaveProperty("password");
  });
});

describeSection("Information security for Secrets", () => {
  test("a Secret is only sent to a node if a pod on that node requires it", async () => {
    const { harness } = await runPod({ before: addCredentials });
    await harness.advance("1m");
    expect(harness.kube.calls.filter((call) => call.includes("secrets"))).toEqual([]);
  });

  test("the local copy of the data is deleted once the pod is deleted", async () => {
    const { harness } = await runPod({ spec: foo(), before: addCredentials });
    await harness.deletePod("web");
    await harness.advance("1m");
    expect(leftovers(harness)).toEqual([]);
    const kept = [...harness.disk.nodes.values()].filter(
      (node) => node.kind === "file" && node.content.includes("39528"),
    );
    expect(kept).toEqual([]);
  });
});

describeSection("Create a Pod that has access to the secret data through a Volume", () => {
  test("there is one file for each piece of the data", async () => {
    const volumeMounts = [{ name: "foo", mountPath: "/etc/secret-volume", readOnly: true }];
    const { harness } = await runPod({
      spec: { ...foo(), containers: [container("a", { volumeMounts })] },
      before: addCredentials,
    });
    expect(await textsIn(harness)).toEqual({
      "/etc/secret-volume/username": "my-app",
      "/etc/secret-volume/password": "39528$vdg7Jb",
    });
  });
});

const username: KeyToPath = { key: "username", path: "my-group/my-username" };

describeSection("Project Secret keys to specific file paths", () => {
  test("a key is at its path, and keys that are not listed are not projected", async () => {
    const { harness } = await runPod({ spec: foo({ items: [username] }), before: addCredentials });
    expect(await textsIn(harness)).toEqual({ "/foo/my-group/my-username": "my-app" });
  });

  test("all listed keys must exist: otherwise the volume is not created", async () => {
    const items = [username, { key: "none", path: "none" }];
    const { harness } = await runPod({ spec: foo({ items }), before: addCredentials });
    await harness.advance("10s");
    expect(leftovers(harness).filter((path) => path.includes("/foo"))).toEqual([]);
  });
});

describeSection("Set POSIX permissions for Secret keys", () => {
  test("by default the mode is 0644", async () => {
    const { harness } = await runPod({ spec: foo(), before: addCredentials });
    expect(await modesIn(harness)).toEqual({ "/foo/username": "644", "/foo/password": "644" });
  });

  test("defaultMode is that of the whole volume, and each key can have its own", async () => {
    const items = [
      { ...username, mode: 0o777 },
      { key: "password", path: "password" },
    ];
    const { harness } = await runPod({ spec: foo({ items, defaultMode: 0o400 }), before: addCredentials });
    expect(await modesIn(harness)).toEqual({ "/foo/my-group/my-username": "777", "/foo/password": "400" });
  });
});

describeSection("Define container environment variables using Secret data", () => {
  test("variables have the values of single keys, or of all keys of a Secret", async () => {
    const valueFrom = { secretKeyRef: { name: "mysecret", key: "username" } };
    const { harness } = await runPod({
      spec: {
        containers: [
          container("a", {
            env: [{ name: "SECRET_USERNAME", valueFrom }],
            envFrom: [{ secretRef: { name: "mysecret" } }],
          }),
        ],
      },
      before: addCredentials,
    });
    expect(environmentOf(harness)).toMatchObject({ SECRET_USERNAME: "my-app", ...credentials });
  });
});
