/*
 * https://kubernetes.io/docs/concepts/storage/volumes/
 *
 * Not tested here, since it concerns others or is not implemented:
 *   How volumes work          hard links between volumes: the kernel
 *   Using subPath             subPath and subPathExpr exclude each other: the API server's validation
 *   Resources                 no isolation of the space that volumes use: the kernel, and eviction
 *   Out-of-tree volume        CSI drivers, flexVolume: not implemented yet. Raw block volumes:
 *   plugins                   test/scenarios/volume-devices.test.ts
 *   Mount propagation         Bidirectional needs a privileged container: the API server's validation. What the kernel
 *                             makes of the modes: test/differential and test/e2e
 *   Recursive read-only       the versions of the kernel and of the OCI runtime: what the runtime reports
 *   mounts
 * The types of volumes are in volume-types.test.ts.
 */
import { expect, test } from "bun:test";
import type { VolumeMount } from "../../proto/kubernetes/gen/types.ts";
import { container, containerOf, describeSection, runPod } from "./pod-case.ts";
import {
  addBoundClaim,
  addConfigMap,
  addDisk,
  addSecret,
  leftovers,
  mountsOf,
  placeOf,
  propagationsIn,
  textsIn,
  writeIn,
} from "./volume-view.ts";

const data = [{ name: "data", emptyDir: {} }];
const mounting = (name: string, ...volumeMounts: readonly VolumeMount[]) => container(name, { volumeMounts });
const at = (mountPath: string, more: Partial<VolumeMount> = {}): VolumeMount => ({ name: "data", mountPath, ...more });

describeSection("Why volumes are important", () => {
  test("a container that crashed is replaced by a new one with a clean state", async () => {
    const { harness } = await runPod();
    const first = harness.containerIdOf("a");
    await harness.exit("a", 1);
    await harness.advance("1s");
    expect(harness.containerIdOf("a")).not.toBe(first);
    expect(await containerOf(harness, "a")).toMatchObject({ restartCount: 1, state: { running: {} } });
  });

  test("containers of a pod share the files in a volume", async () => {
    const containers = [mounting("a", at("/data")), mounting("b", at("/elsewhere"))];
    const { harness } = await runPod({ spec: { volumes: data, containers } });
    await writeIn(harness, "/data/text", "hello", "a");
    expect(await textsIn(harness, "b")).toEqual({ "/elsewhere/text": "hello" });
  });
});

describeSection("How volumes work", () => {
  test("a pod can use any number of volume types simultaneously", async () => {
    const { harness } = await runPod({
      spec: {
        volumes: [
          { name: "site", configMap: { name: "site" } },
          { name: "keys", secret: { secretName: "keys" } },
          { name: "info", downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
          { name: "all", projected: { sources: [{ configMap: { name: "site" } }] } },
          { name: "scratch", emptyDir: {} },
          { name: "host", hostPath: { path: "/srv" } },
          { name: "claimed", persistentVolumeClaim: { claimName: "disk" } },
        ],
      },
      before: async (node) => {
        await addConfigMap(node, "site", { colour: "blue" });
        await addSecret(node, "keys", { key: "s3cr3t" });
        await addDisk(node, "/srv", "of the host");
        await addDisk(node, "/mnt/disk");
        await addBoundClaim(node, "disk", { local: { path: "/mnt/disk" } });
      },
    });
    expect(await textsIn(harness)).toEqual({
      "/site/colour": "blue",
      "/keys/key": "s3cr3t",
      "/info/name": "web",
      "/all/colour": "blue",
      "/host/data": "of the host",
      "/claimed/data": "precious",
    });
  });

  test("an ephemeral volume has the lifetime of its pod, and a persistent volume outlives it", async () => {
    const volumes = [
      { name: "scratch", emptyDir: {} },
      { name: "memory", emptyDir: { medium: "Memory" as const } },
      { name: "disk", persistentVolumeClaim: { claimName: "disk" } },
    ];
    const { harness } = await runPod({
      spec: { volumes },
      before: async (node) => {
        await addDisk(node, "/mnt/disk");
        await addBoundClaim(node, "disk", { local: { path: "/mnt/disk" } });
      },
    });
    for (const { name } of volumes) await writeIn(harness, `/${name}/written`, "by the pod");
    await harness.deletePod("web");
    await harness.advance("60s");
    expect(leftovers(harness)).toEqual([]);
    const root = harness.disk.at("/");
    expect([await root.read("/mnt/disk/data", 100), await root.read("/mnt/disk/written", 100)]).toEqual([
      "precious",
      "by the pod",
    ]);
  });

  test.each(["emptyDir", "memory", "hostPath", "claim"] as const)(
    "data in a volume (%s) is preserved across container restarts",
    async (kind) => {
      const sources = {
        emptyDir: { emptyDir: {} },
        memory: { emptyDir: { medium: "Memory" as const } },
        hostPath: { hostPath: { path: "/mnt/disk" } },
        claim: { persistentVolumeClaim: { claimName: "disk" } },
      };
      const { harness } = await runPod({
        spec: { volumes: [{ name: "data", ...sources[kind] }] },
        before: async (node) => {
          await addDisk(node, "/mnt/disk");
          await addBoundClaim(node, "disk", { local: { path: "/mnt/disk" } });
        },
      });
      await writeIn(harness, "/data/written", "before");
      await harness.exit("a", 1);
      await harness.advance("1m");
      expect((await containerOf(harness, "a")).restartCount).toBe(1);
      expect((await textsIn(harness))["/data/written"]).toBe("before");
    },
  );

  test("a volume is a directory that is accessible to the containers of the pod", async () => {
    const { harness } = await runPod({ spec: { volumes: data } });
    expect(await harness.disk.at("/").stat(placeOf(harness, "/data").hostPath)).toMatchObject({ kind: "directory" });
  });

  test("a volume is mounted at the specified path", async () => {
    const { harness } = await runPod({ spec: { volumes: data, containers: [mounting("a", at("/var/cache/mine"))] } });
    expect(mountsOf(harness).map(({ containerPath }) => containerPath)).toEqual(["/var/cache/mine"]);
  });

  test("each container has the mounts that it specifies, independently of the others", async () => {
    const containers = [mounting("a", at("/one"), at("/two")), mounting("b", at("/three")), container("c")];
    const { harness } = await runPod({
      spec: { volumes: data, initContainers: [mounting("i", at("/zero"))], containers },
    });
    await harness.exit("i", 0);
    await harness.advance("1s");
    const paths = ["i", "a", "b", "c"].map((name) => mountsOf(harness, name).map(({ containerPath }) => containerPath));
    expect(paths).toEqual([["/zero"], ["/one", "/two"], ["/three"], []]);
  });
});

describeSection("Using subPath", () => {
  test("subPath specifies a path inside the volume instead of its root", async () => {
    const { harness } = await runPod({
      spec: {
        volumes: [{ name: "data", hostPath: { path: "/srv" } }],
        containers: [mounting("a", at("/part", { subPath: "part" }), at("/file", { subPath: "part/data" }))],
      },
      before: (node) => addDisk(node, "/srv/part", "of the part"),
    });
    expect(await textsIn(harness)).toEqual({ "/part/data": "of the part", "/file": "of the part" });
  });

  test("one volume is shared for several uses in a pod", async () => {
    const { harness } = await runPod({
      spec: {
        volumes: [{ name: "data", persistentVolumeClaim: { claimName: "site-data" } }],
        containers: [
          mounting("mysql", at("/var/lib/mysql", { subPath: "mysql" })),
          mounting("php", at("/var/www/html", { subPath: "html" })),
        ],
      },
      before: async (node) => {
        await addDisk(node, "/mnt/disk");
        await addBoundClaim(node, "site-data", { local: { path: "/mnt/disk" } });
      },
    });
    await writeIn(harness, "/var/lib/mysql/table", "rows", "mysql");
    await writeIn(harness, "/var/www/html/index", "page", "php");
    expect([await textsIn(harness, "mysql"), await textsIn(harness, "php")]).toEqual([
      { "/var/lib/mysql/table": "rows" },
      { "/var/www/html/index": "page" },
    ]);
    expect(await harness.disk.at("/").read("/mnt/disk/mysql/table", 100)).toBe("rows");
  });
});

describeSection("Using subPath with expanded environment variables", () => {
  test("subPathExpr constructs the directory from environment variables of the downward API", async () => {
    const fieldRef = { fieldPath: "metadata.name" };
    const { harness } = await runPod({
      spec: {
        volumes: [{ name: "data", hostPath: { path: "/var/log/pods" } }],
        containers: [
          container("a", {
            env: [{ name: "POD_NAME", valueFrom: { fieldRef } }],
            volumeMounts: [at("/logs", { subPathExpr: "$(POD_NAME)" })],
          }),
        ],
      },
      before: async ({ disk }) => disk.at("/").makeFolder("/var/log/pods", 0o755),
    });
    await writeIn(harness, "/logs/hello.txt", "Hello");
    expect(await harness.disk.at("/").read("/var/log/pods/web/hello.txt", 100)).toBe("Hello");
  });
});

describeSection("Resources", () => {
  test("an emptyDir is in the file system of the kubelet's root directory", async () => {
    const { harness } = await runPod({ spec: { volumes: data } });
    expect(placeOf(harness, "/data").hostPath).toStartWith("/root/pods/");
    expect(harness.mounts.mountPoints).toEqual([]);
  });
});

describeSection("Mount propagation", () => {
  test.each([
    ["the default", {}, "private"],
    ["None", { mountPropagation: "None" }, "private"],
    ["HostToContainer", { mountPropagation: "HostToContainer" }, "rslave"],
    ["Bidirectional", { mountPropagation: "Bidirectional" }, "rshared"],
  ] as const)(
    "the mount of a volume with this mountPropagation is like that of mount(8): %s, %o, %s",
    async (_name, more, expected) => {
      const { harness } = await runPod({ spec: { volumes: data, containers: [mounting("a", at("/data", more))] } });
      expect(propagationsIn(harness)).toEqual([expected]);
    },
  );
});

describeSection("Read-only mounts", () => {
  test("a container cannot write to a read-only mount, and other containers can mount the volume to write", async () => {
    const containers = [mounting("a", at("/data", { readOnly: true })), mounting("b", at("/data"))];
    const { harness } = await runPod({ spec: { volumes: data, containers } });
    await writeIn(harness, "/data/text", "of b", "b");
    await expect(writeIn(harness, "/data/text", "of a", "a")).rejects.toThrow("Read-only file system");
    expect(await textsIn(harness, "a")).toEqual({ "/data/text": "of b" });
  });

  test("a read-only mount is not recursively read-only by default", async () => {
    const containers = [mounting("a", at("/data", { readOnly: true }))];
    const { harness } = await runPod({ spec: { volumes: data, containers } });
    expect(mountsOf(harness)).toMatchObject([{ readonly: true, recursiveReadOnly: false }]);
  });
});

type RecursiveMode = NonNullable<VolumeMount["recursiveReadOnly"]>;

/** A pod whose mount asks for a recursive mode, on a runtime that supports it or does not. */
const runRecursive = (recursiveReadOnly: RecursiveMode, recursiveReadOnlyMounts: boolean) =>
  runPod({
    spec: { volumes: data, containers: [mounting("a", at("/data", { readOnly: true, recursiveReadOnly }))] },
    features: { userNamespaces: true, supplementalGroupsPolicy: true, recursiveReadOnlyMounts },
  });

describeSection("Recursive read-only mounts", () => {
  test.each([
    ["Disabled", true, false],
    ["Enabled", true, true],
    ["IfPossible", true, true],
    ["IfPossible", false, false],
  ] as const)(
    "a mount with recursiveReadOnly %s, on a runtime with support %p, is recursively read-only: %p, and the status says so",
    async (mode, isSupported, isRecursive) => {
      const { harness } = await runRecursive(mode, isSupported);
      expect(mountsOf(harness)).toMatchObject([{ readonly: true, recursiveReadOnly: isRecursive }]);
      const [mount] = (await containerOf(harness, "a")).volumeMounts ?? [];
      expect(mount).toMatchObject({ recursiveReadOnly: isRecursive ? "Enabled" : "Disabled" });
    },
  );

  test("Enabled is an error where the runtime does not support it", async () => {
    const { harness } = await runRecursive("Enabled", false);
    await harness.advance("5s");
    expect((await containerOf(harness, "a")).state?.waiting).toMatchObject({
      reason: "CreateContainerConfigError",
      message: expect.stringContaining("recursive read-only mode, but it is not supported by the runtime"),
    });
  });
});
