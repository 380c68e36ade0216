// Kinds of life that static pods have, played for every call after which the agent may die: how a manifest changes, and how it is shown.
import { expect } from "bun:test";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { makePod, type Stage } from "./harness.ts";
import { linesOf, scenario } from "./scenario.ts";

const two = (image: string): Partial<PodSpec> => ({
  containers: [
    { name: "a", image },
    { name: "b", image: "busybox:1" },
  ],
});

/** A manifest with a uid of its own, which does not change with what it says. */
const withUid = (pod: Pod): Pod => ({ ...pod, metadata: { ...pod.metadata, uid: "0f0f-own" } });

scenario(
  "a manifest that keeps its uid has what it changed restarted in its place",
  {
    before: (stage) => void stage.runtime.addImage("busybox:2"),
    async run(stage) {
      await stage.offer(withUid(makePod("web", two("busybox:1"))));
      await stage.advance("5s");
      await stage.offer(withUid(makePod("web", two("busybox:2"))));
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(linesOf(story, /: (create|start|stop|run)/)).toMatchInlineSnapshot(`
      "0s web: run sandbox (attempt 0): the pod has none
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s web: create container b (attempt 0): it has not run yet
      0s web: start container b (attempt 0)
      5s web: stop container a within 30s: container a definition changed
      5s web: create container a (attempt 1): it exited with code 143
      5s web: start container a (attempt 1)"
    `);
  },
);

/** The object of the node is there: without it nobody could show a static pod. Each new agent has to be told. */
async function tellNode(stage: Stage): Promise<void> {
  stage.agent.cluster?.node({ metadata: { uid: "node-uid" }, spec: {} });
  await stage.advance("2s");
}

async function tellShown(stage: Stage): Promise<void> {
  stage.tell([`shown: ${(await stage.shown()).join() || "nothing"}`]);
}

scenario(
  "what shows a static pod in the API is made, follows it, is made anew when its manifest changes, and goes with it",
  {
    options: { isInCluster: true },
    async run(stage) {
      await tellNode(stage);
      await stage.offer(makePod("web", { restartPolicy: "Always", terminationGracePeriodSeconds: 2 }));
      await tellNode(stage);
      await tellShown(stage);
      await stage.exit("a", 1);
      await tellNode(stage);
      await tellShown(stage);
      await stage.offer(makePod("web", { restartPolicy: "Never", terminationGracePeriodSeconds: 2 }));
      await tellNode(stage);
      await stage.advance("10s");
      await tellNode(stage);
      await tellShown(stage);
      await stage.offer();
      await tellNode(stage);
      await stage.advance("60s");
      await tellNode(stage);
      await tellShown(stage);
    },
  },
  (story) => {
    expect(linesOf(story, /shown|: (create|stop|remove)/)).toMatchInlineSnapshot(`
      "2s web: create container a (attempt 0): it has not run yet
      4s shown: web Running, ready: a running
      4s web: create container a (attempt 1): it exited with code 1
      6s shown: web Running, ready: a running (restarts: 1)
      6s web: stop container a within 2s: its manifest has changed
      6s web: stop sandbox: its manifest has changed
      6s web: remove sandbox: its manifest has changed
      6s web: remove the pod's files: its manifest has changed
      6s web: create container a (attempt 0): it has not run yet
      20s shown: web Running, ready: a running
      20s web: stop container a within 2s: its manifest is gone
      20s web: stop sandbox: its manifest is gone
      20s web: remove sandbox: its manifest is gone
      20s web: remove the pod's files: its manifest is gone
      84s shown: nothing"
    `);
  },
);
