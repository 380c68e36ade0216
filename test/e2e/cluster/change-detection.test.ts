import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { script } from "../manifest.ts";
import { barePod } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("the strategies by which changed ConfigMaps are found");
/** The first instance ends when the file shows `red`, and reports its own environment. */
const container: Partial<Container> = {
  env: [{ name: "COLOUR", valueFrom: { configMapKeyRef: { name: "site", key: "colour" } } }],
  volumeMounts: [{ name: "site", mountPath: "/site" }],
  command: script(
    'if [ "$COLOUR" = red ]; then while true; do sleep 0.1; done; fi; until grep -q red /site/colour; do sleep 0.1; done; printf %s "$COLOUR" > /dev/termination-log; exit 1',
  ),
};
const spec: Partial<PodSpec> = { volumes: [{ name: "site", configMap: { name: "site" } }] };

describe.skipIf(skip !== undefined)("with configMapAndSecretChangeDetectionStrategy", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode();
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  async function put(colour: string, more: object = {}): Promise<void> {
    const site = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "site" }, spec: undefined };
    await cluster.apply([{ ...site, ...{ data: { colour }, ...more } }]);
  }
  const waitForPod = async (what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.waitForPods(what, "web", (pods) => pods.length === 1 && pods.every(condition));
    return pod!;
  };
  const remove = async () => {
    await cluster.kubectl("delete", "pod/web", "configmap/site", "--timeout=180s");
    await cluster.waitUntilEmpty();
  };
  /** How many watches of single ConfigMaps the API server serves. Its own programs have some. */
  async function countWatches(): Promise<number> {
    const metrics = await cluster.kubectl("get", "--raw", "/metrics");
    const lines = metrics.split("\n").filter((line) => line.startsWith("apiserver_longrunning_requests{"));
    const ofConfigMaps = ['resource="configmaps"', 'scope="resource"', 'verb="WATCH"'];
    return lines
      .filter((line) => ofConfigMaps.every((label) => line.includes(label)))
      .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }
  const waitForWatches = (expected: number) =>
    pollUntil(`${expected} watches`, 20_000, async () => (await countWatches()) === expected);

  test("Watch: the watch of a ConfigMap ends when it is immutable, and when its pod has gone", async () => {
    const others = await countWatches();
    await put("blue");
    await cluster.apply([barePod("web", container, spec)]);
    await waitForPod("it is up", areContainersReady);
    await waitForWatches(others + 1);
    await put("blue", { immutable: true });
    await waitForWatches(others);
    await remove();
    await put("red");
    await cluster.apply([barePod("web", container, spec)]);
    await waitForPod("it is up", areContainersReady);
    await waitForWatches(others + 1);
    await remove();
    await waitForWatches(others);
  });

  for (const strategy of ["Cache", "Get"] as const)
    test(`${strategy}: a changed ConfigMap reaches the files of a running pod without a watch, and its next container`, async () => {
      await cluster.node.agent.stop();
      await cluster.node.startAgent({
        configMapAndSecretChangeDetectionStrategy: strategy,
        syncFrequency: "2s",
      });
      const others = await countWatches();
      await put("blue");
      await cluster.apply([barePod("web", container, spec)]);
      const { metadata } = await waitForPod("it is up", areContainersReady);
      const file = `pods/${metadata.uid}/volumes/kubernetes.io~configmap/site/colour`;
      const colour = () => readFile(join(cluster.node.paths.agentRoot, file), "utf8");
      expect([await colour(), await countWatches()]).toEqual(["blue", others]);
      await put("red");
      await pollUntil("the new file", 10_000, async () => (await colour()) === "red");
      const pod = await waitForPod("its second container is up", (each) => {
        const [status] = each.status?.containerStatuses ?? [];
        return status?.restartCount === 1 && status.ready;
      });
      expect(pod.status?.containerStatuses?.[0]?.lastState?.terminated).toMatchObject({ exitCode: 1, message: "blue" });
      expect(await countWatches()).toBe(others);
      await remove();
    });
});
