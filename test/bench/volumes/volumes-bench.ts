import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { createPodNames, usualPod } from "../bench-pod.ts";
import { connectApi } from "../cluster/api-client.ts";
import { watchApi } from "../cluster/api-watch.ts";
import { createAuditLog } from "../cluster/audit-log.ts";
import { type ClusterBenchOptions, withNodes } from "../cluster/cluster-bench.ts";
import {
  alternate,
  type ClusterSubjects,
  deletePods,
  measureIdleWithPods,
  measurePods,
  type NodeIdle,
  type PerAgent,
  type RunningContainer,
  spreadMs,
  startPods,
} from "../cluster/cluster-rounds.ts";
import { describeIdle, type IdleEffort, RELIST_IDLE_MS } from "../idle-windows.ts";
import { takeTurns } from "../turns.ts";
import { measureChangesInTurn, measureChangesWithinPeriod, startWithConfigMap } from "./changed-files.ts";
import type { PodReads } from "./object-reads.ts";
import { measureReads } from "./read-rounds.ts";
import { createObjects, OBJECTS, podWithObjects, REFERENCES } from "./volume-pods.ts";

export interface VolumesEffort extends IdleEffort {
  /** In each turn both agents start one pod of both kinds. */
  readonly turns: number;
  /** Starts of Berth with objects that no other pod uses. */
  readonly reads: number;
  readonly changes: number;
  /** The kubelet needs a minute and more for each. */
  readonly kubeletChanges: number;
}

export const thoroughVolumesEffort: VolumesEffort = {
  ...{
    turns: 200,
    reads: 200,
    changes: 200,
    kubeletChanges: 20,
    idlePeriods: 7,
    idleMs: 60_000,
    lastIdleMs: RELIST_IDLE_MS,
  },
};
/** The fewest repetitions that decide anything. */
export const publishedVolumesEffort: VolumesEffort = {
  ...{
    turns: 60,
    reads: 60,
    changes: 60,
    kubeletChanges: 10,
    idlePeriods: 5,
    idleMs: 30_000,
    lastIdleMs: RELIST_IDLE_MS,
  },
};
/** Shows that everything runs; decides nothing. */
export const quickVolumesEffort: VolumesEffort = {
  ...{ turns: 2, reads: 3, changes: 3, kubeletChanges: 1, idlePeriods: 1, idleMs: 10_000, lastIdleMs: 10_000 },
};

/** The number of usual pods of an idle node. */
export const IDLE_PODS = 50;

export function describeVolumesEffort(effort: VolumesEffort): string {
  const { turns, reads, changes, kubeletChanges } = effort;
  const starts = `A pod with ${OBJECTS} ConfigMaps, ${OBJECTS} Secrets and a token and a bare pod ${turns} times each, while another pod uses the same objects; ${reads} times on berth alone while no other pod does`;
  const changed = `a ConfigMap changed ${changes} times on berth, and ${kubeletChanges} times on the kubelet, whose pods have one each`;
  return `${starts}; ${changed}; ${describeIdle(effort, "both agents")}, with ${IDLE_PODS} usual pods, both at the same time; kubelet ${builtVersion().split("-")[0]} and berth as two nodes of one cluster, in turns where both start pods.`;
}

/** From the create request to Ready, in milliseconds; the samples at the same place are a pair. */
export interface PairedStarts {
  readonly bare: readonly number[];
  readonly withObjects: readonly number[];
}

export interface VolumesResult {
  readonly starts: PerAgent<PairedStarts>;
  /** Berth's reads of objects that no other pod uses. */
  readonly reads: readonly PodReads[];
  /** From the request that changes a ConfigMap to the container's file, in milliseconds. */
  readonly changes: PerAgent<readonly number[]>;
  readonly idle: PerAgent<NodeIdle>;
}

/** Measures volumes on the agent and the reference kubelet as nodes of one cluster. Always cleans up. */
export async function benchVolumes(
  options: Omit<ClusterBenchOptions, "effort"> & { readonly effort: VolumesEffort },
): Promise<VolumesResult> {
  const { folder: parent, version, effort, interruption } = options;
  const folder = join(parent, "volumes");
  await mkdir(folder, { recursive: true });
  const audit = await createAuditLog(folder);
  const flags = { "kube-apiserver": audit.flags };
  const plane = await startControlPlane({ stateDir: join(folder, "plane"), print: console.log, flags });
  const api = connectApi(plane);
  try {
    const shared = { api, audit, watch: await watchApi(api), names: createPodNames(), print: console.log };
    await createObjects(api, objects);
    console.log(`the reads of ${REFERENCES} objects that no other pod uses, ${effort.reads} times`);
    const behindGateway = { ...options, plane, folder: join(folder, "behind-gateway") };
    const reads = await measureReads(shared, behindGateway, { prefix: objects, turns: effort.reads });
    const measured = await withNodes(plane, { ...options, folder }, version, async (members) => {
      await Promise.all([members.kubelet.start(), members.berth.start()]);
      return await Promise.race([measureVolumes({ ...shared, members }, effort), interruption]);
    });
    return { reads, ...measured };
  } finally {
    api.close();
    await plane.stop();
  }
}

const objects = "objects";

async function measureVolumes(
  subjects: ClusterSubjects,
  { kubeletChanges, changes, ...effort }: VolumesEffort,
): Promise<Omit<VolumesResult, "reads">> {
  const { members, print } = subjects;
  const mounted: RunningContainer[] = [];
  while (mounted.length < kubeletChanges) mounted.push(await startWithConfigMap(subjects, members.kubelet));
  print(`a changed ConfigMap, ${changes} times on berth, meanwhile ${kubeletChanges} times on the kubelet`);
  // While the kubelet waits for the time of its next look at the volumes, it costs nothing.
  const [ofKubelet, ofBerth] = await Promise.all([
    measureChangesWithinPeriod(subjects, mounted),
    measureChangesInTurn(subjects, members.berth, changes),
  ]);
  print(`a pod with objects and a bare one, ${effort.turns} turns`);
  const starts = await measurePairedStarts(subjects, effort);
  const idle = await measureIdleWithPods(subjects, effort, IDLE_PODS, usualPod);
  return { starts, changes: { kubelet: ofKubelet, berth: ofBerth }, idle };
}

/** Starts pods while another pod on the node uses the same objects. */
async function measurePairedStarts(
  subjects: ClusterSubjects,
  { turns }: Pick<VolumesEffort, "turns">,
): Promise<PerAgent<PairedStarts>> {
  const { members, names } = subjects;
  const holders = { kubelet: names(1), berth: names(1) };
  await startPods(subjects, members.kubelet, holders.kubelet, podWithObjects(objects));
  await startPods(subjects, members.berth, holders.berth, podWithObjects(objects));
  const measured = await alternate(members, turns, async (member, turn) => {
    const kinds = turn % 2 === 0 ? (["bare", "withObjects"] as const) : (["withObjects", "bare"] as const);
    return await takeTurns(kinds, 1, async (kind) => {
      const spec = kind === "bare" ? {} : podWithObjects(objects);
      // The kubelet has periods, within which it is faster or slower.
      return (await measurePods(subjects, member, 1, spreadMs(turn), spec)).start.wall;
    });
  });
  await deletePods(subjects, [...holders.kubelet, ...holders.berth]);
  const paired = (all: readonly PairedStarts[]): PairedStarts => ({
    bare: all.flatMap(({ bare }) => bare),
    withObjects: all.flatMap(({ withObjects }) => withObjects),
  });
  return { kubelet: paired(measured.kubelet), berth: paired(measured.berth) };
}
