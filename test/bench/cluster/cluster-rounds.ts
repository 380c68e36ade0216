import { setTimeout as pause } from "node:timers/promises";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { benchPod } from "../bench-pod.ts";
import { BATCH } from "../floor/floor-rounds.ts";
import { measureRemovals, measureStarts, type Round, type Subject } from "../measure-rounds.ts";
import { type Memory, memoryOf, usageOf } from "../process-usage.ts";
import type { ApiClient } from "./api-client.ts";
import { type ApiWatch, nodesPath, podsPath } from "./api-watch.ts";
import type { AuditLog, Requests } from "./audit-log.ts";
import type { Member } from "./compared-node.ts";

/** How often and how long things are measured. */
export interface ClusterEffort {
  readonly singles: number;
  readonly batches: number;
  readonly idleEmptyMs: number;
  readonly idleFullMs: number;
  readonly starts: number;
  readonly exits: number;
}

/** A node reports its status every five minutes, so less than that would not show whether it does more. */
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
  const often = `One pod ${singles} times, a hundred ${batches} times, ${starts} starts of the agent, ${exits} ends of containers`;
  const idle = `idle for ${idleEmptyMs / 1000} s without pods and ${idleFullMs / 1000} s with a hundred, both at the same time`;
  return `${often}, ${idle}; else kubelet ${builtVersion().split("-")[0]} and berth took turns, as two nodes of one cluster.`;
}

/** What the two have of everything. */
export interface Both<T> {
  readonly kubelet: T;
  readonly berth: T;
}

export interface Single {
  /** Asked for → seen Ready. */
  readonly readyMs: number;
  /** Deleted, with the usual grace → seen to be gone. */
  readonly goneMs: number;
}

export interface Batch {
  readonly ready: Round;
  readonly gone: Round;
  /** Of the agent, until a second after the last pod was Ready. */
  readonly startCpuMs: number;
}

export interface MemberIdle {
  readonly lastedMs: number;
  readonly cpuMs: number;
  readonly diskBytes: number;
  readonly memory: Memory;
  readonly requests: Requests;
}

export interface ClusterMeasurements {
  /** The process began, its node being unknown → its node seen Ready. */
  readonly starts: Both<readonly number[]>;
  readonly idleEmpty: Both<MemberIdle>;
  readonly singles: Both<readonly Single[]>;
  /** The runtime's own calls for one pod, in the same turns. */
  readonly floor: readonly { readonly startMs: number; readonly removalMs: number }[];
  readonly batches: Both<readonly Batch[]>;
  readonly idleFull: Both<MemberIdle>;
}

export interface ClusterSubjects {
  readonly api: ApiClient;
  readonly watch: ApiWatch;
  readonly audit: AuditLog;
  readonly members: Both<Member>;
  readonly names: (count: number) => readonly string[];
  readonly say: (line: string) => void;
}

/** Both take turns in everything, and are idle at the same time. */
export async function measureCluster(
  subjects: ClusterSubjects,
  floor: Subject,
  effort: ClusterEffort,
): Promise<ClusterMeasurements> {
  const { members, say } = subjects;
  say(`from the start of the process to its node seen Ready, ${effort.starts} times each`);
  const starts = await inTurns(members, effort.starts, (member) => measureNodeStart(subjects, member));
  say(`idle without pods, ${effort.idleEmptyMs / 1000} s`);
  await pause(GROW_OLD_MS);
  const idleEmpty = await measureIdle(subjects, effort.idleEmptyMs);
  say(`one pod, ${effort.singles} times each, after one to warm up`);
  const floorRounds: { readonly startMs: number; readonly removalMs: number }[] = [];
  await inTurns(members, 1, (member) => measureSingle(subjects, member, 0));
  const singles = await inTurns(members, effort.singles, async (member, turn) => {
    if (member === members.kubelet) floorRounds.push(await measureFloor(floor, subjects.names(1)));
    return await measureSingle(subjects, member, turn);
  });
  const { batches, idleFull } = await measureBatches(subjects, effort);
  return { starts, idleEmpty, singles, floor: floorRounds, batches, idleFull };
}

/** The kubelet's turn first and then Berth's, and the other way round the next time. */
export async function inTurns<T>(
  { kubelet, berth }: Both<Member>,
  turns: number,
  measure: (member: Member, turn: number) => Promise<T>,
): Promise<Both<readonly T[]>> {
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

/** Where an agent looks at the node every second, it matters when in that second something happens: all parts of it get their share. */
const spreadMs = (turn: number) => Math.round(((turn * 0.618) % 1) * 1000);

/** The kernel ignores SIGTERM for the first process of a container until that has said what to do on it. */
const GROW_UP_MS = 250;

async function measureNodeStart({ api, watch }: ClusterSubjects, member: Member): Promise<number> {
  await member.stop();
  await api.remove(`${nodesPath}/${member.nodeName}`).catch(ignoreAbsent);
  await pause(SETTLE_MS);
  const ready = watch.nodeReady(member.nodeName);
  const startedAt = await member.start();
  return (await ready) - startedAt;
}

/** Before the first start there is none. */
function ignoreAbsent(error: unknown): void {
  if (!String(error).includes("404")) throw error;
}

async function measureSingle(subjects: ClusterSubjects, member: Member, turn: number): Promise<Single> {
  const [name = ""] = subjects.names(1);
  const ready = await startPods(subjects, member, [name]);
  await pause(GROW_UP_MS + spreadMs(turn));
  const gone = await deletePods(subjects, [name]);
  return { readyMs: ready.wall, goneMs: gone.wall };
}

async function measureFloor(floor: Subject, names: readonly string[]) {
  const start = await measureStarts(floor, names);
  await pause(GROW_UP_MS);
  return { startMs: start.wall, removalMs: (await measureRemovals(floor)).wall };
}

async function measureBatches(
  subjects: ClusterSubjects,
  effort: ClusterEffort,
): Promise<Pick<ClusterMeasurements, "batches" | "idleFull">> {
  const { members, say } = subjects;
  const [kubelet, berth]: [Batch[], Batch[]] = [[], []];
  let idleFull: Both<MemberIdle> | undefined;
  for (let round = 0; round < effort.batches; round++) {
    say(`${BATCH} pods at once, round ${round + 1} of ${effort.batches}`);
    const order = [
      { member: members.kubelet, into: kubelet },
      { member: members.berth, into: berth },
    ];
    const running = [];
    for (const { member, into } of round % 2 === 0 ? order : order.toReversed()) {
      const names = subjects.names(BATCH);
      const before = await usageOf(member.pid);
      const ready = await startPods(subjects, member, names);
      await pause(AFTER_START_MS);
      const startCpuMs = (await usageOf(member.pid)).cpuMs - before.cpuMs;
      running.push({ into, names, ready, startCpuMs });
    }
    if (idleFull === undefined) {
      say(`idle with ${BATCH} pods, ${effort.idleFullMs / 1000} s`);
      idleFull = await measureIdle(subjects, effort.idleFullMs);
    }
    for (const { into, names, ...batch } of running) into.push({ ...batch, gone: await deletePods(subjects, names) });
  }
  if (idleFull === undefined) throw new Error("no batch was measured");
  return { batches: { kubelet, berth }, idleFull };
}

const AFTER_START_MS = 1000;

/** Asks for pods of one node all at once; resolves once all were seen Ready. */
export async function startPods(
  { api, watch }: Pick<ClusterSubjects, "api" | "watch">,
  { nodeName }: Member,
  names: readonly string[],
  more: Partial<Pod["spec"]> = {},
): Promise<Round> {
  const pods = names.map((name) => boundPod(name, nodeName, more));
  return await measureAll(names, async (name, at) => {
    const seen = watch.pod(name, "ready");
    await api.create(podsPath, pods[at]);
    return await seen;
  });
}

/** Deletes pods all at once, with the grace that they have; resolves once all were seen to be gone. */
export async function deletePods(
  { api, watch }: Pick<ClusterSubjects, "api" | "watch">,
  names: readonly string[],
): Promise<Round> {
  return await measureAll(names, async (name) => {
    const seen = watch.pod(name, "gone");
    await api.remove(`${podsPath}/${name}`);
    return await seen;
  });
}

async function measureAll(
  names: readonly string[],
  work: (name: string, at: number) => Promise<number>,
): Promise<Round> {
  const first = Date.now();
  const done = await Promise.all(
    names.map(async (name, at) => {
      const askedAt = Date.now();
      return { askedAt, at: await work(name, at) };
    }),
  );
  return { each: done.map(({ askedAt, at }) => at - askedAt), wall: Math.max(...done.map(({ at }) => at)) - first };
}

/** Bound from the beginning: when the scheduler gets to it says nothing of the node. */
function boundPod(name: string, nodeName: string, more: Partial<Pod["spec"]>): Pod {
  const pod = benchPod(name);
  return { ...pod, spec: { ...pod.spec, nodeName, automountServiceAccountToken: false, ...more } };
}

/** An agent that has just started is not idle yet: it says how its node is now and then, and tidies up. */
const GROW_OLD_MS = 30_000;
/** What a start leaves to do for the garbage collector and for timers is over after this. */
const SETTLE_IDLE_MS = 10_000;
const SETTLE_MS = 1000;

async function measureIdle(subjects: ClusterSubjects, idleMs: number): Promise<Both<MemberIdle>> {
  const { kubelet, berth } = subjects.members;
  await pause(SETTLE_IDLE_MS);
  const from = Date.now();
  const before = await Promise.all([usageOf(kubelet.pid), usageOf(berth.pid)]);
  await pause(idleMs);
  const after = await Promise.all([usageOf(kubelet.pid), usageOf(berth.pid)]);
  const until = Date.now();
  // The API server writes its log beside its work.
  await pause(SETTLE_MS);
  const idleOf = async ({ pid, nodeName }: Member, at: 0 | 1): Promise<MemberIdle> => ({
    lastedMs: until - from,
    cpuMs: after[at].cpuMs - before[at].cpuMs,
    diskBytes: after[at].diskBytes - before[at].diskBytes,
    memory: await memoryOf(pid),
    requests: await subjects.audit.requestsOf(nodeName, from, until),
  });
  return { kubelet: await idleOf(kubelet, 0), berth: await idleOf(berth, 1) };
}

/** The runtime sees the end of a container → its status in the API says so; of `count` containers of each member, one after the other. */
export async function measureExits(
  subjects: Pick<ClusterSubjects, "api" | "watch" | "members" | "names">,
  count: number,
): Promise<Both<readonly number[]>> {
  const { members, watch, names } = subjects;
  const prepare = async (member: Member) => {
    const pods = names(count);
    const started = member.runtime.events.next("started", 2 * count, PATIENCE_MS);
    await startPods(subjects, member, pods, { restartPolicy: "Never" });
    const pidOf = new Map((await started).map(({ id, pid }) => [id, pid]));
    // Of pods that are gone from the API there may be something left.
    const running = (await member.runtime.pods()).filter(({ name }) => pods.includes(name));
    return running.map(({ name, containerId }) => ({ name, containerId, pid: pidOf.get(containerId) ?? 0 }));
  };
  const ready = new Map([
    [members.kubelet, await prepare(members.kubelet)],
    [members.berth, await prepare(members.berth)],
  ]);
  await pause(SETTLE_MS);
  return await inTurns(members, count, async (member, turn) => {
    const victim = ready.get(member)?.[turn];
    if (victim === undefined || victim.pid === 0) throw new Error(`${member.nodeName} does not run ${count} pods`);
    const { name, containerId, pid } = victim;
    // What the end before this one left to do is over by then.
    await pause(GROW_UP_MS + spreadMs(turn));
    const seen = watch.pod(name, "terminated");
    const exited = member.runtime.events.next("exited", 1, PATIENCE_MS, containerId);
    process.kill(pid, "SIGTERM");
    const [event] = await exited;
    return (await seen) - (event?.at ?? Number.NaN);
  });
}

const PATIENCE_MS = 120_000;
