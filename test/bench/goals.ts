import type { Figure } from "./figures.ts";
import { judge, type MedianInterval, medianInterval, pairsOf, type Verdict } from "./statistics.ts";

/**
 * What a release is to reach. `ratio` and `overFloor` are judged by the medians of the pairs' ratios and differences,
 * `limit` by the median of Berth's samples. `total` is a number that was counted over the whole time, so it has no
 * interval.
 */
export type Goal =
  | { readonly kind: "ratio"; readonly to: "kubelet" | "floor"; readonly atMost: number }
  | { readonly kind: "overFloor" | "limit" | "total"; readonly atMost: number };

/** The judgement of a figure, with the interval that it rests on. */
export interface Assessment {
  readonly verdict: Verdict;
  readonly interval: MedianInterval | undefined;
}

const digits = { ms: 0, s: 2, MB: 1, "%": 2, B: 0, "": 0 } as const;

/** Formats a number without its unit. */
export const formatValue = (value: number, unit: Figure["unit"]): string => value.toFixed(digits[unit]);

export const withUnit = (value: number, unit: Figure["unit"]): string =>
  `${formatValue(value, unit)} ${unit}`.trimEnd();

export const formatRatio = (ratio: number): string => ratio.toFixed(2);

/** Judges a figure by its goal, with all numbers rounded as the table shows them; undefined without a goal. */
export function assess(figure: Figure): Assessment | undefined {
  const { goal, berth, unit } = figure;
  if (goal === undefined || berth === undefined) return undefined;
  const round = goal.kind === "ratio" ? formatRatio : (value: number) => formatValue(value, unit);
  const rounded = (value: number) => Number(round(value));
  if (goal.kind === "total") {
    const isReached = rounded(berth.value) <= goal.atMost;
    return { verdict: isReached ? "reached" : "missed", interval: undefined };
  }
  const interval = medianInterval(judgedSamples(figure, goal, berth.samples));
  const shown = { ...interval, low: rounded(interval.low), high: rounded(interval.high) };
  return { verdict: judge(shown, rounded(goal.atMost)), interval };
}

function judgedSamples({ what, peer, floor }: Figure, goal: Goal, berth: readonly number[]): readonly number[] {
  if (goal.kind === "limit" || goal.kind === "total") return berth;
  const other = goal.kind === "ratio" && goal.to === "kubelet" ? peer : floor;
  if (other === undefined) throw new Error(`${what}: nothing was measured to compare with`);
  const difference = (own: number, against: number) => own - against;
  return goal.kind === "overFloor" ? pairsOf(berth, other.samples, difference) : ratiosOf(berth, other.samples);
}

/**
 * The ratio of each pair. There is none to 0, or to a cost that measured less than nothing: it counts as the worst, so
 * that such pairs decide nothing.
 */
export const ratiosOf = (own: readonly number[], other: readonly number[]): readonly number[] =>
  pairsOf(own, other, (one, against) => (against > 0 ? one / against : Number.POSITIVE_INFINITY));

/** The goal in words, after `≤`. */
export function wordsOf({ kind, atMost, ...goal }: Goal & { readonly to?: "kubelet" | "floor" }, unit: Figure["unit"]) {
  switch (kind) {
    case "ratio":
      return `${formatRatio(atMost)} × the ${goal.to === "floor" ? "floor" : "kubelet's"}`;
    case "overFloor":
      return `floor + ${withUnit(atMost, unit)}`;
    case "limit":
    case "total":
      return `${atMost} ${unit}`.trimEnd();
  }
}
