import { copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { type OpenFileWatch, watchOpenFiles } from "../open-file-watch.ts";
import type { ClusterNode } from "./node.ts";
import { openFilesDir } from "./random-workload.ts";
import { startSlowRegistry } from "./slow-registry.ts";

/** A node for random pods, with everything by which their outcomes are judged. */
export interface RandomPodsBed<C extends ClusterNode = ClusterNode> {
  readonly cluster: C;
  /** The folder of the containers' notes and open files. */
  readonly folder: string;
  readonly openFileWatch: OpenFileWatch;
  /** An image with busybox of which each pull takes a second or longer. */
  readonly remoteImage: string;
  /** Removes everything, but saves the notes and the logs of a test that has not passed. */
  tearDown(hasPassed: boolean): Promise<void>;
}

export async function startRandomPodsBed<C extends ClusterNode>(
  startCluster: () => Promise<C>,
): Promise<RandomPodsBed<C>> {
  const cluster = await startCluster();
  const registry = await startSlowRegistry(cluster.node).catch(async (error: unknown) => {
    await cluster.tearDown();
    throw error;
  });
  const folder = await mkdtemp(join(tmpdir(), "berth-random-pods-"));
  await mkdir(openFilesDir(folder));
  const openFileWatch = watchOpenFiles(openFilesDir(folder));
  return {
    cluster,
    folder,
    openFileWatch,
    remoteImage: registry.image,
    async tearDown(hasPassed) {
      openFileWatch.stop();
      if (!hasPassed) await saveLogs(cluster, folder);
      await registry.stop();
      await cluster.tearDown();
      if (hasPassed) await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Saves the logs, which are deleted together with the cluster. */
async function saveLogs({ node: { paths, containerd } }: ClusterNode, folder: string): Promise<void> {
  for (const file of [paths.agentLog, containerd.logFile]) await copyFile(file, join(folder, basename(file)));
  console.log(`the notes of the containers and the logs of agent and runtime are in ${folder}`);
}
