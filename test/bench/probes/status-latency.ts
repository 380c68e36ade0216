/** A new word on one of several pods, in the order of time; of each pod the first has the number 1. Times in milliseconds. */
export interface StatusChange {
  readonly pod: string;
  readonly at: number;
}

/** The API has shown a word on a pod, and with it all those before. */
export interface StatusSighting extends StatusChange {
  readonly number: number;
}

/** How long the oldest change that the API did not show yet had waited at each of the given times; 0 where none was waiting. */
export function oldestUntold(
  changes: readonly StatusChange[],
  sightings: readonly StatusSighting[],
  times: readonly number[],
): readonly number[] {
  const [changesOf, sightingsOf] = [byPod(changes), byPod(sightings)];
  return times.map((time) => {
    const ages = [...changesOf].map(([pod, all]) => {
      const shown = (sightingsOf.get(pod) ?? []).filter(({ at }) => at <= time).map(({ number }) => number);
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

/** Times `everyMs` apart from the first change to the last. */
export function timesOf(changes: readonly StatusChange[], everyMs: number): readonly number[] {
  const [from, until] = [changes[0]?.at ?? 0, changes.at(-1)?.at ?? 0];
  return Array.from({ length: Math.floor((until - from) / everyMs) }, (_, at) => from + (at + 1) * everyMs);
}
