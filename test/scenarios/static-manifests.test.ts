// Changes of manifests and their mirror pods, with the agent dying after any call.
import { expect, test } from "bun:test";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const two = (image: string): Partial<PodSpec> => ({
  containers: [
    { name: "a", image },
    { name: "b", image: "busybox:1" },
  ],
});

/** A manifest with an explicit uid, which does not change with its content. */
const withUid = (pod: Pod): Pod => ({ ...pod, metadata: { ...pod.metadata, uid: "0f0f-own" } });

scenario(
  "a changed manifest with the same uid restarts only the changed container",
  {
    before: (harness) => void harness.runtime.addImage("busybox:2"),
    async run(harness) {
      await harness.setManifests(withUid(makePod("web", two("busybox:1"))));
      await harness.advance("5s");
      await harness.setManifests(withUid(makePod("web", two("busybox:2"))));
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(filterLines(log, /: (create|start|stop|run)/)).toMatchInlineSnapshot(`
      "0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s web: create container b (attempt 0): it has not run yet
      0s web: start container b (attempt 0)
      5s web: stop container a within 30s: container a definition changed
      5s web: create the pod's log directory
      5s web: create the pod's directories
      5s web: create container a (attempt 1): it exited with code 143
      5s web: start container a (attempt 1)"
    `);
  },
);

/** Delivers the Node object, without which there are no mirror pods, to the current agent. */
async function deliverNode(harness: AgentHarness): Promise<void> {
  harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
  await harness.advance("2s");
}

async function logApiPods(harness: AgentHarness): Promise<void> {
  harness.appendLog([`shown: ${(await harness.apiPods()).join() || "nothing"}`]);
}

scenario(
  "a mirror pod is created, follows its static pod's status, is replaced with a changed manifest, and is deleted with it",
  {
    options: { isInCluster: true },
    async run(harness) {
      await deliverNode(harness);
      await harness.setManifests(makePod("web", { restartPolicy: "Always", terminationGracePeriodSeconds: 2 }));
      await deliverNode(harness);
      await logApiPods(harness);
      await harness.exit("a", 1);
      await deliverNode(harness);
      await logApiPods(harness);
      await harness.setManifests(makePod("web", { restartPolicy: "Never", terminationGracePeriodSeconds: 2 }));
      await deliverNode(harness);
      await harness.advance("10s");
      await deliverNode(harness);
      await logApiPods(harness);
      await harness.setManifests();
      await deliverNode(harness);
      await harness.advance("60s");
      await deliverNode(harness);
      await logApiPods(harness);
    },
  },
  (log) => {
    expect(filterLines(log, /shown|: (create|stop|remove)/)).toMatchInlineSnapshot(`
      "2s web: create the pod's log directory
      2s web: create the pod's directories
      2s web: create container a (attempt 0): it has not run yet
      4s shown: web Running, ready: a running
      4s web: create container a (attempt 1): it exited with code 1
      6s shown: web Running, ready: a running (restarts: 1)
      6s web: stop container a within 2s: its manifest has changed
      6s web: stop sandbox: its manifest has changed
      6s web: remove sandbox: its manifest has changed
      6s web: remove the pod's logs: its manifest has changed
      6s web: remove the pod's files: its manifest has changed
      6s web: create the pod's log directory
      6s web: create the pod's directories
      6s web: create container a (attempt 0): it has not run yet
      20s shown: web Running, ready: a running
      20s web: stop container a within 2s: its manifest is gone
      20s web: stop sandbox: its manifest is gone
      20s web: remove sandbox: its manifest is gone
      20s web: remove the pod's logs: its manifest is gone
      20s web: remove the pod's files: its manifest is gone
      84s shown: nothing"
    `);
  },
);

test("unused memory is released five seconds after the last change of the refused manifests", async () => {
  const harness = await createHarness();
  await harness.start();
  await harness.advance("60s");
  const before = harness.memoryReleases;
  const refused = Array.from({ length: 1000 }, (_, index) => ({ file: `/m/${index}`, problem: "it is empty" }));
  for (const manifests of [refused, []]) {
    harness.agent.desired.setManifestErrors("file", manifests);
    await harness.advance("4s");
  }
  expect(harness.memoryReleases).toBe(before);
  await harness.advance("1s");
  expect(harness.memoryReleases).toBe(before + 1);
  await harness.advance("60s");
  expect(harness.memoryReleases).toBe(before + 1);
});
