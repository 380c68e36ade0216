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
  type Both,
  type ClusterEffort,
  type ClusterMeasurements,
  type ClusterSubjects,
  measureCluster,
  measureExits,
} from "./cluster-rounds.ts";
import { createBerthMember, createKubeletMember, type Member } from "./compared-node.ts";

export interface ClusterBenchOptions {
  readonly binary: string;
  readonly version: ContainerdVersion;
  readonly effort: ClusterEffort;
  /** Everything is below it. */
  readonly folder: string;
  /** Rejects when it is to end early. */
  readonly interruption: Promise<never>;
}

export interface ClusterResult extends ClusterMeasurements {
  readonly exits: Readonly<Record<ContainerdVersion, Both<readonly number[]>>>;
}

/** The agent and the reference kubelet as nodes of one cluster. Cleans up whatever happens. */
export async function benchCluster(options: ClusterBenchOptions): Promise<ClusterResult> {
  const { folder, version, interruption } = options;
  await mkdir(folder, { recursive: true });
  const audit = await createAuditLog(folder);
  const flags = { "kube-apiserver": audit.flags };
  const plane = await startControlPlane({ stateDir: join(folder, "plane"), say: console.log, flags });
  const api = connectApi(plane);
  try {
    const shared = { api, audit, watch: await watchApi(api), names: createPodNames(), say: console.log };
    const other = version === "1.6" ? "2.1" : "1.6";
    const { exits, ...measured } = await onNodes(plane, options, version, async (members) =>
      Promise.race([measureOnFirst({ ...shared, members }, options), interruption]),
    );
    const otherExits = await onNodes(plane, options, other, async (members) => {
      await Promise.all([members.kubelet.start(), members.berth.start()]);
      return await Promise.race([exitsOf({ ...shared, members }, options, other), interruption]);
    });
    return { ...measured, exits: { [version]: exits, [other]: otherExits } as ClusterResult["exits"] };
  } finally {
    api.close();
    await plane.stop();
  }
}

/** The two, each with a runtime of its own; neither runs yet. */
export async function onNodes<T>(
  plane: ControlPlane,
  { folder, binary }: Pick<ClusterBenchOptions, "folder" | "binary">,
  version: ContainerdVersion,
  work: (members: Both<Member>) => Promise<T>,
): Promise<T> {
  const kubelet = await createKubeletMember({ plane, folder, version });
  try {
    const berth = await createBerthMember({ plane, folder, version }, binary);
    try {
      return await work({ kubelet, berth });
    } finally {
      await berth.end();
    }
  } finally {
    await kubelet.end();
  }
}

async function measureOnFirst(subjects: ClusterSubjects, options: ClusterBenchOptions) {
  const { folder, version, effort } = options;
  const floorDir = join(folder, "floor");
  const runtime = await startMeasuredRuntime(version, floorDir);
  const floor = startFloor(runtime, floorDir);
  try {
    const measured = await measureCluster(subjects, floor.atOnce(1), effort);
    return { ...measured, exits: await exitsOf(subjects, options, version) };
  } finally {
    await floor.stop();
    await runtime.stop();
  }
}

async function exitsOf(subjects: ClusterSubjects, { effort }: ClusterBenchOptions, version: ContainerdVersion) {
  subjects.say(`a container's end → its status, ${effort.exits} times each, containerd ${version}`);
  return await measureExits(subjects, effort.exits);
}
