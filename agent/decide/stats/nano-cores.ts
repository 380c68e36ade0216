/** CPU time used up to a moment: nanoseconds, and milliseconds since the epoch. */
export interface CpuMoment {
  readonly atMs: number;
  readonly usageNs: number;
}

/** Two readings are good for a rate if at least a second and at most a minute lies between them. */
export const RATE_MS = { min: 1_000, max: 60_000 } as const;

/**
 * Nanoseconds of CPU time in a second of time between two readings. Undefined if they are too near or too far from each
 * other, or the counter went back: the cgroup was made again.
 */
export function nanoCoresBetween(earlier: CpuMoment | undefined, later: CpuMoment): number | undefined {
  if (earlier === undefined || later.usageNs < earlier.usageNs) return undefined;
  const passedMs = later.atMs - earlier.atMs;
  if (passedMs < RATE_MS.min || passedMs > RATE_MS.max) return undefined;
  return Math.round(((later.usageNs - earlier.usageNs) / passedMs) * 1000);
}
