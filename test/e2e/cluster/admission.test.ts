import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { barePod, deployment, type Manifest, podSpec } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, parseDescribedEvents, startClusterNode, uidsOf } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("pods that exceed a node's resources");

/** Pods with one label that are created with `nodeName`, so that no scheduler checks the node's resources. */
function bound(
  app: string,
  count: number,
  spec: Partial<PodSpec> = {},
  container: Partial<Container> = {},
): readonly (Pod & Manifest)[] {
  return Array.from({ length: count }, (_, index) => {
    const name = `${app}-${String(index).padStart(3, "0")}`;
    const pod = barePod(name, container, { nodeName: "node-a", terminationGracePeriodSeconds: 1, ...spec });
    return { ...pod, metadata: { name, labels: { app } } };
  });
}

const isFailed = ({ status }: Pod) => status?.phase === "Failed";
/** The fields that must not change when the agent restarts. */
const stableFields = ({ metadata, status }: Pod) =>
  `${metadata.name} ${status?.phase} ${status?.reason} ${status?.startTime} ${status?.containerStatuses?.[0]?.containerID}`;
const outOfPodsMessage = (places: number) =>
  `Node didn't have enough resource: pods, requested: 1, used: ${places}, capacity: ${places}`;

describe.skipIf(skip !== undefined)("on a node with maxPods 20", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode();
    await cluster.node.agent.stop();
    await restart(20);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  const restart = async (maxPods: number) => {
    await cluster.node.startAgent({ maxPods });
    await pollUntil(`allocatable pods to be ${maxPods}`, 30_000, async () => {
      const allocatablePods = await cluster.kubectl(
        "get",
        "node",
        "node-a",
        "--output=jsonpath={.status.allocatable.pods}",
      );
      return allocatablePods === String(maxPods);
    });
  };
  const remove = async (...pods: readonly Pod[]) => {
    await cluster.kubectl("delete", "pod", ...pods.map(({ metadata }) => metadata.name ?? ""), "--timeout=180s");
  };

  test("twenty of a hundred bound pods run, and the others fail with OutOfpods", async () => {
    await cluster.create(bound("crowd", 100));
    const pods = await cluster.waitForPods(
      "twenty are up",
      "crowd",
      (all) => all.filter(areContainersReady).length === 20 && all.filter(isFailed).length === 80,
      100_000,
    );
    const running = pods.filter(areContainersReady);
    expect(await cluster.runningUids()).toEqual({ containers: uidsOf(running), sandboxes: uidsOf(running) });
    expect(await cluster.node.sandboxes()).toHaveLength(20);
    const rejected = pods.filter(isFailed);
    for (const { status } of rejected) {
      const { startTime, ...reported } = status ?? {};
      expect(startTime).toMatch(/^\d{4}-/);
      expect(reported).toEqual({
        phase: "Failed",
        reason: "OutOfpods",
        message: `Pod was rejected: ${outOfPodsMessage(20)}`,
        qosClass: "BestEffort",
        observedGeneration: 1,
      });
    }
    const events = await pollUntil("the event of a rejection", 20_000, async () => {
      const described = parseDescribedEvents(
        await cluster.kubectl("describe", "pod", rejected[0]?.metadata.name ?? ""),
      );
      return described.length > 0 && described;
    });
    expect(events).toEqual([{ type: "Warning", reason: "OutOfpods", from: "kubelet", message: outOfPodsMessage(20) }]);
  }, 600_000);

  test("a new agent with a smaller or larger maxPods changes no admitted or rejected pod", async () => {
    const before = (await cluster.pods("crowd")).map(stableFields);
    process.kill(cluster.node.agent.pid, "SIGKILL");
    await cluster.node.agent.ended;
    await restart(10);
    expect((await cluster.pods("crowd")).map(stableFields)).toEqual(before);
    await cluster.node.agent.stop();
    await restart(30);
    expect((await cluster.pods("crowd")).map(stableFields)).toEqual(before);
    await cluster.node.agent.stop();
    await restart(20);
  });

  test("a released pod slot goes to a new pod, not to a rejected one", async () => {
    const [gone, ...others] = (await cluster.pods("crowd")).filter(areContainersReady);
    if (gone === undefined) throw new Error("nothing runs");
    await remove(gone);
    await cluster.create(bound("late", 1));
    await cluster.waitForPods("it is up", "late", (all) => all.every(areContainersReady));
    const crowd = await cluster.pods("crowd");
    expect([crowd.filter(areContainersReady).length, crowd.filter(isFailed).length]).toEqual([others.length, 80]);
  });

  test("a deployment replaces a rejected pod", async () => {
    // No scheduler has this name: the test binds the pods itself.
    const spec = { ...podSpec(), schedulerName: "nobody" };
    const bind = async (pod: Pod | undefined) => {
      const { name = "", namespace = "" } = pod?.metadata ?? {};
      const target = { apiVersion: "v1", kind: "Node", name: "node-a" };
      const binding = { apiVersion: "v1", kind: "Binding", metadata: { name }, target };
      const path = `/api/v1/namespaces/${namespace}/pods/${name}/binding`;
      await cluster.plane.kubectl(["create", "--raw", path, "--filename=-"], { input: JSON.stringify(binding) });
    };
    await cluster.apply([deployment("again", 1, spec)]);
    const [first] = await cluster.waitForPods("one waits", "again", (all) => all.length === 1);
    await bind(first);
    const both = await cluster.waitForPods(
      "another one waits",
      "again",
      (all) => all.filter(isFailed).length === 1 && all.length === 2,
    );
    expect(both.find(isFailed)?.metadata.name).toBe(first?.metadata.name);
    const [gone] = (await cluster.pods("crowd")).filter(areContainersReady);
    if (gone !== undefined) await remove(gone);
    await bind(both.find((pod) => !isFailed(pod)));
    await cluster.kubectl("rollout", "status", "deployment/again", "--timeout=180s");
    await cluster.kubectl("delete", "deployment", "again", "--cascade=foreground", "--timeout=180s");
  });

  test("a node selector is matched against the node's labels at the time of admission", async () => {
    const wants = { nodeSelector: { "example.com/rack": "7" } };
    await cluster.create(bound("lost", 1, wants));
    const [lost] = await cluster.waitForPods("it is rejected", "lost", (all) => all.every(isFailed));
    expect(lost?.status?.reason).toBe("NodeAffinity");
    await cluster.kubectl("label", "node", "node-a", "example.com/rack=7");
    await cluster.create(bound("found", 1, wants));
    await cluster.waitForPods("it is up", "found", (all) => all.every(areContainersReady));
  });

  test("a node with maxPods 110 admits 110 of 500 bound pods", async () => {
    await cluster.kubectl("delete", "pods", "--all", "--wait=false");
    await cluster.waitUntilEmpty();
    await cluster.node.agent.stop();
    await restart(110);
    // The pods wait for a Secret that does not exist, so that they need no work of the runtime.
    const volumes = [{ name: "v", secret: { secretName: "never" } }];
    await cluster.create(bound("herd", 500, { volumes }, { volumeMounts: [{ name: "v", mountPath: "/v" }] }));
    const isAdmitted = ({ status }: Pod) => status?.phase === "Pending" && status.startTime !== undefined;
    const areAllAnswered = (all: readonly Pod[]) => all.filter(isAdmitted).length + all.filter(isFailed).length === 500;
    const pods = await cluster.waitForPods("all are admitted or rejected", "herd", areAllAnswered, 80_000);
    const reasons = Map.groupBy(pods, ({ status }) => `${status?.phase} ${status?.message ?? ""}`);
    expect(Object.fromEntries([...reasons].map(([reason, all]) => [reason, all.length]))).toEqual({
      "Pending ": 110,
      [`Failed Pod was rejected: ${outOfPodsMessage(110)}`]: 390,
    });
    expect(await cluster.node.sandboxes()).toEqual([]);
    // Without --wait=false kubectl would send as many requests again.
    await cluster.kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false");
    await cluster.waitUntilEmpty(60_000);
  }, 600_000);
});
