import { sleepUnlessAborted } from "../../../host/clock.ts";
import { SIGKILL_EXIT_CODE } from "../../decide/container/oom-reason.ts";
import {
  healthOfStates,
  isProbeActive,
  nextProbeState,
  type ProbeKind,
  type ProbeOutcome,
} from "../../decide/container/probe.ts";
import {
  countedTryAfter,
  firstTry,
  nextTry,
  type ProbeTry,
  probeSeries,
} from "../../decide/container/probe-schedule.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import type { ContainerHealth } from "../../decide/pod/observed.ts";
import { adjustToClock, setTimerBy, setTimerToNext } from "./probe-timer.ts";
import {
  type ProbedContainer,
  type ProberState,
  type ProbeSchedule,
  type ProbeTarget,
  probeOf,
  statesOf,
} from "./prober-state.ts";

/** How often one try executes a probe that returns an error (kubelet: maxProbeRetries). */
const MAX_ATTEMPTS = 3;

/** How long after the end of a command the exit of its container may be observed. */
const EXIT_DELAY_MS = 1_000;

/** Plans the first try of probes that are to run from now on. */
export function scheduleFirst(prober: ProberState, probed: ProbedContainer): void {
  const { clock, earlyProbes } = prober;
  const { startedAt, notBefore } = probed;
  const states = statesOf(probed);
  for (const [kind, schedule] of probed.schedules) {
    const probe = probeOf(probed.target.container, kind);
    if (probe === undefined || schedule.isRunning || schedule.next !== undefined || !isProbeActive(kind, states))
      continue;
    const now = clock.now();
    schedule.series = probeSeries(kind, probe, { startedAt, notBefore, now, earlyProbes });
    schedule.next = firstTry(probe, schedule.series, schedule.state, now);
  }
  for (const { next } of probed.schedules.values()) setTimerBy(prober, next?.at);
}

/** Starts all tries that are due. The timer was set to `at`. */
export function runDueProbes(prober: ProberState, at: number): void {
  const { clock, pods } = prober;
  prober.timer = undefined;
  const now = clock.now();
  // Timers fire when their time has passed, whatever the wall clock says.
  prober.latestTime = Math.max(prober.latestTime, at);
  adjustToClock(prober, now);
  for (const ofPod of pods.values())
    for (const probed of ofPod.values())
      for (const [kind, schedule] of probed.schedules)
        if (schedule.next !== undefined && schedule.next.at <= now) startTry(prober, probed, kind, schedule);
  setTimerToNext(prober);
}

function startTry(prober: ProberState, probed: ProbedContainer, kind: ProbeKind, schedule: ProbeSchedule): void {
  const { series, next } = schedule;
  const probe = probeOf(probed.target.container, kind);
  if (probe === undefined || series === undefined || next === undefined) return;
  // The try that counts does not wait for a turn.
  schedule.turn?.abort();
  schedule.turn = undefined;
  schedule.next = undefined;
  const target: ProbeTarget = { ...probed.target, kind, probe };
  if (next.isEarly && probe.exec !== undefined) {
    schedule.next = { at: countedTryAfter(probe, series, next.at), isEarly: false };
    track(prober, executeInTurn(prober, probed, schedule, target));
  } else track(prober, executeProbe(prober, probed, schedule, target, next));
}

function track({ underWay }: ProberState, work: Promise<void>): void {
  const followed: Promise<void> = work.finally(() => underWay.delete(followed));
  underWay.add(followed);
}

/** Makes an early try of a command as soon as few others run; gives it up when a try that counts is due before. */
async function executeInTurn(
  prober: ProberState,
  probed: ProbedContainer,
  schedule: ProbeSchedule,
  target: ProbeTarget,
): Promise<void> {
  const turn = new AbortController();
  schedule.turn = turn;
  const signal = AbortSignal.any([turn.signal, probed.abort.signal]);
  const release = await prober.earlyExecs.acquire(signal).catch(() => {
    // The signal has aborted.
    return undefined;
  });
  if (release === undefined) return;
  try {
    // The turn may have come at the moment of the other try.
    if (schedule.turn !== turn || isOutdated(probed, schedule, target)) return;
    schedule.turn = undefined;
    schedule.next = undefined;
    await executeProbe(prober, probed, schedule, target, { isEarly: true });
  } finally {
    release();
  }
}

/** Of an early try only a success has an effect: that a container is not ready yet is expected. */
async function executeProbe(
  prober: ProberState,
  probed: ProbedContainer,
  schedule: ProbeSchedule,
  target: ProbeTarget,
  { isEarly }: Pick<ProbeTry, "isEarly">,
): Promise<void> {
  const triedAt = prober.clock.now();
  const startedMs = prober.clock.monotonicMs();
  schedule.isRunning = true;
  const { signal } = probed.abort;
  const outcome = await outcomeOf(prober, target, signal, isEarly ? 1 : MAX_ATTEMPTS);
  const durationMs = prober.clock.monotonicMs() - startedMs;
  const isCutOff = !isEarly && mayBeCutOff(target, outcome);
  if (isCutOff && !probed.isTerminating) await sleepUnlessAborted(prober.clock, EXIT_DELAY_MS, signal);
  schedule.isRunning = false;
  const now = prober.clock.now();
  adjustToClock(prober, now);
  if (isOutdated(probed, schedule, target) || schedule.state.hasEnded) return;
  // The stop of the container also ends its commands, and the runtime may report the exit much later.
  const isIgnored = isCutOff && probed.isTerminating;
  if (isEarly && outcome.result !== "success" && outcome.result !== "warning") prober.onEarlyFailure(target, outcome);
  else if (!isIgnored) {
    prober.onResult(target, outcome, durationMs);
    applyOutcome(prober, probed, schedule, { target, outcome });
  }
  const { kind, probe } = target;
  if (schedule.series !== undefined && isProbeActive(kind, statesOf(probed)))
    schedule.next = nextTry(probe, schedule.series, schedule.state, { triedAt, now });
  scheduleFirst(prober, probed);
}

/**
 * Whether the end of the container may have ended the command, or prevented it. Then its exit will soon be observed, and
 * the result says nothing.
 */
function mayBeCutOff({ probe }: ProbeTarget, { result, exitCode }: ProbeOutcome): boolean {
  return probe.exec !== undefined && (result === "error" || exitCode === SIGKILL_EXIT_CODE);
}

/** The container has exited meanwhile, its pod terminates, or the probe was removed: the result is ignored. */
function isOutdated({ abort, schedules }: ProbedContainer, schedule: ProbeSchedule, { kind }: ProbeTarget): boolean {
  return abort.signal.aborted || schedules.get(kind) !== schedule;
}

/** The result of the probe, which is repeated while it cannot be executed. */
async function outcomeOf(
  { runProbe, log }: ProberState,
  target: ProbeTarget,
  signal: AbortSignal,
  maxAttempts: number,
): Promise<ProbeOutcome> {
  try {
    let outcome = await runProbe(target, signal);
    for (let tries = 1; tries < maxAttempts && outcome.result === "error" && !signal.aborted; tries++)
      outcome = await runProbe(target, signal);
    return outcome;
  } catch (error) {
    const { kind, pod, container } = target;
    const fields = { pod: fullNameOf(pod), container: container.name, err: error };
    log.error(fields, `cannot run the ${kind} probe of container ${container.name}`);
    return { result: "error", message: error instanceof Error ? error.message : String(error) };
  }
}

interface ProbeResult {
  readonly target: ProbeTarget;
  readonly outcome: ProbeOutcome;
}

function applyOutcome(
  { clock, log, wake }: ProberState,
  probed: ProbedContainer,
  schedule: ProbeSchedule,
  { target, outcome }: ProbeResult,
): void {
  const { kind, probe, uid, pod, container } = target;
  const before = healthOfStates(statesOf(probed));
  schedule.state = nextProbeState(kind, probe, schedule.state, outcome);
  const after = healthOfStates(statesOf(probed));
  if (isSameHealth(before, after)) return;
  if (after.isStarted && !before.isStarted) probed.notBefore = clock.now();
  // Do not log the probe's output, which only the event contains: it may hold secrets of the container.
  const fields = { pod: fullNameOf(pod), container: container.name };
  log.info(fields, `the ${kind} probe of container ${container.name} now returns ${outcome.result}`);
  wake(uid);
}

function isSameHealth(a: ContainerHealth, b: ContainerHealth): boolean {
  return a.isReady === b.isReady && a.isStarted === b.isStarted && a.failedProbe === b.failedProbe;
}
