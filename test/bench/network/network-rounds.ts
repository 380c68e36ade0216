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
import type { Floor, FloorOptions } from "../floor/raw-cri-floor.ts";
import {
  describeIdle,
  type IdleEffort,
  idleMsOf,
  measurePeriods,
  type Periods,
  RELIST_IDLE_MS,
} from "../idle-windows.ts";
import { measureRemovals, measureStarts, type Round } from "../measure-rounds.ts";
import { takeTurns } from "../turns.ts";
import { type CallTimes, type CallTotals, callTimesBetween } from "./call-times.ts";
import { type CpuParts, measureNetworkCpu, totalOf } from "./network-cpu.ts";
import { type IdleWindow, measureIdleAgents } from "./network-idle.ts";
import { NETWORK_SIDES, type NetworkSide } from "./network-nodes.ts";
import type { RunningAgents } from "./running-agents.ts";

export interface NetworkEffort extends IdleEffort {
  readonly singles: number;
  readonly batches: number;
  readonly cpuRounds: number;
}

export const thoroughNetworkEffort: NetworkEffort = {
  ...{ singles: 200, batches: 7, cpuRounds: 7, idlePeriods: 7, idleMs: 60_000, lastIdleMs: RELIST_IDLE_MS },
};
/** The fewest repetitions that decide anything. */
export const publishedNetworkEffort: NetworkEffort = {
  ...{ singles: 60, batches: 5, cpuRounds: 5, idlePeriods: 5, idleMs: 20_000, lastIdleMs: RELIST_IDLE_MS },
};
/** Shows that everything runs; decides nothing. */
export const quickNetworkEffort: NetworkEffort = {
  ...{ singles: 3, batches: 1, cpuRounds: 1, idlePeriods: 1, idleMs: 5_000, lastIdleMs: 5_000 },
};

/** A value of each node. */
export type PerSide<T> = Readonly<Record<NetworkSide, T>>;

/** The nodes that are idle at the same time. */
const IDLE_SIDES = ["kubelet", "chain", "builtin"] as const;
export type IdleSide = (typeof IDLE_SIDES)[number];
type IdlePeriods = Readonly<Record<IdleSide, Periods<IdleWindow>>>;
/** The number of pods on each node in the second idle phase. */
export const IDLE_PODS = 20;

export interface NetworkResult {
  readonly singles: PerSide<readonly FloorRound[]>;
  readonly floorSingles: readonly FloorRound[];
  /** The floor with pods of the host's network. */
  readonly hostFloorSingles: readonly FloorRound[];
  /** The calls for each of the single pods, as the agents count them. */
  readonly calls: PerSide<readonly CallTimes[]>;
  /** ADD and DEL of the built-in network by the agent, in milliseconds. */
  readonly builtinCalls: Readonly<Record<"ADD" | "DEL", readonly number[]>>;
  readonly batches: Readonly<Record<"kubelet" | "builtin", readonly PodBatch[]>>;
  /** CPU of runtime, plugins and agent for the network of one sandbox, ADD and DEL, in milliseconds. */
  readonly networkCpuMs: Readonly<Record<"chain" | "builtin", readonly number[]>>;
  readonly networkCpuParts: Readonly<Record<"chain" | "builtin", readonly CpuParts[]>>;
  /** Pods deleted at once with grace 0, until their sandboxes are removed. */
  readonly removals: Readonly<Record<"floor" | "builtin", readonly Round[]>>;
  readonly idleEmpty: IdlePeriods;
  readonly idleWithPods: IdlePeriods;
}

export interface NetworkSubjects extends Omit<ClusterSubjects, "members" | "audit"> {
  readonly nodes: PerSide<ComparedNode>;
  readonly agents: RunningAgents<NetworkSide>;
  readonly readCalls: PerSide<() => Promise<CallTotals>>;
  readonly floor: Floor;
}

/** Measures everything. The nodes alternate who begins, and only the agent that is measured runs. */
export async function measureNetwork(subjects: NetworkSubjects, effort: NetworkEffort): Promise<NetworkResult> {
  const { nodes, agents, print } = subjects;
  const singles = await measureSingles(subjects, effort.singles);
  const idleEmpty = await measureIdle(subjects, effort);
  print(`${BATCH_SIZE} pods at once, ${effort.batches} times each`);
  const batches = await takeTurns(["kubelet", "builtin"] as const, effort.batches, async (side) => {
    await agents.only([side], LONG_SETTLE_MS);
    return await measureBatch(subjects, nodes[side]);
  });
  print(`CPU of networks, ${effort.cpuRounds} times each`);
  const networkCpuParts = await takeTurns(["chain", "builtin"] as const, effort.cpuRounds, async (side, turn) => {
    await agents.only([side], LONG_SETTLE_MS);
    return await measureNetworkCpu(subjects, nodes[side], turn);
  });
  print(`${BATCH_SIZE} pods deleted at once with grace 0, ${effort.batches} times each`);
  const removals = await takeTurns(["floor", "builtin"] as const, effort.batches, async (side) => {
    await agents.only(side === "floor" ? [] : [side], LONG_SETTLE_MS);
    return side === "floor" ? await measureFloorRemovals(subjects) : await measureForcedRemovals(subjects, nodes[side]);
  });
  return {
    ...singles,
    batches,
    networkCpuMs: { chain: networkCpuParts.chain.map(totalOf), builtin: networkCpuParts.builtin.map(totalOf) },
    networkCpuParts,
    removals,
    idleEmpty,
    idleWithPods: await measureIdleWithPods(subjects, effort),
  };
}

const SETTLE_MS = 1000;
/**
 * The time of an agent that was stopped while others started hundreds of pods. The kubelet starts no pods until it has asked the
 * runtime again whether that is up.
 */
const LONG_SETTLE_MS = 3000;
/** The time in which an agent removes the sandbox of a pod that is gone from the API. */
const CLEAN_UP_MS = 200;

type Singles = Pick<NetworkResult, "singles" | "floorSingles" | "hostFloorSingles" | "calls" | "builtinCalls">;
type Single = FloorRound & { readonly calls?: CallTimes };

async function measureSingles(subjects: NetworkSubjects, turns: number): Promise<Singles> {
  const { nodes, agents, readCalls, print } = subjects;
  print(`one pod, ${turns} times each, after a warm-up turn`);
  const single = async (side: NetworkSide | "floor" | "hostFloor", turn: number): Promise<Single> => {
    if (side === "floor" || side === "hostFloor") {
      await agents.only([]);
      return await measureFloor(subjects, { hostNetwork: side === "hostFloor" });
    }
    const [, before] = await Promise.all([agents.only([side]), readCalls[side]()]);
    const round = await measurePods(subjects, nodes[side], 1, spreadMs(turn));
    await pause(CLEAN_UP_MS);
    return { ...round, calls: callTimesBetween(before, await readCalls[side]()) };
  };
  const sides = [...NETWORK_SIDES, "floor", "hostFloor"] as const;
  await takeTurns(sides, 1, single);
  const { floor, hostFloor, ...bySide } = await takeTurns(sides, turns, single);
  const calls = perSide((side) => bySide[side].flatMap((one) => one.calls ?? []));
  const singles = perSide((side) => bySide[side].map(({ start, removal }) => ({ start, removal })));
  const builtinCalls = { ADD: calls.builtin.map(({ ADD }) => ADD), DEL: calls.builtin.map(({ DEL }) => DEL) };
  return { singles, floorSingles: floor, hostFloorSingles: hostFloor, calls, builtinCalls };
}

const perSide = <T>(of: (side: NetworkSide) => T): PerSide<T> =>
  Object.fromEntries(NETWORK_SIDES.map((side) => [side, of(side)])) as Record<NetworkSide, T>;

async function measureFloor({ floor, names }: NetworkSubjects, options: FloorOptions): Promise<FloorRound> {
  const oneAtATime = floor.atOnce(1, options);
  const start = await measureStarts(oneAtATime, names(1));
  await pause(SIGNAL_HANDLER_SETUP_MS);
  return { start, removal: await measureRemovals(oneAtATime) };
}

/** The calls that a deletion with grace 0 needs: StopPodSandbox, which kills containers, and RemovePodSandbox. */
async function measureFloorRemovals({ floor, names }: NetworkSubjects): Promise<Round> {
  const fourAtOnce = floor.atOnce(4, { isForced: true });
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

/** A newly started agent is idle after this time. */
const IDLE_SETTLE_MS = 20_000;

async function measureIdle(
  { nodes, agents, print }: NetworkSubjects,
  effort: NetworkEffort,
  pods = 0,
): Promise<IdlePeriods> {
  print(`with ${pods} pods: ${describeIdle(effort, "the agents")}`);
  // An agent that is stopped by SIGSTOP would not end.
  await agents.only(IDLE_SIDES);
  const restart = async (side: IdleSide) => {
    await nodes[side].stop();
    await nodes[side].start();
  };
  return await measurePeriods(IDLE_SIDES, effort.idlePeriods, restart, async (period) => {
    await pause(IDLE_SETTLE_MS);
    const { kubelet, chain, builtin } = nodes;
    const pids = { kubelet: kubelet.pid, chain: chain.pid, builtin: builtin.pid };
    return await measureIdleAgents(pids, idleMsOf(effort, period));
  });
}

/** The pods keep running when the agents start again. */
async function measureIdleWithPods(subjects: NetworkSubjects, effort: NetworkEffort): Promise<IdlePeriods> {
  const { nodes, agents, names } = subjects;
  await agents.only(IDLE_SIDES, LONG_SETTLE_MS);
  const started: string[] = [];
  for (const side of IDLE_SIDES) {
    const ofSide = names(IDLE_PODS);
    await startPods(subjects, nodes[side], ofSide);
    started.push(...ofSide);
  }
  const periods = await measureIdle(subjects, effort, IDLE_PODS);
  await deletePods(subjects, started);
  return periods;
}
