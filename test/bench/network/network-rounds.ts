import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { podsPath } from "../cluster/api-watch.ts";
import {
  type ClusterSubjects,
  deletePods,
  type FloorRound,
  measureBatch,
  measurePods,
  type PodBatch,
  SIGNAL_HANDLER_SETUP_MS,
  spreadMs,
  startPods,
} from "../cluster/cluster-rounds.ts";
import type { ComparedNode } from "../cluster/compared-node.ts";
import { BATCH_SIZE } from "../floor/floor-rounds.ts";
import type { Floor } from "../floor/raw-cri-floor.ts";
import { measureRemovals, measureStarts, type Round } from "../measure-rounds.ts";
import { takeTurns } from "../turns.ts";
import { NETWORK_SIDES, type NetworkSide } from "./network-nodes.ts";

export interface NetworkEffort {
  readonly singles: number;
  readonly batches: number;
  readonly cpuRounds: number;
}

export const thoroughNetworkEffort: NetworkEffort = { singles: 200, batches: 7, cpuRounds: 7 };
/** The fewest repetitions that decide anything. */
export const publishedNetworkEffort: NetworkEffort = { singles: 60, batches: 5, cpuRounds: 5 };
/** Shows that everything runs; decides nothing. */
export const quickNetworkEffort: NetworkEffort = { singles: 3, batches: 1, cpuRounds: 1 };

/** A value of each node. */
export type PerSide<T> = Readonly<Record<NetworkSide, T>>;

export interface NetworkResult {
  readonly singles: PerSide<readonly FloorRound[]>;
  readonly floorSingles: readonly FloorRound[];
  /** ADD and DEL of the built-in network in the agent's own log, in milliseconds. */
  readonly builtinCalls: Readonly<Record<"ADD" | "DEL", readonly number[]>>;
  readonly batches: Readonly<Record<"kubelet" | "builtin", readonly PodBatch[]>>;
  /** CPU of runtime, plugins and agent for the network of one sandbox, ADD and DEL, in milliseconds. */
  readonly networkCpuMs: Readonly<Record<"chain" | "builtin", readonly number[]>>;
  /** Pods deleted at once with grace 0, until their sandboxes are removed. */
  readonly removals: Readonly<Record<"floor" | "builtin", readonly Round[]>>;
}

export interface NetworkSubjects extends Omit<ClusterSubjects, "members" | "audit"> {
  readonly nodes: PerSide<ComparedNode>;
  /** The path of the log of the agent with the built-in network. */
  readonly builtinLog: string;
  readonly floor: Floor;
}

/** Measures everything. The nodes alternate who begins. */
export async function measureNetwork(subjects: NetworkSubjects, effort: NetworkEffort): Promise<NetworkResult> {
  const { nodes, floor, names, print } = subjects;
  print(`one pod, ${effort.singles} times each, after a warm-up turn`);
  const single = async (side: NetworkSide | "floor", turn: number): Promise<FloorRound> => {
    if (side !== "floor") return await measurePods(subjects, nodes[side], 1, spreadMs(turn));
    const start = await measureStarts(floor.atOnce(1), names(1));
    await pause(SIGNAL_HANDLER_SETUP_MS);
    return { start, removal: await measureRemovals(floor.atOnce(1)) };
  };
  const sides = [...NETWORK_SIDES, "floor"] as const;
  await takeTurns(sides, 1, single);
  const { floor: floorSingles, ...singles } = await takeTurns(sides, effort.singles, single);
  const log = await readFile(subjects.builtinLog, "utf8");
  print(`${BATCH_SIZE} pods at once, ${effort.batches} times each`);
  const batches = await takeTurns(["kubelet", "builtin"] as const, effort.batches, (side) =>
    measureBatch(subjects, nodes[side]),
  );
  print(`CPU of ${CPU_PODS} networks, ${effort.cpuRounds} times each`);
  const networkCpuMs = await takeTurns(["chain", "builtin"] as const, effort.cpuRounds, (side) =>
    measureNetworkCpu(subjects, nodes[side]),
  );
  print(`${BATCH_SIZE} pods deleted at once with grace 0, ${effort.batches} times each`);
  const removals = await takeTurns(["floor", "builtin"] as const, effort.batches, (side) =>
    side === "floor" ? measureFloorRemovals(subjects) : measureForcedRemovals(subjects, nodes.builtin),
  );
  const builtinCalls = { ADD: callsIn(log, "ADD"), DEL: callsIn(log, "DEL") };
  return { singles, floorSingles, builtinCalls, batches, networkCpuMs, removals };
}

/** The durations of the calls of one verb in the log of an agent that executes networks, in milliseconds. */
export function callsIn(log: string, verb: "ADD" | "DEL"): readonly number[] {
  return [...log.matchAll(new RegExp(`network ${verb} .*?durationMs=(\\S+)`, "g"))].map(([, ms]) => Number(ms));
}

const SETTLE_MS = 1000;
const CPU_PODS = 40;

/** The CPU time that the network of one pod takes, in milliseconds: what pods cost more than those of the host's network. */
async function measureNetworkCpu(subjects: NetworkSubjects, node: ComparedNode): Promise<number> {
  const cpuOf = async (hostNetwork: boolean): Promise<number> => {
    const before = await cpuOfTrees(node);
    const names = subjects.names(CPU_PODS);
    await startPods(subjects, node, names, hostNetwork ? { hostNetwork } : {});
    await pause(SIGNAL_HANDLER_SETUP_MS);
    await deletePods(subjects, names);
    await pause(SETTLE_MS);
    return ((await cpuOfTrees(node)) - before) / CPU_PODS;
  };
  const without = await cpuOf(true);
  return (await cpuOf(false)) - without;
}

/** The CPU time of runtime and agent with all children that have ended, in milliseconds. */
async function cpuOfTrees({ pid, runtime }: ComparedNode): Promise<number> {
  const all = await Promise.all([pid, runtime.containerd.pid].map((one) => readFile(`/proc/${one}/stat`, "utf8")));
  return all.reduce((sum, stat) => sum + cpuMsInStat(stat), 0);
}

/** The sum of utime, stime, cutime and cstime of a line of /proc/PID/stat, which has hundredths of a second (proc(5)). */
export function cpuMsInStat(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * 10, 0);
}

async function measureFloorRemovals({ floor, names }: NetworkSubjects): Promise<Round> {
  const fourAtOnce = floor.atOnce(4);
  await measureStarts(fourAtOnce, names(BATCH_SIZE));
  await pause(SETTLE_MS);
  return await measureRemovals(fourAtOnce);
}

async function measureForcedRemovals(subjects: NetworkSubjects, node: ComparedNode): Promise<Round> {
  const { api } = subjects;
  const names = subjects.names(BATCH_SIZE);
  await startPods(subjects, node, names);
  await pause(SETTLE_MS);
  const removeAll = async () => {
    const requestTimes = new Map(names.map((name) => [name, Date.now()]));
    await Promise.all(names.map((name) => api.remove(`${podsPath}/${name}`, { gracePeriodSeconds: 0 })));
    return requestTimes;
  };
  return await measureRemovals({ runtime: node.runtime, removeAll, settled: async () => undefined });
}
