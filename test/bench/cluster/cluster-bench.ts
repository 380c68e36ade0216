import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { ContainerdVersion } from "../../bed/containerd/containerd.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import { createPodNames } from "../bench-pod.ts";
import { startFloor } from "../floor/raw-cri-floor.ts";
import { startMeasuredRuntime } from "../measured-runtime.ts";
import { connectApi } from "./api-client.ts";
import { watchApi } from "./api-watch.ts";
import { createAuditLog } from "./audit-log.ts";
import {
  type ClusterEffort,
  type ClusterMeasurements,
  type ClusterSubjects,
  measureCluster,
  measureExits,
  type PerAgent,
} from "./cluster-rounds.ts";
import { type ComparedNode, type ComparedNodeOptions, createBerthNode, createKubeletNode } from "./compared-node.ts";

export interface ClusterBenchOptions {
  readonly binary: string;
  readonly version: ContainerdVersion;
  readonly effort: ClusterEffort;
  /** The folder for all files of the benchmark. */
  readonly folder: string;
  /** Rejects when the benchmark must end early. */
  readonly interruption: Promise<never>;
}

export interface ClusterResult extends ClusterMeasurements {
  readonly exits: Readonly<Record<"1.6" | "2.1", PerAgent<readonly number[]>>>;
}

/** Compares the agent with the reference kubelet as nodes of one cluster. Always cleans up. */
export async function benchCluster(options: ClusterBenchOptions): Promise<ClusterResult> {
  const { folder, version, interruption } = options;
  await mkdir(folder, { recursive: true });
  const audit = await createAuditLog(folder);
  const flags = { "kube-apiserver": audit.flags };
  const plane = await startControlPlane({ stateDir: join(folder, "plane"), print: console.log, flags });
  const api = connectApi(plane);
  try {
    const shared = { api, audit, watch: await watchApi(api), names: createPodNames(), print: console.log };
    const other = version === "1.6" ? "2.1" : "1.6";
    const { exits, ...measured } = await withNodes(plane, options, version, async (members) =>
      Promise.race([measureFirstRuntime({ ...shared, members }, options), interruption]),
    );
    const otherExits = await withNodes(plane, options, other, async (members) => {
      await Promise.all([members.kubelet.start(), members.berth.start()]);
      return await Promise.race([measureExitLatency({ ...shared, members }, options, other), interruption]);
    });
    return { ...measured, exits: { [version]: exits, [other]: otherExits } as ClusterResult["exits"] };
  } finally {
    api.close();
    await plane.stop();
  }
}

/** Creates both nodes, each with a runtime of its own, without starting their agents, and removes them after `work`. */
export async function withNodes<T>(
  plane: ControlPlane,
  {
    folder,
    binary,
    connect,
    configuration = {},
  }: Pick<ClusterBenchOptions, "folder" | "binary"> & Pick<ComparedNodeOptions, "connect" | "configuration">,
  version: ContainerdVersion,
  work: (members: PerAgent<ComparedNode>) => Promise<T>,
): Promise<T> {
  const options = { plane, folder, version, configuration, ...(connect !== undefined && { connect }) };
  const kubelet = await createKubeletNode(options);
  try {
    const berth = await createBerthNode(options, binary);
    try {
      return await work({ kubelet, berth });
    } finally {
      await berth.end();
    }
  } finally {
    await kubelet.end();
  }
}

async function measureFirstRuntime(subjects: ClusterSubjects, options: ClusterBenchOptions) {
  const { folder, version, effort } = options;
  const floorDir = join(folder, "floor");
  const runtime = await startMeasuredRuntime(version, floorDir);
  const floor = startFloor(runtime, floorDir);
  try {
    const measured = await measureCluster(subjects, floor, effort);
    return { ...measured, exits: await measureExitLatency(subjects, options, version) };
  } finally {
    await floor.stop();
    await runtime.stop();
  }
}

async function measureExitLatency(
  subjects: ClusterSubjects,
  { effort }: ClusterBenchOptions,
  version: ContainerdVersion,
) {
  subjects.print(`container exit → status in the API, ${effort.exits} times each, containerd ${version}`);
  return await measureExits(subjects, effort.exits);
}
