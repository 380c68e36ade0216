import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import type { ClusterNode } from "./node.ts";
import type { PodChange, RandomPod } from "./random-workload.ts";

/** Creates the pods in five batches, then applies their later changes at their times. */
export async function runWorkload(cluster: ClusterNode, workload: readonly RandomPod[]): Promise<void> {
  const began = performance.now();
  const size = Math.ceil(workload.length / 5);
  for (let at = 0; at < workload.length; at += size) {
    const some = workload.slice(at, at + size);
    for (const { isStatic, pod } of some) if (isStatic) await cluster.node.putManifest(pod);
    const ofApi = some.filter(({ isStatic }) => !isStatic).map(({ pod }) => pod);
    if (ofApi.length > 0) await retry("a batch of pods", () => cluster.apply(ofApi));
  }
  const due = workload.flatMap(({ name, change }) => (change === undefined ? [] : [{ name, ...change }]));
  for (const { name, atMs, what } of due.toSorted((a, b) => a.atMs - b.atMs)) {
    await pause(Math.max(0, began + atMs - performance.now()));
    await retry(`the change of ${name}`, () => applyChange(cluster, name, what));
  }
}

/** Removes all pods, and waits until nothing of them is left. */
export async function removeWorkload(
  cluster: ClusterNode,
  workload: readonly RandomPod[],
  timeoutMs: number,
): Promise<void> {
  for (const { name, isStatic } of workload) if (isStatic) await removeManifest(cluster, name);
  await cluster.kubectl("delete", "pods", "--all", "--wait=false");
  await cluster.waitUntilEmpty(timeoutMs);
}

/** Retries until it succeeds: the API server may be away. */
const retry = (what: string, act: () => Promise<unknown>) =>
  pollUntil(what, 60_000, () =>
    act().then(
      () => true,
      () => false,
    ),
  );

async function applyChange(cluster: ClusterNode, name: string, what: PodChange["what"]): Promise<unknown> {
  if (what === "remove the manifest") return await removeManifest(cluster, name);
  if (what === "delete" || what === "force-delete") {
    const how = what === "delete" ? ["--wait=false"] : ["--force", "--grace-period=0"];
    return await cluster.kubectl("delete", "pod", name, "--ignore-not-found", ...how);
  }
  return "rewrite" in what
    ? await cluster.node.putManifest(what.rewrite)
    : await addEphemeralContainer(cluster, name, what.ephemeralContainer);
}

const removeManifest = ({ node }: ClusterNode, name: string) =>
  rm(join(node.paths.manifests, `${name}.yaml`), { force: true });

/** Adds an ephemeral container with volumes, which `kubectl debug` does not offer. */
async function addEphemeralContainer(cluster: ClusterNode, name: string, container: Container): Promise<void> {
  const { metadata, spec, ...pod } = await cluster.pod(name);
  const input = JSON.stringify({ ...pod, metadata, spec: { ...spec, ephemeralContainers: [container] } });
  const path = `/api/v1/namespaces/default/pods/${name}/ephemeralcontainers`;
  await cluster.plane.kubectl(["replace", `--raw=${path}`, "--filename=-"], { input });
}
