/**
 * A status change of one of several pods, in chronological order. Each pod's first change has the number 1. Times in
 * milliseconds.
 */
export interface StatusChange {
  readonly pod: string;
  readonly at: number;
}

/** The API has shown a pod's status change with this number, and so all earlier ones. */
export interface ReportedChange extends StatusChange {
  readonly number: number;
}

/** The age of the oldest change that the API has not shown, at each of the given times; 0 if it has shown all. */
export function oldestUnreportedAges(
  changes: readonly StatusChange[],
  reported: readonly ReportedChange[],
  times: readonly number[],
): readonly number[] {
  const [changesOf, reportedOf] = [byPod(changes), byPod(reported)];
  return times.map((time) => {
    const ages = [...changesOf].map(([pod, all]) => {
      const shown = (reportedOf.get(pod) ?? []).filter(({ at }) => at <= time).map(({ number }) => number);
      const oldest = all[Math.max(0, ...shown)];
      return oldest === undefined ? 0 : Math.max(0, time - oldest.at);
    });
    return Math.max(0, ...ages);
  });
}

function byPod<T extends StatusChange>(all: readonly T[]): ReadonlyMap<string, readonly T[]> {
  const pods = new Map<string, T[]>();
  for (const one of all) {
    const known = pods.get(one.pod);
    if (known === undefined) pods.set(one.pod, [one]);
    else known.push(one);
  }
  return pods;
}

/** Times in steps of `everyMs` from the first change to the last. */
export function sampleTimes(changes: readonly StatusChange[], everyMs: number): readonly number[] {
  const [from, until] = [changes[0]?.at ?? 0, changes.at(-1)?.at ?? 0];
  return Array.from({ length: Math.floor((until - from) / everyMs) }, (_, at) => from + (at + 1) * everyMs);
}
