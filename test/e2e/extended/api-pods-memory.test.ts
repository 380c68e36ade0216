import { afterAll, beforeAll, describe, test } from "bun:test";
import type { Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { startTcpServer, type TcpServer } from "../../fakes/tcp-server.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { barePod } from "../cluster/api-objects.ts";
import { areContainersReady, type ClusterNode, startClusterNode } from "../cluster/node.ts";
import { expectSameMemory, MORE_ROUNDS, memoryAtRest } from "../memory-at-rest.ts";
import { usualParts } from "../memory-pods.ts";

const skip = skipWithoutPrograms("the memory after pods of the API");
const PODS = 200;
const BASE = 100;
const AT_ONCE = 20;
/** A busy machine takes so long for one pod. */
const SLOW_POD_MS = 10_000;
/** Bytes of each ConfigMap and Secret: what the agent keeps of them shows. */
const OBJECT_BYTES = 20_000;

const objectsOf = (name: string): readonly object[] => [
  { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { text: "c".repeat(OBJECT_BYTES) } },
  { apiVersion: "v1", kind: "Secret", metadata: { name }, stringData: { text: "s".repeat(OBJECT_BYTES) } },
];
const objectVolumes = (name: string): readonly Volume[] => [
  { name: "settings", configMap: { name } },
  { name: "login", secret: { secretName: name } },
];

/** A pod of the usual kind with a token, and a ConfigMap and a Secret of its own name. */
function tokenPod(name: string, index: number, port: number): ReturnType<typeof barePod> {
  const [container, spec] = usualParts(index, port, objectVolumes(name));
  const pod = barePod(name, container, { ...spec, automountServiceAccountToken: true });
  return { ...pod, metadata: { ...pod.metadata, labels: { app: "usual" } } };
}

describe.skipIf(skip !== undefined)("pods of the API", () => {
  let cluster: ClusterNode;
  let server: TcpServer;
  beforeAll(async () => {
    server = await startTcpServer((socket) => socket.end());
    cluster = await startClusterNode();
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await cluster?.tearDown();
    server?.close();
  }, 60_000);

  /** Starts `AT_ONCE` pods, waits until they are ready, and deletes them and their objects. */
  async function churn(first: number): Promise<void> {
    const names = Array.from({ length: AT_ONCE }, (_, at) => `usual-${first + at}`);
    const input = JSON.stringify({ apiVersion: "v1", kind: "List", items: names.flatMap(objectsOf) });
    await cluster.plane.kubectl(["create", "--filename=-"], { input });
    await cluster.create(names.map((name, index) => tokenPod(name, index, server.port)));
    const areReady = (pods: readonly Pod[]) => pods.length === AT_ONCE && pods.every(areContainersReady);
    await cluster.waitForPods("all are ready", "usual", areReady, AT_ONCE * SLOW_POD_MS);
    await cluster.kubectl("delete", "--wait=false", "pod", "--all");
    await cluster.waitUntilEmpty(AT_ONCE * SLOW_POD_MS);
    await cluster.kubectl("delete", "configmap,secret", ...names);
  }

  test(
    `the memory after ${PODS} pods with tokens, ConfigMaps and Secrets is that after ${BASE}`,
    () =>
      expectSameMemory({
        pods: PODS,
        base: BASE,
        atOnce: AT_ONCE,
        read: () => memoryAtRest(cluster.node.agent.pid),
        churn,
      }),
    (PODS + MORE_ROUNDS * AT_ONCE) * 2 * SLOW_POD_MS,
  );
});
