import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { webImage } from "../../bed/images/images.ts";
import type { KubectlVersion } from "../../upstream/control-plane.ts";
import { untilStopped } from "../manifest.ts";
import { barePod } from "./api-objects.ts";
import { createKubectlClient, type KubectlClient, type StreamingProtocol } from "./kubectl-client.ts";
import { areContainersReady, type ClusterNode, startClusterNode } from "./node.ts";

/**
 * The port of the pod `slow` that says `ready`, and answers `answer to WORD` a tenth of a second after it has received a line with a
 * word. The runtime closes a connection half a second after one half of it has ended, so no process starts in between.
 */
export const SLOW_PORT = 9000;
/** A port that the pod `idle` declares with the protocol UDP. */
export const UDP_PORT = 5353;

/** A cluster node with the pods that the tests of kubectl's streams use. */
export interface StreamingCluster extends ClusterNode {
  /** For the files of a test. */
  readonly folder: string;
  client(version: KubectlVersion, protocol: StreamingProtocol): Promise<KubectlClient>;
}

/**
 * Starts a node with the pods `web` (serves a page on port 8080), `slow` (serves {@link SLOW_PORT}), `reader` (its main
 * process answers each line of its stdin) and `idle` (sleeps, and declares {@link UDP_PORT}).
 */
export async function startStreamingCluster(): Promise<StreamingCluster> {
  const folder = await mkdtemp(join(tmpdir(), "berth-kubectl-"));
  const cluster = await startClusterNode();
  const streaming: StreamingCluster = {
    ...cluster,
    folder,
    client: (version, protocol) =>
      createKubectlClient({ version, protocol, kubeconfig: cluster.plane.adminKubeconfig, folder }),
    async tearDown() {
      await cluster.tearDown();
      await rm(folder, { recursive: true });
    },
  };
  try {
    await startPods(cluster);
  } catch (error) {
    await streaming.tearDown();
    throw error;
  }
  return streaming;
}

async function startPods(cluster: ClusterNode): Promise<void> {
  const readLines = ["sh", "-c", "while read line; do echo got $line; done; exec sleep 1000"];
  const answer = 'echo ready; read line; read -t 0.1 rest; echo "answer to $line"';
  const serveSlowly = ["nc", "-ll", "-p", String(SLOW_PORT), "-e", "sh", "-c", answer];
  await cluster.create([
    barePod("web", { name: "app", image: webImage, command: ["httpd", "-f", "-p", "8080", "-h", "/www"] }),
    barePod("slow", { name: "app", command: ["catatonit", "--", ...serveSlowly] }),
    barePod("reader", { name: "app", command: readLines, stdin: true }),
    barePod("idle", {
      name: "app",
      command: [...untilStopped],
      ports: [{ containerPort: UDP_PORT, protocol: "UDP" }],
    }),
  ]);
  for (const app of ["web", "slow", "reader", "idle"])
    await cluster.waitForPods("run", app, (pods) => pods.length > 0 && pods.every(areContainersReady));
}
