import { setTimeout as pause } from "node:timers/promises";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { benchPod, usualPod } from "../bench-pod.ts";
import { BATCH_SIZE } from "../floor/floor-rounds.ts";
import type { Floor } from "../floor/raw-cri-floor.ts";
import {
  describeIdle,
  type IdleEffort,
  idleMsOf,
  measurePeriods,
  measureWindow,
  type Periods,
  RELIST_IDLE_MS,
  type UsageWindow,
} from "../idle-windows.ts";
import { measureRemovals, measureStarts, type Round, type Subject } from "../measure-rounds.ts";
import { usageOf } from "../process-usage.ts";
import { orderOf, takeTurns } from "../turns.ts";
import type { ApiClient } from "./api-client.ts";
import { type ApiWatch, nodesPath, podsPath } from "./api-watch.ts";
import type { AuditLog, NodeRequests } from "./audit-log.ts";
import type { ComparedNode } from "./compared-node.ts";

/** The number of repetitions and the duration of the idle phases: without pods, and with many. */
export interface ClusterEffort extends IdleEffort {
  readonly singles: number;
  readonly batches: number;
  readonly starts: number;
  readonly exits: number;
}

export const thoroughClusterEffort: ClusterEffort = {
  ...{ singles: 200, batches: 7, starts: 200, exits: 200, idlePeriods: 7, idleMs: 60_000, lastIdleMs: RELIST_IDLE_MS },
};

/** The fewest repetitions that decide anything. */
export const publishedClusterEffort: ClusterEffort = {
  ...{ singles: 60, batches: 5, starts: 60, exits: 60, idlePeriods: 5, idleMs: 30_000, lastIdleMs: RELIST_IDLE_MS },
};

/** Shows that everything runs; decides nothing. */
export const quickClusterEffort: ClusterEffort = {
  ...{ singles: 5, batches: 1, starts: 1, exits: 3, idlePeriods: 1, idleMs: 10_000, lastIdleMs: 10_000 },
};

export function describeClusterEffort(effort: ClusterEffort): string {
  const { singles, batches, starts, exits } = effort;
  const often = `One pod ${singles} times, a usual one as often, ${BATCH_SIZE} pods ${batches} times, ${starts} agent starts, ${exits} container exits`;
  const idle = `${describeIdle(effort, "both agents")}, without pods and with ${BATCH_SIZE}, both at the same time`;
  return `${often}, ${idle}; otherwise floor, kubelet ${builtVersion().split("-")[0]} and berth alternated who began, as two nodes of one cluster. Pods are bare, without a service account token and without volumes; usual ones have the token.`;
}

/** A value for each of the compared programs. */
export interface PerAgent<T> {
  readonly kubelet: T;
  readonly berth: T;
}

export interface SinglePod {
  /** From the create request to the pod's Ready condition in the API. */
  readonly readyMs: number;
  /** From the delete request, with the default grace period, to the deletion event. */
  readonly goneMs: number;
}

export interface PodBatch {
  readonly ready: Round;
  readonly gone: Round;
  /** CPU time of the agent until one second after the last pod was Ready. */
  readonly startCpuMs: number;
}

/** A window of an idle node, with its requests. */
export interface NodeIdleWindow extends UsageWindow {
  readonly requests: NodeRequests;
}

export type NodeIdle = Periods<NodeIdleWindow>;

/** The raw runtime calls, in the same turns as the agents. */
export interface FloorRound {
  readonly start: Round;
  readonly removal: Round;
}

export interface ClusterMeasurements {
  /** From the start of the process, without a Node object, to the node's Ready condition in the API. */
  readonly starts: PerAgent<readonly number[]>;
  readonly idleEmpty: PerAgent<NodeIdle>;
  readonly singles: PerAgent<readonly SinglePod[]>;
  readonly usualSingles: PerAgent<readonly SinglePod[]>;
  readonly floor: { readonly singles: readonly FloorRound[]; readonly batches: readonly FloorRound[] };
  readonly batches: PerAgent<readonly PodBatch[]>;
  readonly idleFull: PerAgent<NodeIdle>;
}

export interface ClusterSubjects {
  readonly api: ApiClient;
  readonly watch: ApiWatch;
  readonly audit: AuditLog;
  readonly members: PerAgent<ComparedNode>;
  readonly names: (count: number) => readonly string[];
  readonly print: (line: string) => void;
}

/** Measures everything: the programs and the floor alternate who begins, and both programs are idle at the same time. */
export async function measureCluster(
  subjects: ClusterSubjects,
  floor: Floor,
  effort: ClusterEffort,
): Promise<ClusterMeasurements> {
  const { members, names, print } = subjects;
  print(`process start → node Ready, ${effort.starts} times each`);
  const starts = await alternate(members, effort.starts, (member) => measureNodeStart(subjects, member));
  print(`without pods: ${describeIdle(effort, "both agents")}`);
  const idleEmpty = await measurePeriods(AGENTS, effort.idlePeriods, restartOf(members), async (period) => {
    await pause(AGENT_WARM_UP_MS);
    return await measureIdle(subjects, idleMsOf(effort, period));
  });
  print(`one pod, ${effort.singles} times each, after a warm-up turn`);
  const single = async (side: Side, turn: number): Promise<FloorRound> =>
    side === "floor"
      ? await measureFloor(floor.atOnce(1), names(1))
      : await measurePods(subjects, members[side], 1, spreadMs(turn));
  await takeTurns(SIDES, 1, single);
  const singles = await takeTurns(SIDES, effort.singles, single);
  const usualSingles = await measureUsualPods(subjects, effort.singles);
  print(`${BATCH_SIZE} pods at once, ${effort.batches} times each`);
  const batches = await takeTurns(SIDES, effort.batches, async (side, turn) => {
    print(`  ${side}, turn ${turn + 1}`);
    if (side === "floor") return { ...(await measureFloor(floor.atOnce(4), names(BATCH_SIZE))), startCpuMs: 0 };
    const { ready, gone, startCpuMs } = await measureBatch(subjects, members[side]);
    return { start: ready, removal: gone, startCpuMs };
  });
  const batchesOf = (rounds: typeof batches.berth): readonly PodBatch[] =>
    rounds.map(({ start, removal, startCpuMs }) => ({ ready: start, gone: removal, startCpuMs }));
  return {
    starts,
    idleEmpty,
    singles: { kubelet: singlesOf(singles.kubelet), berth: singlesOf(singles.berth) },
    usualSingles,
    floor: { singles: singles.floor, batches: batches.floor },
    batches: { kubelet: batchesOf(batches.kubelet), berth: batchesOf(batches.berth) },
    idleFull: await measureIdleWithPods(subjects, effort, BATCH_SIZE),
  };
}

const singlesOf = (rounds: readonly FloorRound[]): readonly SinglePod[] =>
  rounds.map(({ start, removal }) => ({ readyMs: start.wall, goneMs: removal.wall }));

/** One pod with the token of its service account, after a warm-up turn. The floor has no tokens. */
async function measureUsualPods(subjects: ClusterSubjects, turns: number): Promise<PerAgent<readonly SinglePod[]>> {
  const { members, print } = subjects;
  print(`one usual pod, ${turns} times each, after a warm-up turn`);
  const single = (member: ComparedNode, turn: number) => measurePods(subjects, member, 1, spreadMs(turn), usualPod);
  await alternate(members, 1, single);
  const { kubelet, berth } = await alternate(members, turns, single);
  return { kubelet: singlesOf(kubelet), berth: singlesOf(berth) };
}

const AGENTS = ["kubelet", "berth"] as const;
const SIDES = ["floor", ...AGENTS] as const;
type Side = (typeof SIDES)[number];

/** Measures both programs in each turn. They alternate who begins: the kubelet in the first turn. */
export async function alternate<T>(
  members: PerAgent<ComparedNode>,
  turns: number,
  measure: (member: ComparedNode, turn: number) => Promise<T>,
): Promise<PerAgent<readonly T[]>> {
  return await takeTurns(AGENTS, turns, (side, turn) => measure(members[side], turn));
}

/**
 * Spreads the rounds evenly over a second, because an agent with a period of one second is faster or slower within it.
 */
export const spreadMs = (turn: number) => Math.round(((turn * 0.618) % 1) * 1000);

/**
 * Time to set up signal handlers: the kernel ignores SIGTERM for a container's first process until it handles the
 * signal.
 */
export const SIGNAL_HANDLER_SETUP_MS = 250;

async function measureNodeStart({ api, watch }: ClusterSubjects, member: ComparedNode): Promise<number> {
  await member.stop();
  await api.remove(`${nodesPath}/${member.nodeName}`).catch(ignoreAbsent);
  await pause(SETTLE_MS);
  const ready = watch.nodeReady(member.nodeName);
  const startedAt = await member.start();
  return (await ready) - startedAt;
}

/** Ignores that the Node does not exist before the first start. */
function ignoreAbsent(error: unknown): void {
  if (!String(error).includes("404")) throw error;
}

/** Starts pods at once, and deletes them `afterMs` later. */
export async function measurePods(
  subjects: Pick<ClusterSubjects, "api" | "watch" | "names">,
  member: ComparedNode,
  count: number,
  afterMs: number,
  specOverrides: Partial<PodSpec> = {},
): Promise<FloorRound> {
  const names = subjects.names(count);
  const start = await startPods(subjects, member, names, specOverrides);
  await pause(SIGNAL_HANDLER_SETUP_MS + afterMs);
  return { start, removal: await deletePods(subjects, names) };
}

async function measureFloor(floor: Subject, names: readonly string[]): Promise<FloorRound> {
  const start = await measureStarts(floor, names);
  await pause(SIGNAL_HANDLER_SETUP_MS);
  return { start, removal: await measureRemovals(floor) };
}

/** Starts a hundred pods at once, and deletes them. */
export async function measureBatch(
  subjects: Pick<ClusterSubjects, "api" | "watch" | "names">,
  member: ComparedNode,
): Promise<PodBatch> {
  const names = subjects.names(BATCH_SIZE);
  const before = await usageOf(member.pid);
  const ready = await startPods(subjects, member, names);
  await pause(AFTER_START_MS);
  const startCpuMs = (await usageOf(member.pid)).cpuMs - before.cpuMs;
  return { ready, startCpuMs, gone: await deletePods(subjects, names) };
}

/** Stops an agent of these nodes and starts the next one; its pods keep running. */
export const restartOf = (members: PerAgent<ComparedNode>) => async (side: keyof PerAgent<unknown>) => {
  await members[side].stop();
  await members[side].start();
};

/** New agents start their pods, which is not measured, and both nodes run them at the same time. */
export async function measureIdleWithPods(
  subjects: ClusterSubjects,
  effort: IdleEffort,
  count: number,
  specOverrides: Partial<PodSpec> = {},
): Promise<PerAgent<NodeIdle>> {
  const { members, names, print } = subjects;
  print(`with ${count} pods: ${describeIdle(effort, "both agents")}`);
  return await measurePeriods(AGENTS, effort.idlePeriods, restartOf(members), async (period) => {
    const podsOf = { kubelet: names(count), berth: names(count) };
    for (const side of orderOf(AGENTS, period)) await startPods(subjects, members[side], podsOf[side], specOverrides);
    await pause(SETTLE_IDLE_MS);
    const idle = await measureIdle(subjects, idleMsOf(effort, period));
    await Promise.all(AGENTS.map((side) => deletePods(subjects, podsOf[side])));
    return idle;
  });
}

const AFTER_START_MS = 1000;

/** Creates pods of one node all at once; resolves once all are Ready. */
export async function startPods(
  { api, watch }: Pick<ClusterSubjects, "api" | "watch">,
  { nodeName }: ComparedNode,
  names: readonly string[],
  specOverrides: Partial<PodSpec> = {},
): Promise<Round> {
  const pods = names.map((name) => boundPod(name, nodeName, specOverrides));
  return await measureEach(names, async (name, at) => {
    const reached = watch.pod(name, "ready");
    await api.create(podsPath, pods[at]);
    return await reached;
  });
}

/** Deletes pods all at once, with their own grace period; resolves once all are deleted. */
export async function deletePods(
  { api, watch }: Pick<ClusterSubjects, "api" | "watch">,
  names: readonly string[],
): Promise<Round> {
  return await measureEach(names, async (name) => {
    const reached = watch.pod(name, "gone");
    await api.remove(`${podsPath}/${name}`);
    return await reached;
  });
}

async function measureEach(
  names: readonly string[],
  work: (name: string, at: number) => Promise<number>,
): Promise<Round> {
  const first = Date.now();
  const done = await Promise.all(
    names.map(async (name, at) => {
      const requestedAt = Date.now();
      return { requestedAt, at: await work(name, at) };
    }),
  );
  return {
    each: done.map(({ requestedAt, at }) => at - requestedAt),
    wall: Math.max(...done.map(({ at }) => at)) - first,
  };
}

/** A pod that is already bound to the node, so that the scheduler's delay is not measured. */
function boundPod(name: string, nodeName: string, specOverrides: Partial<PodSpec>): Pod {
  const pod = benchPod(name);
  return { ...pod, spec: { ...pod.spec, nodeName, automountServiceAccountToken: false, ...specOverrides } };
}

/** A newly started agent is not idle yet: it reports its node's status again and cleans up. */
const AGENT_WARM_UP_MS = 30_000;
/** Garbage collection and timers of a start are over after this time. */
const SETTLE_IDLE_MS = 10_000;
const SETTLE_MS = 1000;

async function measureIdle(subjects: ClusterSubjects, idleMs: number): Promise<PerAgent<NodeIdleWindow>> {
  const { kubelet, berth } = subjects.members;
  const from = Date.now();
  const windows = await measureWindow({ kubelet: kubelet.pid, berth: berth.pid }, idleMs);
  const until = Date.now();
  // The API server writes its audit log asynchronously.
  await pause(SETTLE_MS);
  const idleOf = async (side: keyof PerAgent<unknown>): Promise<NodeIdleWindow> => ({
    ...windows[side],
    requests: await subjects.audit.requestsOf(subjects.members[side].nodeName, from, until),
  });
  return { kubelet: await idleOf("kubelet"), berth: await idleOf("berth") };
}

/** A running container with its first process. */
export interface RunningContainer {
  /** The pod's name. */
  readonly name: string;
  readonly containerId: string;
  readonly pid: number;
}

/** Starts pods as {@link startPods}, and returns their containers. No other pod may start on the node meanwhile. */
export async function startContainers(
  subjects: Pick<ClusterSubjects, "api" | "watch">,
  member: ComparedNode,
  names: readonly string[],
  specOverrides: Partial<PodSpec>,
): Promise<readonly RunningContainer[]> {
  // The sandbox's own process and the container's.
  const started = member.runtime.events.next("started", 2 * names.length, TIMEOUT_MS);
  await startPods(subjects, member, names, specOverrides);
  const pidOf = new Map((await started).map(({ id, pid }) => [id, pid]));
  // Pods that are deleted from the API may still have containers.
  const running = (await member.runtime.pods()).filter(({ name }) => names.includes(name));
  return running.map(({ name, containerId }) => ({ name, containerId, pid: pidOf.get(containerId) ?? 0 }));
}

/**
 * Measures the time from the exit of a container, as the runtime records it, to its status in the API. Kills `count`
 * containers of each node, one after the other.
 */
export async function measureExits(
  subjects: Pick<ClusterSubjects, "api" | "watch" | "members" | "names">,
  count: number,
): Promise<PerAgent<readonly number[]>> {
  const { members, watch, names } = subjects;
  const prepare = (member: ComparedNode) => startContainers(subjects, member, names(count), { restartPolicy: "Never" });
  const ready = new Map([
    [members.kubelet, await prepare(members.kubelet)],
    [members.berth, await prepare(members.berth)],
  ]);
  await pause(SETTLE_MS);
  return await alternate(members, count, async (member, turn) => {
    const victim = ready.get(member)?.[turn];
    if (victim === undefined || victim.pid === 0) throw new Error(`${member.nodeName} does not run ${count} pods`);
    const { name, containerId, pid } = victim;
    // The work after the previous exit is finished by then.
    await pause(SIGNAL_HANDLER_SETUP_MS + spreadMs(turn));
    const reached = watch.pod(name, "terminated");
    const exited = member.runtime.events.next("exited", 1, TIMEOUT_MS, containerId);
    process.kill(pid, "SIGTERM");
    const [event] = await exited;
    return (await reached) - (event?.at ?? Number.NaN);
  });
}

const TIMEOUT_MS = 120_000;
