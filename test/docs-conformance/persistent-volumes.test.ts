/*
 * https://kubernetes.io/docs/concepts/storage/persistent-volumes/
 * https://kubernetes.io/docs/tasks/configure-pod-container/configure-persistent-volume-storage/
 *
 * Not tested here, since it concerns others or is not implemented:
 *   Provisioning, Binding, Reclaiming,   the volume controllers and provisioners
 *   Reserving a PersistentVolume
 *   Storage Object in Use Protection     the protection controllers, which keep the claim while a pod uses it
 *   Expanding claims                     needs a CSI driver: not implemented yet
 *   Types of Persistent Volumes          csi, fc, iscsi: not implemented yet. nfs: test/scenarios/nfs.test.ts
 *   Volume Mode, Raw Block Volume        test/scenarios/volume-devices.test.ts
 *   Access Modes                         which modes a claim gets, and where a pod is placed: the volume controller,
 *                                        the scheduler
 *   Mount Options                        the older annotation, which local and hostPath volumes may not have:
 *                                        agent/translate/volumes/claimed-volume.test.ts
 *   Volume populators, data sources      controllers
 */
import { expect, test } from "bun:test";
import { persistentVolumeClaims } from "../../kube/resource.ts";
import type { PersistentVolumeSpec, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import type { AgentHarness } from "../scenarios/harness.ts";
import { container, describeSection, runPod, statusOf } from "./pod-case.ts";
import { addBoundClaim, addDisk, leftovers, mountFailures, mountsOf, textsIn, writeIn } from "./volume-view.ts";

const claims = persistentVolumeClaims("default");
const protectedByFinalizer = { finalizers: ["kubernetes.io/pvc-protection"] };
const local: PersistentVolumeSpec = { local: { path: "/mnt/disk" } };
const claimed = (readOnly?: boolean): Partial<PodSpec> => ({
  volumes: [
    { name: "data", persistentVolumeClaim: { claimName: "myclaim", ...(readOnly !== undefined && { readOnly }) } },
  ],
});
const bound =
  (spec: PersistentVolumeSpec = local, metadata: object = {}) =>
  async (node: AgentHarness) => {
    await addDisk(node, "/mnt/disk");
    await addBoundClaim(node, "myclaim", spec, metadata);
  };

describeSection("Introduction", () => {
  test("a persistent volume has a lifecycle independent of any pod that uses it", async () => {
    const { harness } = await runPod({ spec: claimed(), before: bound() });
    await writeIn(harness, "/data/written", "by web");
    await harness.deletePod("web");
    await harness.advance("60s");
    expect(leftovers(harness)).toEqual([]);
    await harness.apply("next", claimed());
    await harness.advance("5s");
    expect(await textsIn(harness)).toEqual({ "/data/data": "precious", "/data/written": "by web" });
  });
});

describeSection("Using", () => {
  test("the claim is inspected to find the bound volume, which is mounted for the pod", async () => {
    const { harness } = await runPod({ spec: claimed(), before: bound() });
    expect(await textsIn(harness)).toEqual({ "/data/data": "precious" });
  });

  test("a claim that is not bound keeps its pod from starting, until it is bound", async () => {
    const { harness } = await runPod({
      spec: claimed(),
      before: async ({ kube }) => {
        const claim = { metadata: { name: "myclaim", namespace: "default" }, status: { phase: "Pending" as const } };
        await kube.user.create(claims, { ...claim, spec: {} });
      },
    });
    await harness.advance("5s");
    expect((await mountFailures(harness)).at(-1)).toEndWith("error processing PVC default/myclaim: PVC is not bound");
    await harness.kube.user.delete(claims, "myclaim");
    await bound()(harness);
    await harness.advance("20s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });
});

describeSection("Storage Object in Use Protection", () => {
  test("a pod keeps the claim that is deleted while it uses it", async () => {
    const { harness } = await runPod({ spec: claimed(), before: bound(local, protectedByFinalizer) });
    await harness.kube.user.delete(claims, "myclaim");
    await harness.advance("5m");
    await harness.exit("a", 1);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
    expect(await textsIn(harness)).toEqual({ "/data/data": "precious" });
  });

  test("a claim that is being deleted starts no further pod", async () => {
    const { harness } = await runPod({
      spec: claimed(),
      before: async (node) => {
        await bound(local, protectedByFinalizer)(node);
        await node.kube.user.delete(claims, "myclaim");
      },
    });
    await harness.advance("5s");
    expect((await mountFailures(harness)).at(-1)).toEndWith(
      "error processing PVC default/myclaim: PVC is being deleted",
    );
  });
});

describeSection("Access Modes", () => {
  test.each(["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"])(
    "the access mode %s does not set any constraint on the mounted volume",
    async (mode) => {
      const { harness } = await runPod({ spec: claimed(), before: bound({ ...local, accessModes: [mode] }) });
      await harness.apply("second", claimed());
      await harness.advance("5s");
      expect(await harness.apiPods()).toEqual(["second Running, ready: a running", "web Running, ready: a running"]);
      await writeIn(harness, "/data/written", "anyway");
      expect((await textsIn(harness))["/data/written"]).toBe("anyway");
    },
  );

  test("a volume with ReadWriteOncePod can be mounted by a single pod only", async () => {
    const { harness } = await runPod({
      spec: claimed(),
      before: bound({ ...local, accessModes: ["ReadWriteOncePod"] }),
    });
    await harness.apply("second", claimed());
    await harness.advance("5s");
    expect(await harness.apiPods()).toEqual([
      "second Pending: a waiting ContainerCreating",
      "web Running, ready: a running",
    ]);
  });
});

describeSection("Mount Options", () => {
  test("the option ro mounts the volume read-only", async () => {
    const { harness } = await runPod({ spec: claimed(), before: bound({ ...local, mountOptions: ["ro"] }) });
    await expect(writeIn(harness, "/data/written", "x")).rejects.toThrow("Read-only file system");
  });

  test("if a mount option is invalid, the mount fails", async () => {
    const { harness } = await runPod({ spec: claimed(), before: bound({ ...local, mountOptions: ["none-such"] }) });
    await harness.advance("5s");
    expect([harness.runtime.sandboxes.size, (await mountFailures(harness)).length]).toEqual([0, 1]);
  });

  test("a hostPath volume supports no mount options", async () => {
    const { harness } = await runPod({
      spec: claimed(),
      before: bound({ hostPath: { path: "/mnt/disk" }, mountOptions: ["ro"] }),
    });
    await harness.advance("5s");
    expect((await mountFailures(harness)).at(-1)).toEndWith("mount options are not supported for this volume type");
  });
});

describeSection("Node Affinity", () => {
  test.each([
    ["here", "web Running, ready: a running"],
    ["elsewhere", "web Pending: a waiting ContainerCreating"],
  ])("a volume that can be accessed from nodes with the label disk=%s: %s", async (value, expected) => {
    const nodeSelectorTerms = [{ matchExpressions: [{ key: "disk", operator: "In" as const, values: [value] }] }];
    const { harness } = await runPod({
      spec: claimed(),
      before: async (node) => {
        node.nodeObject = { metadata: { name: "node", labels: { disk: "here" } }, spec: {} };
        await bound({ ...local, nodeAffinity: { required: { nodeSelectorTerms } } })(node);
      },
    });
    await harness.advance("5s");
    expect(await harness.apiPods()).toEqual([expected]);
  });
});

describeSection("Claims As Volumes", () => {
  test("the claim is that of the pod's namespace", async () => {
    const { harness } = await runPod({
      spec: claimed(),
      before: async ({ kube }) => {
        const metadata = { name: "myclaim", namespace: "other" };
        await kube.user.create(persistentVolumeClaims("other"), { metadata, spec: {}, status: { phase: "Bound" } });
      },
    });
    await harness.advance("5s");
    expect((await mountFailures(harness)).at(-1)).toEndWith(
      'error processing PVC default/myclaim: failed to fetch PVC from API server: persistentvolumeclaims "myclaim" not found',
    );
  });

  test("the volume is mounted to the node and into the pod", async () => {
    const { harness } = await runPod({ spec: claimed(), before: bound() });
    const [mount] = mountsOf(harness);
    expect(harness.mounts.mountPoints).toEqual([mount?.hostPath ?? ""]);
    expect(mount).toMatchObject({ containerPath: "/data", readonly: false });
  });

  test("readOnly mounts the claimed volume read-only", async () => {
    const { harness } = await runPod({ spec: claimed(true), before: bound() });
    await expect(writeIn(harness, "/data/written", "x")).rejects.toThrow("Read-only file system");
  });
});

describeSection("PersistentVolumes typed hostPath", () => {
  test("a hostPath PersistentVolume uses a file or directory of the node", async () => {
    const { harness } = await runPod({ spec: claimed(), before: bound({ hostPath: { path: "/mnt/disk" } }) });
    expect(await textsIn(harness)).toEqual({ "/data/data": "precious" });
    expect(mountsOf(harness)).toMatchObject([{ hostPath: "/mnt/disk" }]);
  });
});

describeSection("Mount the same PersistentVolume in two places", () => {
  test("parts of the volume are mounted at two paths by subPath", async () => {
    const volumeMounts = ["html", "nginx"].map((subPath) => ({ name: "data", mountPath: `/${subPath}`, subPath }));
    const { harness } = await runPod({
      spec: { ...claimed(), containers: [container("a", { volumeMounts })] },
      before: bound(),
    });
    await writeIn(harness, "/html/index", "page");
    expect([await textsIn(harness), (await statusOf(harness)).phase]).toEqual([{ "/html/index": "page" }, "Running"]);
    expect(await harness.disk.at("/").read("/mnt/disk/html/index", 100)).toBe("page");
  });
});
