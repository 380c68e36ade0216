import { setTimeout as pause } from "node:timers/promises";
import { execa } from "execa";
import { podShape } from "../bench-pod.ts";
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
import { type Memory, memoryOf } from "../process-usage.ts";
import type { Floor } from "./raw-cri-floor.ts";
import type { StaticPodAgent } from "./static-pod-agent.ts";

/** The number of repetitions and the duration of the idle phases: without pods, and with many. */
export interface FloorEffort extends IdleEffort {
  readonly singles: number;
  readonly batches: number;
  readonly starts: number;
}

export const thoroughFloorEffort: FloorEffort = {
  ...{ singles: 200, batches: 7, starts: 7, idlePeriods: 7, idleMs: 60_000, lastIdleMs: RELIST_IDLE_MS },
};
/** The fewest repetitions that decide anything. */
export const publishedFloorEffort: FloorEffort = {
  ...{ singles: 60, batches: 5, starts: 5, idlePeriods: 5, idleMs: 30_000, lastIdleMs: RELIST_IDLE_MS },
};
/** Shows that everything runs; decides nothing. */
export const quickFloorEffort: FloorEffort = {
  ...{ singles: 5, batches: 1, starts: 1, idlePeriods: 1, idleMs: 10_000, lastIdleMs: 10_000 },
};

export const describeFloorEffort = (effort: FloorEffort): string =>
  `One pod ${effort.singles} times, ${BATCH_SIZE} pods ${effort.batches} times, ${describeIdle(effort, "the agent")}, without pods and with ${BATCH_SIZE}; floor and agent alternated who began. ${podShape}`;

export const BATCH_SIZE = 100;

/** The agent's usage during a window of an idle phase. */
export interface AgentIdle extends UsageWindow {
  readonly logBytes: number;
}

export interface StartAndRemoval {
  readonly start: Round;
  readonly removal: Round;
}

/** One round of the agent, with its CPU time. */
export interface AgentRound extends StartAndRemoval {
  readonly startCpuMs: number;
  readonly removalCpuMs: number;
}

export interface FloorMeasurements {
  readonly version: readonly number[];
  readonly idleEmpty: Periods<AgentIdle>;
  readonly singles: readonly { readonly floor: StartAndRemoval; readonly agent: AgentRound }[];
  readonly oneAtATime: StartAndRemoval;
  readonly batches: readonly { readonly floor: StartAndRemoval; readonly agent: AgentRound }[];
  readonly idleFull: Periods<AgentIdle>;
  /** Ten seconds after the removal of all batches. */
  readonly memoryAfter: Memory;
  readonly fromNothing: readonly number[];
}

export interface FloorSubjects {
  readonly binary: string;
  readonly floor: Floor;
  readonly agent: StaticPodAgent;
  readonly names: (count: number) => readonly string[];
  readonly print: (line: string) => void;
}

/** Measures everything. Floor and agent alternate, so that a disturbance of the machine affects both. */
export async function measureFloorComparison(subjects: FloorSubjects, effort: FloorEffort): Promise<FloorMeasurements> {
  const { agent, floor, names, print } = subjects;
  print("berth version");
  const version = await timeVersion(subjects.binary, effort.singles);
  print(`without pods: ${describeIdle(effort, "the agent")}`);
  const idleEmpty = await measureIdlePeriods(agent, effort, (idleMs) => measureIdle(agent, idleMs));
  print(`one pod, ${effort.singles} times each, after a warm-up round`);
  await measurePair(subjects, 1, 0);
  const singles = [];
  for (let round = 0; round < effort.singles; round++) singles.push(await measurePair(subjects, 1, round));
  print(`process start → first container, ${effort.starts} times`);
  const fromNothing = [];
  for (let round = 0; round < effort.starts; round++) {
    fromNothing.push(...(await measureStarts(agent.startedWithPods, names(1))).each);
    await pause(SIGNAL_HANDLER_SETUP_MS);
    await measureRemovals(agent);
  }
  await agent.restart();
  print(`${BATCH_SIZE} pods, the floor one at a time`);
  const oneAtATime = await measureSubject(floor.atOnce(1), names(BATCH_SIZE));
  const batches = [];
  for (let round = 0; round < effort.batches; round++) {
    print(`${BATCH_SIZE} pods at once, round ${round + 1} of ${effort.batches}`);
    batches.push(await measurePair(subjects, BATCH_SIZE, round));
  }
  await pause(SETTLE_MS);
  const memoryAfter = await memoryOf(agent.pid);
  print(`with ${BATCH_SIZE} pods: ${describeIdle(effort, "the agent")}`);
  const idleFull = await measureIdlePeriods(agent, effort, async (idleMs) => {
    await measureStarts(agent, names(BATCH_SIZE));
    const idle = await measureIdle(agent, idleMs);
    await measureRemovals(agent);
    return idle;
  });
  return { version, idleEmpty, singles, oneAtATime, batches, idleFull, memoryAfter, fromNothing };
}

/**
 * Time to set up signal handlers: the kernel ignores SIGTERM for a container's first process until it handles the
 * signal.
 */
const SIGNAL_HANDLER_SETUP_MS = 250;

async function measureSubject(subject: Subject, names: readonly string[]): Promise<StartAndRemoval> {
  const start = await measureStarts(subject, names);
  await pause(SIGNAL_HANDLER_SETUP_MS);
  return { start, removal: await measureRemovals(subject) };
}

/** Measures the floor, with four pods in parallel, and the agent, in this order in even rounds. */
async function measurePair(
  subjects: FloorSubjects,
  count: number,
  round: number,
): Promise<{ readonly floor: StartAndRemoval; readonly agent: AgentRound }> {
  const ofAgent = () => measureAgent(subjects, count);
  const ofFloor = () => measureSubject(subjects.floor.atOnce(4), subjects.names(count));
  if (round % 2 === 0) return { floor: await ofFloor(), agent: await ofAgent() };
  const first = await ofAgent();
  return { floor: await ofFloor(), agent: first };
}

async function measureAgent({ agent, names }: FloorSubjects, count: number): Promise<AgentRound> {
  const before = await agent.usage();
  const start = await measureStarts(agent, names(count));
  const between = await agent.usage();
  await pause(SIGNAL_HANDLER_SETUP_MS);
  const beforeRemoval = await agent.usage();
  const removal = await measureRemovals(agent);
  const after = await agent.usage();
  const [startCpuMs, removalCpuMs] = [between.cpuMs - before.cpuMs, after.cpuMs - beforeRemoval.cpuMs];
  return { start, removal, startCpuMs, removalCpuMs };
}

/** Garbage collection and timers of a start are over after this time. */
const SETTLE_MS = 10_000;

async function measureIdlePeriods(
  agent: StaticPodAgent,
  effort: FloorEffort,
  measure: (idleMs: number) => Promise<AgentIdle>,
): Promise<Periods<AgentIdle>> {
  const measureSide = async (period: number) => ({ agent: await measure(idleMsOf(effort, period)) });
  return (await measurePeriods(["agent"], effort.idlePeriods, () => agent.restart(), measureSide)).agent;
}

async function measureIdle(agent: StaticPodAgent, idleMs: number): Promise<AgentIdle> {
  await pause(SETTLE_MS);
  const logBefore = await agent.logBytes();
  const { agent: window } = await measureWindow({ agent: agent.pid }, idleMs);
  return { ...window, logBytes: (await agent.logBytes()) - logBefore };
}

async function timeVersion(binary: string, times: number): Promise<readonly number[]> {
  const durations = [];
  for (let run = 0; run < times; run++) {
    const startedAt = performance.now();
    await execa(binary, ["version"]);
    durations.push(performance.now() - startedAt);
  }
  return durations;
}
