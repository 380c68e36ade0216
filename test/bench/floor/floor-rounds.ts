import { setTimeout as pause } from "node:timers/promises";
import { execa } from "execa";
import { measureRemovals, measureStarts, type Round, type Subject } from "../measure-rounds.ts";
import { type Memory, memoryOf } from "../process-usage.ts";
import type { Floor } from "./raw-cri-floor.ts";
import type { StaticPodAgent } from "./static-pod-agent.ts";

/** The number of repetitions and the duration of the idle phases. */
export interface FloorEffort {
  readonly singles: number;
  readonly batches: number;
  readonly idleMs: number;
  readonly starts: number;
}

export const fullFloorEffort: FloorEffort = { singles: 100, batches: 4, idleMs: 60_000, starts: 7 };
export const quickFloorEffort: FloorEffort = { singles: 25, batches: 1, idleMs: 20_000, starts: 3 };

export const describeFloorEffort = ({ singles, batches, idleMs }: FloorEffort): string =>
  `One pod ${singles} times, 100 pods ${batches} times, idle for ${idleMs / 1000} s; floor and agent alternated.`;

export const BATCH_SIZE = 100;

/** The agent's usage during an idle phase. */
export interface AgentIdle {
  readonly lastedMs: number;
  readonly cpuMs: number;
  readonly diskBytes: number;
  readonly writtenBytes: number;
  readonly logBytes: number;
  readonly memory: Memory;
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
  readonly idleEmpty: AgentIdle;
  readonly singles: readonly { readonly floor: StartAndRemoval; readonly agent: AgentRound }[];
  readonly oneAtATime: StartAndRemoval;
  readonly batches: readonly { readonly floor: StartAndRemoval; readonly agent: AgentRound }[];
  readonly idleFull: AgentIdle;
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
  const version = await timeVersion(subjects.binary, 20);
  print(`idle without pods, ${effort.idleMs / 1000} s`);
  await agent.restart();
  const idleEmpty = await measureIdle(agent, effort.idleMs);
  print(`one pod, ${effort.singles} times each, after a warm-up round`);
  await measurePair(subjects, 1);
  const singles = [];
  for (let round = 0; round < effort.singles; round++) singles.push(await measurePair(subjects, 1));
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
  let idleFull: AgentIdle | undefined;
  const batches = [];
  for (let round = 0; round < effort.batches; round++) {
    print(`${BATCH_SIZE} pods at once, round ${round + 1} of ${effort.batches}`);
    batches.push(
      await measurePair(subjects, BATCH_SIZE, async () => {
        if (idleFull !== undefined) return;
        print(`idle with ${BATCH_SIZE} pods, ${effort.idleMs / 1000} s`);
        idleFull = await measureIdle(agent, effort.idleMs);
      }),
    );
  }
  if (idleFull === undefined) throw new Error("no batch was measured");
  await pause(SETTLE_MS);
  const memoryAfter = await memoryOf(agent.pid);
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

/** Measures the floor, with four pods in parallel, and then the agent. */
async function measurePair(
  { floor, agent, names }: FloorSubjects,
  count: number,
  whileTheyRun: () => Promise<void> = async () => undefined,
): Promise<{ readonly floor: StartAndRemoval; readonly agent: AgentRound }> {
  const ofFloor = await measureSubject(floor.atOnce(4), names(count));
  const before = await agent.usage();
  const start = await measureStarts(agent, names(count));
  const between = await agent.usage();
  await pause(SIGNAL_HANDLER_SETUP_MS);
  await whileTheyRun();
  const beforeRemoval = await agent.usage();
  const removal = await measureRemovals(agent);
  const after = await agent.usage();
  return {
    floor: ofFloor,
    agent: {
      start,
      removal,
      startCpuMs: between.cpuMs - before.cpuMs,
      removalCpuMs: after.cpuMs - beforeRemoval.cpuMs,
    },
  };
}

/** Garbage collection and timers of a start are over after this time. */
const SETTLE_MS = 10_000;

async function measureIdle(agent: StaticPodAgent, idleMs: number): Promise<AgentIdle> {
  await pause(SETTLE_MS);
  const [before, logBefore] = [await agent.usage(), await agent.logBytes()];
  const startedAt = performance.now();
  await pause(idleMs);
  const lastedMs = performance.now() - startedAt;
  const [after, logAfter] = [await agent.usage(), await agent.logBytes()];
  return {
    lastedMs,
    cpuMs: after.cpuMs - before.cpuMs,
    diskBytes: after.diskBytes - before.diskBytes,
    writtenBytes: after.writtenBytes - before.writtenBytes,
    logBytes: logAfter - logBefore,
    memory: await memoryOf(agent.pid),
  };
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
