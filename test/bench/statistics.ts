/** One measured value, with the lowest and the highest of its samples. */
export interface Measured {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  /** All samples in the order of their measurement. */
  readonly samples: readonly number[];
}

/** The sample that `share` (0 to 1) of all samples do not exceed: always one of the samples. */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = samples.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** The middle sample, or the mean of the two in the middle. */
export function median(samples: readonly number[]): number {
  const sorted = samples.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  return ((sorted[Math.ceil(half) - 1] ?? Number.NaN) + (sorted[Math.floor(half)] ?? Number.NaN)) / 2;
}

/** A percentile of all samples. */
export const percentileOf = (samples: readonly number[], share: number): Measured =>
  measured(percentile(samples, share), samples);

/** The median of the rounds' values. */
export const medianOf = (rounds: readonly number[]): Measured => measured(median(rounds), rounds);

/** The mean of all samples. */
export const meanOf = (samples: readonly number[]): Measured =>
  measured(samples.reduce((sum, sample) => sum + sample, 0) / samples.length, samples);

function measured(value: number, samples: readonly number[]): Measured {
  return { value, low: Math.min(...samples), high: Math.max(...samples), samples };
}
