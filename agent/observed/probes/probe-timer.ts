import type { ProberState, ProbeSchedule } from "./prober-state.ts";

/** Sets the timer to the probe that is due first. Scans all probes, which may be many. */
export function setTimerToNext(prober: ProberState): void {
  let at: number | undefined;
  for (const { next } of allSchedules(prober))
    if (next !== undefined && next.at < (at ?? Number.POSITIVE_INFINITY)) at = next.at;
  setTimer(prober, at);
}

/** Sets the timer after only this due time was added. */
export function setTimerBy(prober: ProberState, dueAt: number | undefined): void {
  if (dueAt !== undefined && dueAt < (prober.timer?.at ?? Number.POSITIVE_INFINITY)) setTimer(prober, dueAt);
}

function setTimer(prober: ProberState, dueAt: number | undefined): void {
  const at = prober.isStopped ? undefined : dueAt;
  if (at === prober.timer?.at) return;
  prober.timer?.cancel();
  prober.timer = at === undefined ? undefined : { at, cancel: prober.clock.wakeAt(at, () => prober.onTimer(at)) };
}

function* allSchedules({ pods }: ProberState): Generator<ProbeSchedule> {
  for (const ofPod of pods.values()) for (const { schedules } of ofPod.values()) yield* schedules.values();
}

/** Moves all times back with a clock that was set back: otherwise no probe would run for that long. */
export function adjustToClock(prober: ProberState, now: number): void {
  const backMs = prober.latestTime - now;
  prober.latestTime = now;
  if (backMs <= 0) return;
  for (const schedule of allSchedules(prober)) {
    const { series, next } = schedule;
    if (next !== undefined) schedule.next = { ...next, at: next.at - backMs };
    if (series !== undefined) schedule.series = { ...series, startsAt: series.startsAt - backMs };
  }
  setTimerToNext(prober);
}
