import { setTimeout as pause } from "node:timers/promises";
import { execa } from "execa";
import { measureRemovals, measureStarts, type Round, type Subject } from "../measure-rounds.ts";
import { type Memory, memoryOf } from "../process-usage.ts";
import type { Floor } from "./raw-cri-floor.ts";
import type { Berth } from "./static-pod-agent.ts";

/** How often and how long things are measured. */
export interface Effort {
  readonly singles: number;
  readonly batches: number;
  readonly idleMs: number;
  readonly starts: number;
}

export const fullEffort: Effort = { singles: 100, batches: 4, idleMs: 60_000, starts: 7 };
export const quickEffort: Effort = { singles: 25, batches: 1, idleMs: 20_000, starts: 3 };

export const describeEffort = ({ singles, batches, idleMs }: Effort): string =>
  `One pod ${singles} times, a hundred ${batches} times, idle for ${idleMs / 1000} s; floor and agent took turns.`;

export const BATCH = 100;

/** What the agent uses while nothing happens. */
export interface Idle {
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

/** One round of the agent's, with the CPU time that it took of the agent. */
export interface AgentRound extends StartAndRemoval {
  readonly startCpuMs: number;
  readonly removalCpuMs: number;
}

export interface Measurements {
  readonly version: readonly number[];
  readonly idleEmpty: Idle;
  readonly singles: readonly { readonly floor: StartAndRemoval; readonly agent: AgentRound }[];
  readonly oneAtATime: StartAndRemoval;
  readonly batches: readonly { readonly floor: StartAndRemoval; readonly agent: AgentRound }[];
  readonly idleFull: Idle;
  /** Ten seconds after all batches are gone. */
  readonly memoryAfter: Memory;
  readonly fromNothing: readonly number[];
}

export interface Subjects {
  readonly binary: string;
  readonly floor: Floor;
  readonly agent: Berth;
  readonly names: (count: number) => readonly string[];
  readonly say: (line: string) => void;
}

/** Measures everything; floor and agent take turns, so that what disturbs the machine disturbs both. */
export async function measureAll(subjects: Subjects, effort: Effort): Promise<Measurements> {
  const { agent, floor, names, say } = subjects;
  say("berth version");
  const version = await timeVersion(subjects.binary, 20);
  say(`idle without pods, ${effort.idleMs / 1000} s`);
  await agent.restart();
  const idleEmpty = await measureIdle(agent, effort.idleMs);
  say(`one pod, ${effort.singles} times each, after one to warm up`);
  await measurePair(subjects, 1);
  const singles = [];
  for (let round = 0; round < effort.singles; round++) singles.push(await measurePair(subjects, 1));
  say(`from the start of the process to the first container, ${effort.starts} times`);
  const fromNothing = [];
  for (let round = 0; round < effort.starts; round++) {
    fromNothing.push(...(await measureStarts(agent.fromNothing, names(1))).each);
    await pause(GROW_UP_MS);
    await measureRemovals(agent);
  }
  await agent.restart();
  say(`${BATCH} pods, the floor one at a time`);
  const oneAtATime = await measureOne(floor.atOnce(1), names(BATCH));
  let idleFull: Idle | undefined;
  const batches = [];
  for (let round = 0; round < effort.batches; round++) {
    say(`${BATCH} pods at once, round ${round + 1} of ${effort.batches}`);
    batches.push(
      await measurePair(subjects, BATCH, async () => {
        if (idleFull !== undefined) return;
        say(`idle with ${BATCH} pods, ${effort.idleMs / 1000} s`);
        idleFull = await measureIdle(agent, effort.idleMs);
      }),
    );
  }
  if (idleFull === undefined) throw new Error("no batch was measured");
  await pause(SETTLE_MS);
  const memoryAfter = await memoryOf(agent.pid);
  return { version, idleEmpty, singles, oneAtATime, batches, idleFull, memoryAfter, fromNothing };
}

/** The kernel ignores SIGTERM for the first process of a container until that has said what to do on it. */
const GROW_UP_MS = 250;

async function measureOne(subject: Subject, names: readonly string[]): Promise<StartAndRemoval> {
  const start = await measureStarts(subject, names);
  await pause(GROW_UP_MS);
  return { start, removal: await measureRemovals(subject) };
}

/** The floor, four pods at a time, and then the agent. */
async function measurePair(
  { floor, agent, names }: Subjects,
  count: number,
  whileTheyRun: () => Promise<void> = async () => undefined,
): Promise<{ readonly floor: StartAndRemoval; readonly agent: AgentRound }> {
  const ofFloor = await measureOne(floor.atOnce(4), names(count));
  const before = await agent.usage();
  const start = await measureStarts(agent, names(count));
  const between = await agent.usage();
  await pause(GROW_UP_MS);
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

/** What a start leaves to do for the garbage collector and for timers is over after this. */
const SETTLE_MS = 10_000;

async function measureIdle(agent: Berth, idleMs: number): Promise<Idle> {
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
