import { setTimeout as pause } from "node:timers/promises";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { benchPod } from "../bench-pod.ts";
import { BATCH_SIZE } from "../floor/floor-rounds.ts";
import { measureRemovals, measureStarts, type Round, type Subject } from "../measure-rounds.ts";
import { type Memory, memoryOf, usageOf } from "../process-usage.ts";
import type { ApiClient } from "./api-client.ts";
import { type ApiWatch, nodesPath, podsPath } from "./api-watch.ts";
import type { AuditLog, NodeRequests } from "./audit-log.ts";
import type { ComparedNode } from "./compared-node.ts";

/** The number of repetitions and the duration of the idle phases. */
export interface ClusterEffort {
  readonly singles: number;
  readonly batches: number;
  readonly idleEmptyMs: number;
  readonly idleFullMs: number;
  readonly starts: number;
  readonly exits: number;
}

/** The idle phase without pods lasts five minutes, because that is the period of a node's status report. */
export const fullClusterEffort: ClusterEffort = {
  singles: 100,
  batches: 3,
  idleEmptyMs: 300_000,
  idleFullMs: 60_000,
  starts: 7,
  exits: 50,
};

export const quickClusterEffort: ClusterEffort = {
  singles: 20,
  batches: 1,
  idleEmptyMs: 60_000,
  idleFullMs: 20_000,
  starts: 3,
  exits: 15,
};

export function describeClusterEffort(effort: ClusterEffort): string {
  const { singles, batches, idleEmptyMs, idleFullMs, starts, exits } = effort;
  const often = `One pod ${singles} times, 100 pods ${batches} times, ${starts} agent starts, ${exits} container exits`;
  const idle = `idle for ${idleEmptyMs / 1000} s without pods and ${idleFullMs / 1000} s with 100, both at the same time`;
  return `${often}, ${idle}; otherwise kubelet ${builtVersion().split("-")[0]} and berth alternated, as two nodes of one cluster.`;
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

export interface NodeIdle {
  readonly lastedMs: number;
  readonly cpuMs: number;
  readonly diskBytes: number;
  readonly memory: Memory;
  readonly requests: NodeRequests;
}

export interface ClusterMeasurements {
  /** From the start of the process, without a Node object, to the node's Ready condition in the API. */
  readonly starts: PerAgent<readonly number[]>;
  readonly idleEmpty: PerAgent<NodeIdle>;
  readonly singles: PerAgent<readonly SinglePod[]>;
  /** The raw runtime calls for one pod, in the same rounds. */
  readonly floor: readonly { readonly startMs: number; readonly removalMs: number }[];
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

/** Measures everything: both programs alternate, and are idle at the same time. */
export async function measureCluster(
  subjects: ClusterSubjects,
  floor: Subject,
  effort: ClusterEffort,
): Promise<ClusterMeasurements> {
  const { members, print } = subjects;
  print(`process start → node Ready, ${effort.starts} times each`);
  const starts = await alternate(members, effort.starts, (member) => measureNodeStart(subjects, member));
  print(`idle without pods, ${effort.idleEmptyMs / 1000} s`);
  await pause(AGENT_WARM_UP_MS);
  const idleEmpty = await measureIdle(subjects, effort.idleEmptyMs);
  print(`one pod, ${effort.singles} times each, after a warm-up round`);
  const floorRounds: { readonly startMs: number; readonly removalMs: number }[] = [];
  await alternate(members, 1, (member) => measureSingle(subjects, member, 0));
  const singles = await alternate(members, effort.singles, async (member, turn) => {
    if (member === members.kubelet) floorRounds.push(await measureFloor(floor, subjects.names(1)));
    return await measureSingle(subjects, member, turn);
  });
  const { batches, idleFull } = await measureBatches(subjects, effort);
  return { starts, idleEmpty, singles, floor: floorRounds, batches, idleFull };
}

/** Measures both programs in each round, in alternating order: the kubelet is first in the first round. */
export async function alternate<T>(
  { kubelet, berth }: PerAgent<ComparedNode>,
  turns: number,
  measure: (member: ComparedNode, turn: number) => Promise<T>,
): Promise<PerAgent<readonly T[]>> {
  const results: { readonly kubelet: T[]; readonly berth: T[] } = { kubelet: [], berth: [] };
  for (let turn = 0; turn < turns; turn++) {
    const order = [
      { member: kubelet, into: results.kubelet },
      { member: berth, into: results.berth },
    ];
    for (const { member, into } of turn % 2 === 0 ? order : order.toReversed()) into.push(await measure(member, turn));
  }
  return results;
}

/**
 * Spreads the rounds evenly over a second, because an agent with a period of one second is faster or slower within it.
 */
const spreadMs = (turn: number) => Math.round(((turn * 0.618) % 1) * 1000);

/**
 * Time to set up signal handlers: the kernel ignores SIGTERM for a container's first process until it handles the
 * signal.
 */
const SIGNAL_HANDLER_SETUP_MS = 250;

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

async function measureSingle(subjects: ClusterSubjects, member: ComparedNode, turn: number): Promise<SinglePod> {
  const [name = ""] = subjects.names(1);
  const ready = await startPods(subjects, member, [name]);
  await pause(SIGNAL_HANDLER_SETUP_MS + spreadMs(turn));
  const gone = await deletePods(subjects, [name]);
  return { readyMs: ready.wall, goneMs: gone.wall };
}

async function measureFloor(floor: Subject, names: readonly string[]) {
  const start = await measureStarts(floor, names);
  await pause(SIGNAL_HANDLER_SETUP_MS);
  return { startMs: start.wall, removalMs: (await measureRemovals(floor)).wall };
}

async function measureBatches(
  subjects: ClusterSubjects,
  effort: ClusterEffort,
): Promise<Pick<ClusterMeasurements, "batches" | "idleFull">> {
  const { members, print } = subjects;
  const [kubelet, berth]: [PodBatch[], PodBatch[]] = [[], []];
  let idleFull: PerAgent<NodeIdle> | undefined;
  for (let round = 0; round < effort.batches; round++) {
    print(`${BATCH_SIZE} pods at once, round ${round + 1} of ${effort.batches}`);
    const order = [
      { member: members.kubelet, into: kubelet },
      { member: members.berth, into: berth },
    ];
    const running = [];
    for (const { member, into } of round % 2 === 0 ? order : order.toReversed()) {
      const names = subjects.names(BATCH_SIZE);
      const before = await usageOf(member.pid);
      const ready = await startPods(subjects, member, names);
      await pause(AFTER_START_MS);
      const startCpuMs = (await usageOf(member.pid)).cpuMs - before.cpuMs;
      running.push({ into, names, ready, startCpuMs });
    }
    if (idleFull === undefined) {
      print(`idle with ${BATCH_SIZE} pods, ${effort.idleFullMs / 1000} s`);
      idleFull = await measureIdle(subjects, effort.idleFullMs);
    }
    for (const { into, names, ...batch } of running) into.push({ ...batch, gone: await deletePods(subjects, names) });
  }
  if (idleFull === undefined) throw new Error("no batch was measured");
  return { batches: { kubelet, berth }, idleFull };
}

const AFTER_START_MS = 1000;

/** Creates pods of one node all at once; resolves once all are Ready. */
export async function startPods(
  { api, watch }: Pick<ClusterSubjects, "api" | "watch">,
  { nodeName }: ComparedNode,
  names: readonly string[],
  specOverrides: Partial<Pod["spec"]> = {},
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
function boundPod(name: string, nodeName: string, specOverrides: Partial<Pod["spec"]>): Pod {
  const pod = benchPod(name);
  return { ...pod, spec: { ...pod.spec, nodeName, automountServiceAccountToken: false, ...specOverrides } };
}

/** A newly started agent is not idle yet: it reports its node's status again and cleans up. */
const AGENT_WARM_UP_MS = 30_000;
/** Garbage collection and timers of a start are over after this time. */
const SETTLE_IDLE_MS = 10_000;
const SETTLE_MS = 1000;

async function measureIdle(subjects: ClusterSubjects, idleMs: number): Promise<PerAgent<NodeIdle>> {
  const { kubelet, berth } = subjects.members;
  await pause(SETTLE_IDLE_MS);
  const from = Date.now();
  const before = await Promise.all([usageOf(kubelet.pid), usageOf(berth.pid)]);
  await pause(idleMs);
  const after = await Promise.all([usageOf(kubelet.pid), usageOf(berth.pid)]);
  const until = Date.now();
  // The API server writes its audit log asynchronously.
  await pause(SETTLE_MS);
  const idleOf = async ({ pid, nodeName }: ComparedNode, at: 0 | 1): Promise<NodeIdle> => ({
    lastedMs: until - from,
    cpuMs: after[at].cpuMs - before[at].cpuMs,
    diskBytes: after[at].diskBytes - before[at].diskBytes,
    memory: await memoryOf(pid),
    requests: await subjects.audit.requestsOf(nodeName, from, until),
  });
  return { kubelet: await idleOf(kubelet, 0), berth: await idleOf(berth, 1) };
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
  const prepare = async (member: ComparedNode) => {
    const pods = names(count);
    const started = member.runtime.events.next("started", 2 * count, TIMEOUT_MS);
    await startPods(subjects, member, pods, { restartPolicy: "Never" });
    const pidOf = new Map((await started).map(({ id, pid }) => [id, pid]));
    // Pods that are deleted from the API may still have containers.
    const running = (await member.runtime.pods()).filter(({ name }) => pods.includes(name));
    return running.map(({ name, containerId }) => ({ name, containerId, pid: pidOf.get(containerId) ?? 0 }));
  };
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
