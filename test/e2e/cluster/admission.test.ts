import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { until } from "../../bed/poll-until.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { barePod, deployment, type Manifest, specOf } from "./api-objects.ts";
import { type ClusterNode, describedEvents, isUp, startClusterNode, uidsOf } from "./node.ts";

setDefaultTimeout(90_000);

const skip = skipWithoutPrograms("pods that a node has no room for");
/** A first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;

/** Pods of one label, bound to the node by whoever made them: no scheduler has counted. */
function bound(app: string, count: number, spec: Partial<PodSpec> = {}): readonly (Pod & Manifest)[] {
  return Array.from({ length: count }, (_, index) => {
    const name = `${app}-${String(index).padStart(3, "0")}`;
    const pod = barePod(name, {}, { nodeName: "node-a", terminationGracePeriodSeconds: 1, ...spec });
    return { ...pod, metadata: { name, labels: { app } } };
  });
}

const isFailed = ({ status }: Pod) => status?.phase === "Failed";
/** What may not change by a restart of the agent. */
const lifeOf = ({ metadata, status }: Pod) =>
  `${metadata.name} ${status?.phase} ${status?.reason} ${status?.startTime} ${status?.containerStatuses?.[0]?.containerID}`;
const full = (places: number) =>
  `Node didn't have enough resource: pods, requested: 1, used: ${places}, capacity: ${places}`;

describe.skipIf(skip !== undefined)("on a node with twenty places", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode();
    await cluster.node.agent.stop();
    await restart(20);
  }, BUILD_MS);
  afterAll(() => cluster?.end());

  const restart = async (maxPods: number) => {
    await cluster.node.startAgent({ maxPods });
    await until(`a node of ${maxPods} places`, 30_000, async () => {
      const told = await cluster.kubectl("get", "node", "node-a", "--output=jsonpath={.status.allocatable.pods}");
      return told === String(maxPods);
    });
  };
  const remove = async (...pods: readonly Pod[]) => {
    await cluster.kubectl("delete", "pod", ...pods.map(({ metadata }) => metadata.name ?? ""), "--timeout=60s");
  };

  test("of a hundred pods that are bound to it twenty run, and the others are told why not", async () => {
    await cluster.create(bound("crowd", 100));
    const pods = await cluster.see(
      "twenty are up",
      "crowd",
      (all) => all.filter(isUp).length === 20 && all.filter(isFailed).length === 80,
      100_000,
    );
    const running = pods.filter(isUp);
    expect(await cluster.running()).toEqual({ containers: uidsOf(running), sandboxes: uidsOf(running) });
    expect(await cluster.node.sandboxes()).toHaveLength(20);
    const rejected = pods.filter(isFailed);
    for (const { status } of rejected) {
      const { startTime, ...told } = status ?? {};
      expect(startTime).toMatch(/^\d{4}-/);
      expect(told).toEqual({
        phase: "Failed",
        reason: "OutOfpods",
        message: `Pod was rejected: ${full(20)}`,
        qosClass: "BestEffort",
        observedGeneration: 1,
      });
    }
    const events = await until("the event of a rejection", 20_000, async () => {
      const told = describedEvents(await cluster.kubectl("describe", "pod", rejected[0]?.metadata.name ?? ""));
      return told.length > 0 && told;
    });
    expect(events).toEqual([{ type: "Warning", reason: "OutOfpods", from: "kubelet", message: full(20) }]);
  }, 150_000);

  test("an agent that was killed and has ten places now leaves all of them as they are", async () => {
    const before = (await cluster.pods("crowd")).map(lifeOf);
    process.kill(cluster.node.agent.pid, "SIGKILL");
    await cluster.node.agent.ended;
    await restart(10);
    expect((await cluster.pods("crowd")).map(lifeOf)).toEqual(before);
    await cluster.node.agent.stop();
    await restart(30);
    expect((await cluster.pods("crowd")).map(lifeOf)).toEqual(before);
    await cluster.node.agent.stop();
    await restart(20);
  });

  test("a place that gets free is for a new pod, not for one that was rejected", async () => {
    const [gone, ...others] = (await cluster.pods("crowd")).filter(isUp);
    if (gone === undefined) throw new Error("nothing runs");
    await remove(gone);
    await cluster.create(bound("late", 1));
    await cluster.see("it is up", "late", (all) => all.every(isUp));
    const crowd = await cluster.pods("crowd");
    expect([crowd.filter(isUp).length, crowd.filter(isFailed).length]).toEqual([others.length, 80]);
  });

  test("a deployment gets another pod for one that was rejected", async () => {
    // Nobody schedules them, so that the test does.
    const spec = { ...specOf(), schedulerName: "nobody" };
    const bind = async (pod: Pod | undefined) => {
      const { name = "", namespace = "" } = pod?.metadata ?? {};
      const target = { apiVersion: "v1", kind: "Node", name: "node-a" };
      const binding = { apiVersion: "v1", kind: "Binding", metadata: { name }, target };
      const path = `/api/v1/namespaces/${namespace}/pods/${name}/binding`;
      await cluster.plane.kubectl(["create", "--raw", path, "--filename=-"], { input: JSON.stringify(binding) });
    };
    await cluster.apply([deployment("again", 1, spec)]);
    const [first] = await cluster.see("one waits", "again", (all) => all.length === 1);
    await bind(first);
    const both = await cluster.see(
      "another one waits",
      "again",
      (all) => all.filter(isFailed).length === 1 && all.length === 2,
    );
    expect(both.find(isFailed)?.metadata.name).toBe(first?.metadata.name);
    const [gone] = (await cluster.pods("crowd")).filter(isUp);
    if (gone !== undefined) await remove(gone);
    await bind(both.find((pod) => !isFailed(pod)));
    await cluster.kubectl("rollout", "status", "deployment/again", "--timeout=30s");
    await cluster.kubectl("delete", "deployment", "again", "--cascade=foreground", "--timeout=30s");
  });

  test("labels are those that the node has when its pod comes", async () => {
    const wants = { nodeSelector: { "example.com/rack": "7" } };
    await cluster.create(bound("lost", 1, wants));
    const [lost] = await cluster.see("it is rejected", "lost", (all) => all.every(isFailed));
    expect(lost?.status?.reason).toBe("NodeAffinity");
    await cluster.kubectl("label", "node", "node-a", "example.com/rack=7");
    await cluster.create(bound("found", 1, wants));
    await cluster.see("it is up", "found", (all) => all.every(isUp));
  });

  test("of five hundred that are bound to a node for a hundred and ten so many are taken", async () => {
    await cluster.kubectl("delete", "pods", "--all", "--wait=false");
    await cluster.empty();
    await cluster.node.agent.stop();
    await restart(110);
    // They wait for a Secret that never comes: the node's runtime has nothing to do with them.
    await cluster.create(bound("herd", 500, { volumes: [{ name: "v", secret: { secretName: "never" } }] }));
    const isTaken = ({ status }: Pod) => status?.phase === "Pending" && status.startTime !== undefined;
    const told = (all: readonly Pod[]) => all.filter(isTaken).length + all.filter(isFailed).length === 500;
    const pods = await cluster.see("all are answered", "herd", told, 80_000);
    const reasons = Map.groupBy(pods, ({ status }) => `${status?.phase} ${status?.message ?? ""}`);
    expect(Object.fromEntries([...reasons].map(([reason, all]) => [reason, all.length]))).toEqual({
      "Pending ": 110,
      [`Failed Pod was rejected: ${full(110)}`]: 390,
    });
    expect(await cluster.node.sandboxes()).toEqual([]);
    // Waiting for each of them would be as many requests again.
    await cluster.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false");
    await cluster.empty(60_000);
  }, 240_000);
});
