import type { Probe } from "../../../proto/kubernetes/gen/types.ts";
import { dueAfter } from "../pod/backoff.ts";
import type { ProbeKind, ProbeState } from "./probe.ts";

/*
 * When the probe of one container instance runs. Times are epoch milliseconds.
 *
 *   start      startsAt                      + 1 period       + 2 periods
 *     |            |                             |                |
 *     '------------+-'-'-'-'--'---'-----'--------X----------------X--------- …
 *      initialDelay  early tries                 tries whose failures count
 *
 * A try that is due one or more periods after `startsAt` counts, so that a container has the whole
 * `failureThreshold × periodSeconds` of the documentation before a failure has an effect. The early tries of readiness and
 * startup only look for the first success.
 */

/** When the tries of a probe begin. */
export interface ProbeSeries {
  readonly startsAt: number;
  /** Undefined for a probe without early tries. */
  readonly firstEarlyTryAt: number | undefined;
  /** Whether an early try that did not succeed is followed by others. */
  readonly repeatsEarlyTries: boolean;
}

/** One run of a probe. */
export interface ProbeTry {
  readonly at: number;
  /** A failure of an early try has no effect. */
  readonly isEarly: boolean;
}

export interface ProbeSeriesInput {
  readonly startedAt: number;
  /** When the startup probe succeeded, or the `postStart` hook; the probe does not run before. */
  readonly notBefore: number | undefined;
  readonly now: number;
  /** `--early-probes`. Without it only one early try is made, as the kubelet does. */
  readonly earlyProbes: boolean;
}

/** The time that a process needs at least before it can answer. */
const FIRST_EARLY_TRY_MS = 100;
const MIN_DISTANCE_MS = 100;
/** Between the end of a slow early try and the next one. */
const MIN_PAUSE_MS = 50;
/** The distance between two early tries, as a share of the time since the start. */
const NETWORK_GROWTH = 0.2;
/** A command costs far more than a connection: the distance doubles. */
const EXEC_GROWTH = 1;
/**
 * Counted tries that are due within one such step run together, since a wake-up costs more than most probes. The first one
 * of a container is not delayed: it may be the one that makes it ready.
 */
const ALIGNMENT_MS = 250;

const periodMs = ({ periodSeconds }: Probe) => Math.max(1, periodSeconds ?? 10) * 1000;

export function probeSeries(
  kind: ProbeKind,
  probe: Probe,
  { startedAt, notBefore, now, earlyProbes }: ProbeSeriesInput,
): ProbeSeries {
  const delayedUntil = dueAfter(startedAt, (probe.initialDelaySeconds ?? 0) * 1000, now);
  const startsAt = Math.max(delayedUntil, notBefore ?? delayedUntil);
  // A container whose startup probe has just succeeded can answer at once.
  const firstEarlyTryAt = startsAt === notBefore ? startsAt : startsAt + FIRST_EARLY_TRY_MS;
  return {
    startsAt,
    firstEarlyTryAt: kind === "liveness" ? undefined : firstEarlyTryAt,
    repeatsEarlyTries: earlyProbes,
  };
}

/** The first try of a series, or of an agent that takes over a running container. */
export function firstTry(probe: Probe, series: ProbeSeries, state: ProbeState, now: number): ProbeTry {
  const counted = countedTryAfter(probe, series, now);
  const { firstEarlyTryAt } = series;
  if (firstEarlyTryAt === undefined || !isInFirstPeriod(probe, series, now) || hasSucceeded(state))
    return { at: counted, isEarly: false };
  return earlier(Math.max(now, firstEarlyTryAt), counted);
}

/** The try after one that started at `triedAt` and has just ended. */
export function nextTry(
  probe: Probe,
  series: ProbeSeries,
  state: ProbeState,
  { triedAt, now }: { readonly triedAt: number; readonly now: number },
): ProbeTry {
  // A counted try that became due during a slow one follows at once; if several did, only one of them does.
  const counted = Math.max(now, countedTryAfter(probe, series, Math.min(triedAt, now)));
  const hasEarlyTries = series.firstEarlyTryAt !== undefined && series.repeatsEarlyTries;
  if (!hasEarlyTries || !isInFirstPeriod(probe, series, now) || hasSucceeded(state))
    return { at: counted, isEarly: false };
  const growth = probe.exec === undefined ? NETWORK_GROWTH : EXEC_GROWTH;
  const distanceMs = Math.max(MIN_DISTANCE_MS, growth * (triedAt - series.startsAt));
  return earlier(Math.max(triedAt + distanceMs, now + MIN_PAUSE_MS), counted);
}

/** The next counted try: the whole periods after the start, moved to the next step except for the first one. */
export function countedTryAfter(probe: Probe, { startsAt }: ProbeSeries, at: number): number {
  const first = startsAt + periodMs(probe);
  if (at < first) return first;
  const alignedStart = Math.ceil(startsAt / ALIGNMENT_MS) * ALIGNMENT_MS;
  const periods = Math.max(2, Math.floor((at - alignedStart) / periodMs(probe)) + 1);
  return alignedStart + periods * periodMs(probe);
}

const isInFirstPeriod = (probe: Probe, series: ProbeSeries, now: number) =>
  now < countedTryAfter(probe, series, series.startsAt);

/** Early tries look for the first success only. */
const hasSucceeded = ({ result, lastResult }: ProbeState) => result === "success" || lastResult === "success";

const earlier = (earlyAt: number, countedAt: number): ProbeTry =>
  earlyAt < countedAt ? { at: earlyAt, isEarly: true } : { at: countedAt, isEarly: false };
