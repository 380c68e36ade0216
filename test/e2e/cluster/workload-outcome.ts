import { expect } from "bun:test";
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { pollUntil } from "../../bed/poll-until.ts";
import { countStarted, findDuplicateAttempts } from "../create-attempts.ts";
import { followRuntimeCalls } from "../runtime-calls.ts";
import { exceededQuotas, outcomeTable } from "./excuse-quotas.ts";
import type { Interruptions } from "./excuses.ts";
import { judge, podsWithoutPreStop, runsOn, type Verdict } from "./expected-outcomes.ts";
import { readHookFailures } from "./hook-failures.ts";
import type { AgentKills } from "./kills.ts";
import type { RandomPodsBed } from "./random-pods-bed.ts";
import { type RandomPod, readNotes } from "./random-workload.ts";

/** How long the pods may take to reach their outcomes, and how long these must hold then. */
export interface OutcomeTimes {
  readonly calmMs: number;
  readonly holdMs: number;
}

/**
 * Expects that all pods reach their outcomes after all faults, without a duplicate container and within the quotas of
 * excuses, and that the outcomes hold. Returns the verdict on each pod.
 */
export async function expectOutcomes(
  bed: RandomPodsBed,
  workload: readonly RandomPod[],
  { kills, unexpectedExits }: AgentKills,
  { calmMs, holdMs }: OutcomeTimes,
): Promise<readonly Verdict[]> {
  const calmFrom = performance.now();
  const { cluster, folder, openFileWatch } = bed;
  const calls = followRuntimeCalls(cluster.node.containerd.logFile);
  const interruptions = async () => ({
    kills,
    calls: await calls(),
    hookFailures: readHookFailures(await cluster.node.log()),
  });
  const reached = await awaitOutcomes(bed, workload, interruptions, calmMs);
  console.log(outcomeTable(reached));
  for (const verdict of reached) if (verdict.outcome === "excused") console.log(`excused: ${verdict.sentence}`);
  expect(deviations(reached)).toEqual([]);
  console.log(`all reached their outcomes ${Math.round(performance.now() - calmFrom)} ms after the last hit`);
  // Not a wait for anything: for this long, the outcomes must stay as they are.
  await pause(holdMs);
  const seen = await judgeAll(bed, workload, interruptions);
  expect(deviations(seen.filter(({ kind }) => kind !== "crashes"))).toEqual([]);
  // For a moment, a crash loop is between two instances.
  const held = await awaitOutcomes(bed, workload, interruptions, LOOP_MOMENT_MS);
  expect(deviations(held)).toEqual([]);
  expect(outcomeTable(held)).toBe(outcomeTable(reached));

  expect(exceededQuotas(held)).toEqual([]);
  expect(openFileWatch.overlaps()).toEqual([]);
  const runtimeLog = await readFile(cluster.node.containerd.logFile, "utf8");
  expect(findDuplicateAttempts(runtimeLog)).toEqual([]);
  const pods = await cluster.pods();
  const uids = new Map(pods.map(({ metadata }) => [metadata.name, metadata.uid]));
  const isRestarted = ({ name }: RandomPod) => countStarted(runtimeLog, uids.get(name) ?? "", "main") > 1;
  expect(workload.filter(({ kind }) => runsOn(kind)).filter(isRestarted)).toEqual([]);
  expect(unexpectedExits).toEqual([]);
  const notes = await Promise.all(workload.map(async ({ name }) => [name, await readNotes(folder, name)] as const));
  const { hookFailures } = await interruptions();
  expect(podsWithoutPreStop(pods, new Map(notes), hookFailures, kills)).toEqual([]);
  return held;
}

/** Expects that all pods reach their outcomes within `timeoutMs` without any kill. */
export async function expectUndisturbedOutcomes(
  bed: RandomPodsBed,
  workload: readonly RandomPod[],
  timeoutMs: number,
): Promise<void> {
  const calls = followRuntimeCalls(bed.cluster.node.containerd.logFile);
  const undisturbed = async () => ({ kills: [], calls: await calls(), hookFailures: [] });
  const reached = await awaitOutcomes(bed, workload, undisturbed, timeoutMs);
  console.log(`without kills:\n${outcomeTable(reached)}`);
  expect(reached.filter(({ outcome }) => outcome !== "reached")).toEqual([]);
}

const LOOP_MOMENT_MS = 5_000;

/** Waits until no pod deviates from its outcome. Returns the last verdicts, also after a timeout. */
async function awaitOutcomes(
  bed: RandomPodsBed,
  workload: readonly RandomPod[],
  interruptionsSoFar: () => Promise<Interruptions>,
  timeoutMs: number,
): Promise<readonly Verdict[]> {
  let last: readonly Verdict[] | undefined;
  await pollUntil("all to reach their outcomes", timeoutMs, async () => {
    // The API may be away for a moment.
    last = await judgeAll(bed, workload, interruptionsSoFar).catch(() => last);
    return last !== undefined && deviations(last).length === 0;
    // The caller's expectation shows the last deviations after a timeout.
  }).catch(() => undefined);
  return last ?? (await judgeAll(bed, workload, interruptionsSoFar));
}

const deviations = (verdicts: readonly Verdict[]) =>
  verdicts.flatMap((verdict) => (verdict.outcome === "deviates" ? [verdict.sentence] : []));

async function judgeAll(
  { cluster, folder, openFileWatch }: RandomPodsBed,
  workload: readonly RandomPod[],
  interruptionsSoFar: () => Promise<Interruptions>,
): Promise<readonly Verdict[]> {
  const apiName = ({ name, isStatic }: RandomPod) => (isStatic ? `${name}-${cluster.node.name}` : name);
  const shown = new Map((await cluster.pods()).map((pod) => [pod.metadata.name, pod]));
  const interruptions = await interruptionsSoFar();
  const runningInstances = openFileWatch.openCounts();
  return await Promise.all(
    workload.map(async (randomPod) => {
      const pod = shown.get(apiName(randomPod));
      return judge(randomPod, { pod, notes: await readNotes(folder, randomPod.name), runningInstances, interruptions });
    }),
  );
}
