import { seededRandom } from "../random.ts";

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

/** A median with the interval that contains it in 90 % of resamplings. */
export interface MedianInterval {
  readonly median: number;
  readonly low: number;
  readonly high: number;
  /** The number of samples. */
  readonly count: number;
}

const RESAMPLINGS = 5_000;
/** Any number: the same samples always have the same interval. */
const SEED = 1_363_007;

/**
 * The median and its 90 % interval by the bootstrap: the medians of as many samples drawn at random with replacement,
 * from the 5th to the 95th of a hundred. With five samples it reaches from the lowest to the highest.
 */
export function medianInterval(samples: readonly number[]): MedianInterval {
  const random = seededRandom(SEED);
  const sorted = samples.toSorted((a, b) => a - b);
  const drawn = new Uint32Array(sorted.length);
  const half = sorted.length / 2;
  const medians = Array.from({ length: RESAMPLINGS }, () => {
    for (let at = 0; at < drawn.length; at++) drawn[at] = Math.floor(random() * sorted.length);
    drawn.sort();
    const middle = [drawn[Math.ceil(half) - 1], drawn[Math.floor(half)]].map((at = 0) => sorted[at] ?? Number.NaN);
    return median(middle);
  });
  const [low, high] = [percentile(medians, 0.05), percentile(medians, 0.95)];
  return { median: median(samples), low, high, count: samples.length };
}

/** The samples of both sides, pair by pair. Throws unless each sample has its partner. */
export function pairsOf<T>(
  own: readonly number[],
  other: readonly number[],
  combine: (own: number, other: number) => T,
): readonly T[] {
  if (own.length !== other.length) throw new Error(`${own.length} samples have ${other.length} partners`);
  return own.map((value, at) => combine(value, other[at] ?? Number.NaN));
}

/**
 * The median of the samples of each turn, of which each has equally many, one after the other. Throws unless the number of
 * samples is a multiple of `turns`.
 */
export function mediansOfTurns(samples: readonly number[], turns: number): readonly number[] {
  const perTurn = samples.length / turns;
  if (!Number.isInteger(perTurn)) throw new Error(`${samples.length} samples are not those of ${turns} turns`);
  if (perTurn === 1) return samples;
  return Array.from({ length: turns }, (_, turn) => median(samples.slice(turn * perTurn, (turn + 1) * perTurn)));
}

/** A smaller number of pairs decides nothing. */
export const FEWEST_PAIRS = 5;
/** Of what happens once in a sample, such as the start of one pod, a smaller number does not show that a goal is reached. */
export const FEWEST_SINGLES = 60;
/** A tail, such as the 90th percentile, needs that many samples. */
export const FEWEST_SAMPLES_OF_TAIL = 200;

export type Verdict = "reached" | "missed" | "not decided";

/**
 * Judges a median by its whole interval: one that contains the goal decides nothing, and neither do fewer than five samples. A
 * goal is reached with `fewest` samples or more.
 */
export function judge({ low, high, count }: MedianInterval, atMost: number, fewest: number = FEWEST_PAIRS): Verdict {
  if (count < FEWEST_PAIRS) return "not decided";
  if (low > atMost) return "missed";
  return high <= atMost && count >= fewest ? "reached" : "not decided";
}

/** Judges a number that was counted, or the largest sample: it has no interval, but needs as many samples to reach a goal. */
export function judgeTotal({ value, samples }: Measured, atMost: number, fewest: number = FEWEST_PAIRS): Verdict {
  if (value > atMost) return "missed";
  return samples.length >= fewest ? "reached" : "not decided";
}

/** A percentile of all samples. */
export const percentileOf = (samples: readonly number[], share: number): Measured =>
  measured(percentile(samples, share), samples);

/** The median of the rounds' values. */
export const medianOf = (rounds: readonly number[]): Measured => measured(median(rounds), rounds);

/** The mean of all samples. */
export const meanOf = (samples: readonly number[]): Measured =>
  measured(samples.reduce((sum, sample) => sum + sample, 0) / samples.length, samples);

/** The sum of all samples. */
export const sumOf = (samples: readonly number[]): Measured =>
  measured(
    samples.reduce((sum, sample) => sum + sample, 0),
    samples,
  );

/** The largest sample. */
export const mostOf = (samples: readonly number[]): Measured => percentileOf(samples, 1);

export function measured(value: number, samples: readonly number[]): Measured {
  return { value, low: Math.min(...samples), high: Math.max(...samples), samples };
}
