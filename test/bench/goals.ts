import type { Figure } from "./figures.ts";
import {
  FEWEST_PAIRS,
  FEWEST_SINGLES,
  judge,
  judgeTotal,
  type MedianInterval,
  medianInterval,
  mediansOfTurns,
  pairsOf,
  type Verdict,
} from "./statistics.ts";

/**
 * What a release is to reach. `ratio`, `overFloor` and `overChain` are judged by the medians of the pairs' ratios and
 * differences, `limit` by the median of Berth's samples. `total` is a number that was counted over the whole time, or the
 * largest sample, so it has no interval.
 */
export type Goal =
  | { readonly kind: "ratio"; readonly to: Baseline; readonly atMost: number }
  | { readonly kind: "overFloor" | "overChain" | "limit" | "total"; readonly atMost: number };

/** What Berth is compared with. */
type Baseline = "kubelet" | "floor" | "chain";

/** The judgement of a figure, with the interval that it rests on. */
export interface Assessment {
  readonly verdict: Verdict;
  readonly interval: MedianInterval | undefined;
  /** With so many digits after the point the numbers that were judged show why. */
  readonly digits: number;
}

const RATIO_DIGITS = 2;
const digits = { ms: 0, s: 2, MB: 1, "%": 2, B: 0, "": 0 } as const;

/** Formats a number without its unit. */
export const formatValue = (value: number, unit: Figure["unit"], after: number = digits[unit]): string =>
  value.toFixed(after);

export const withUnit = (value: number, unit: Figure["unit"]): string =>
  `${formatValue(value, unit)} ${unit}`.trimEnd();

export const formatRatio = (ratio: number, after: number = RATIO_DIGITS): string => ratio.toFixed(after);

/** Judges a figure by its goal, with all numbers as they were measured; undefined without a goal. */
export function assess(figure: Figure): Assessment | undefined {
  const { goal, berth, unit } = figure;
  if (goal === undefined || berth === undefined) return undefined;
  const interval = goal.kind === "total" ? undefined : medianInterval(judgedSamples(figure, goal, berth.samples));
  const fewest = figure.isSingle === true ? FEWEST_SINGLES : FEWEST_PAIRS;
  const verdictOf = (round: (value: number) => number): Verdict => {
    if (interval === undefined) return judgeTotal({ ...berth, value: round(berth.value) }, goal.atMost, fewest);
    return judge({ ...interval, low: round(interval.low), high: round(interval.high) }, goal.atMost, fewest);
  };
  const usual = goal.kind === "ratio" ? RATIO_DIGITS : digits[unit];
  return { verdict: verdictOf((value) => value), interval, digits: digitsOfVerdict(verdictOf, usual) };
}

/** The fewest digits after the point, `usual` ones or up to three more, with which rounded numbers have the verdict of the exact ones. */
function digitsOfVerdict(verdictOf: (round: (value: number) => number) => Verdict, usual: number): number {
  const verdict = verdictOf((value) => value);
  const agrees = (after: number) => verdictOf((value) => Number(value.toFixed(after))) === verdict;
  return [usual, usual + 1, usual + 2].find(agrees) ?? usual + 3;
}

function judgedSamples(figure: Figure, goal: Goal, berth: readonly number[]): readonly number[] {
  if (goal.kind === "limit" || goal.kind === "total") return berth;
  const { what, peer: kubelet, floor, chain } = figure;
  const other = { kubelet, floor, chain }[goal.kind === "ratio" ? goal.to : baselineOf[goal.kind]];
  if (other === undefined) throw new Error(`${what}: nothing was measured to compare with`);
  const difference = (own: number, against: number) => own - against;
  return goal.kind === "ratio" ? ratiosOf(berth, other.samples) : pairsOf(berth, other.samples, difference);
}

const baselineOf = { overFloor: "floor", overChain: "chain" } as const;

/**
 * The ratio of each pair. Where the other side has fewer samples, a sample for each turn, the median of our samples of that turn
 * is its partner. There is no ratio to 0, or to a cost that measured less than
 * nothing: it counts as the worst, so that such pairs decide nothing.
 */
export const ratiosOf = (own: readonly number[], other: readonly number[]): readonly number[] =>
  pairsOf(mediansOfTurns(own, other.length), other, (one, against) =>
    against > 0 ? one / against : Number.POSITIVE_INFINITY,
  );

/** The goal in words, after `≤`. */
export function wordsOf({ kind, atMost, ...goal }: Goal & { readonly to?: Baseline }, unit: Figure["unit"]) {
  switch (kind) {
    case "ratio":
      return `${formatRatio(atMost)} × the ${goal.to === "floor" ? "floor" : `${goal.to}'s`}`;
    case "overFloor":
    case "overChain":
      return `${baselineOf[kind]} ${atMost < 0 ? "−" : "+"} ${withUnit(Math.abs(atMost), unit)}`;
    case "limit":
    case "total":
      return `${atMost} ${unit}`.trimEnd();
  }
}
