/*
 * https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/
 *
 * Not tested here, since it concerns others or is not implemented:
 *   Types of ephemeral volumes   CSI ephemeral volumes: not implemented yet. The others: volume-types.test.ts
 *   Lifecycle and                the claim is created, bound and deleted: the ephemeral volume controller, the
 *   PersistentVolumeClaim        scheduler, the garbage collector
 *   Security                     who may create such pods: the API server
 */
import { expect, test } from "bun:test";
import { persistentVolumeClaims, pods } from "../../kube/resource.ts";
import type { AgentHarness } from "../scenarios/harness.ts";
import { describeSection, runPod, statusOf } from "./pod-case.ts";
import { addBoundClaim, addDisk, leftovers, mountFailures, textsIn, writeIn } from "./volume-view.ts";

const local = { local: { path: "/mnt/disk" } };
const volumes = [{ name: "scratch-volume", ephemeral: {} }];

/** Creates the pod's claim as the controller does, with the pod as its owner. */
async function addOwnClaim(harness: AgentHarness, owner?: string): Promise<void> {
  const { items } = await harness.kube.user.list(pods("default"), {});
  const uid = owner ?? items[0]?.metadata.uid ?? "";
  const ownerReferences = [{ apiVersion: "v1", kind: "Pod", name: "web", uid, controller: true }];
  await addBoundClaim(harness, "web-scratch-volume", local, { ownerReferences });
}

async function runWithClaim(owner?: string): Promise<AgentHarness> {
  const { harness } = await runPod({ spec: { volumes }, before: (node) => addDisk(node, "/mnt/disk", "initial") });
  await addOwnClaim(harness, owner);
  await harness.advance("20s");
  return harness;
}

describeSection("Generic ephemeral volumes", () => {
  test("the volume is a directory for scratch data, which may have some initial data", async () => {
    const harness = await runWithClaim();
    await writeIn(harness, "/scratch-volume/written", "scratch");
    expect(await textsIn(harness)).toEqual({
      "/scratch-volume/data": "initial",
      "/scratch-volume/written": "scratch",
    });
  });
});

describeSection("Lifecycle and PersistentVolumeClaim", () => {
  test("the pod waits until its claim is created and bound", async () => {
    const { harness } = await runPod({ spec: { volumes }, before: (node) => addDisk(node, "/mnt/disk") });
    await harness.advance("20s");
    expect([harness.runtime.sandboxes.size, (await statusOf(harness)).phase]).toEqual([0, "Pending"]);
    await addOwnClaim(harness);
    await harness.advance("20s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });

  test("when the pod is deleted, the node releases the volume, and leaves its data to the reclaim policy", async () => {
    const harness = await runWithClaim();
    await harness.deletePod("web");
    await harness.advance("60s");
    expect(leftovers(harness)).toEqual([]);
    expect(await harness.disk.at("/").read("/mnt/disk/data", 100)).toBe("initial");
  });
});

describeSection("PersistentVolumeClaim naming", () => {
  test("the claim is named after pod and volume, with a hyphen in the middle", async () => {
    const { harness } = await runPod({ spec: { volumes } });
    await harness.advance("5s");
    expect((await mountFailures(harness)).at(-1)).toEndWith('persistentvolumeclaims "web-scratch-volume" not found');
  });

  test("a claim that was not created for the pod is not used and not modified, and the pod cannot start", async () => {
    const harness = await runWithClaim("00000000-0000-4000-8000-00000000beef");
    expect((await mountFailures(harness)).at(-1)).toEndWith(
      "PVC default/web-scratch-volume was not created for pod default/web (pod is not owner)",
    );
    expect(harness.runtime.sandboxes.size).toBe(0);
    const claims = persistentVolumeClaims("default");
    const { metadata } = await harness.kube.user.get(claims, "web-scratch-volume");
    expect(metadata.ownerReferences).toMatchObject([{ uid: "00000000-0000-4000-8000-00000000beef" }]);
    expect(harness.kube.calls.filter((call) => /^(create|replace|patch|delete) persistentv/.test(call))).toEqual([]);
  });
});
