import type { Figure } from "./figures.ts";
import { assess, formatRatio, formatValue, ratiosOf, withUnit, wordsOf } from "./goals.ts";
import { FEWEST_PAIRS, type Measured, type MedianInterval, medianInterval } from "./statistics.ts";

/** One of the tables: compared with the floor, compared with the kubelet, and six with one matter each of the latter. */
export type BenchPart = "floor" | "kubelet" | "own-share" | "probes" | "starts" | "volumes" | "api" | "network";

const kubeletHeader = ["what", "floor", "kubelet", "berth", "against the kubelet", "n", "goal", ""];

const headers: Readonly<Record<BenchPart, readonly string[]>> = {
  floor: ["what", "floor", "berth", "against the floor", "n", "goal", ""],
  kubelet: kubeletHeader,
  "own-share": kubeletHeader,
  probes: kubeletHeader,
  starts: kubeletHeader,
  volumes: kubeletHeader,
  api: kubeletHeader,
  network: ["what", "floor", "kubelet", "chain", "built-in", "against the kubelet", "n", "goal", ""],
};

/** The table for a terminal, with the lowest and highest sample after each value that has several samples. */
export function textTable(figures: readonly Figure[], part: BenchPart): string {
  const header = headers[part];
  const rows = [header, ...figures.map((figure) => cellsOf(figure, part, withRange))];
  const widths = header.map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  const lineOf = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  return rows.map(lineOf).join("\n");
}

/** The figures as a Markdown table, without the ranges. */
export function markdownTable(figures: readonly Figure[], part: BenchPart): string {
  const header = headers[part];
  const rows = figures.map((figure) => cellsOf(figure, part, plain));
  return [header, header.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

type FormatMeasured = (measured: Measured | undefined, unit: Figure["unit"]) => string;

function cellsOf(figure: Figure, part: BenchPart, show: FormatMeasured): readonly string[] {
  const { what, unit, floor, peer, chain, berth, goal } = figure;
  return [
    what,
    show(floor, unit),
    ...(part === "floor" ? [] : [show(peer, unit)]),
    ...(part === "network" ? [show(chain, unit)] : []),
    show(berth, unit),
    comparisonOf(figure, part),
    countOf(figure),
    goal === undefined ? "" : `≤ ${wordsOf(goal, unit)}`,
    verdictOf(figure),
  ];
}

/** The number of samples, and of those of a side that has fewer or more. */
function countOf({ floor, peer, berth }: Figure): string {
  const count = (berth ?? peer ?? floor)?.samples.length ?? 0;
  const others = Object.entries({ floor, kubelet: peer }).flatMap(([side, measured]) =>
    measured === undefined || measured.samples.length === count ? [] : [`${side}: ${measured.samples.length}`],
  );
  return [`${count}`, ...(others.length === 0 ? [] : [`(${others.join(", ")})`])].join(" ");
}

const plain: FormatMeasured = (measured, unit) => {
  if (measured === undefined) return "";
  // The cost of probes is the difference of two measurements.
  return measured.value < 0 && unit === "%" ? "below what can be measured" : withUnit(measured.value, unit);
};

const withRange: FormatMeasured = (measured, unit) => {
  if (measured === undefined || measured.samples.length < 2) return plain(measured, unit);
  return `${plain(measured, unit)} (${formatValue(measured.low, unit)}–${formatValue(measured.high, unit)})`;
};

/**
 * The median of the pairs' ratios with its interval; of tails and of what was counted, the ratio of the two values. Fewer than
 * five samples have no ratio, nor have numbers that were not counted equally often, nor pairs of which one is not above 0.
 */
function comparisonOf(figure: Figure, part: BenchPart): string {
  const { floor, peer, berth, isTail, isCount, goal } = figure;
  const other = part === "floor" ? floor : peer;
  if (berth === undefined || other === undefined) return "";
  const isCounted = isCount === true || goal?.kind === "total";
  if (isCounted && berth.samples.length !== other.samples.length) return "";
  if (Math.min(berth.samples.length, other.samples.length) < FEWEST_PAIRS) return "";
  if (isCounted || isTail === true)
    return other.value <= 0 || berth.value < 0 ? "" : `${formatRatio(berth.value / other.value)} ×`;
  if (other.samples.some((one) => one <= 0)) return "";
  const interval = medianInterval(ratiosOf(berth.samples, other.samples));
  const after = isJudgedInComparison(figure) ? assess(figure)?.digits : undefined;
  if (interval.median < 0) return `at most ${formatRatio(interval.high, after)} ×`;
  return `${withInterval(interval, (ratio) => formatRatio(ratio, after))} ×`;
}

/** Whether the verdict is that on the interval of the column before. */
const isJudgedInComparison = ({ goal }: Figure): boolean => goal?.kind === "ratio" && goal.to === "kubelet";

const withInterval = ({ median, low, high }: MedianInterval, format: (value: number) => string): string =>
  `${format(median)} (${format(low)}–${format(high)})`;

/** The verdict; with the interval that it rests on, unless the comparison shows that already. */
function verdictOf(figure: Figure): string {
  const assessment = assess(figure);
  if (assessment === undefined) return "";
  const { verdict, interval, digits } = assessment;
  const { goal, unit, berth } = figure;
  const isRatio = goal?.kind === "ratio";
  const format = (value: number) => (isRatio ? formatRatio(value, digits) : formatValue(value, unit, digits));
  if (interval === undefined) {
    const exact = format(berth?.value ?? Number.NaN);
    return exact === formatValue(berth?.value ?? Number.NaN, unit) ? verdict : `${verdict}: ${exact} ${unit}`.trimEnd();
  }
  if (isJudgedInComparison(figure) || interval.count < 2) return verdict;
  return `${verdict}: ${withInterval(interval, format)} ${isRatio ? "×" : unit}`.trimEnd();
}
