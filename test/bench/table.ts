import { type Figure, formatValue, isTargetReached } from "./figures.ts";
import type { Measured } from "./statistics.ts";

/** One of the tables: compared with the floor, compared with the kubelet, and two with one matter each of the latter. */
export type BenchPart = "floor" | "kubelet" | "probes" | "starts";

const kubeletHeader = ["what", "floor", "kubelet", "berth", "against the kubelet", "to reach", ""];

const headers: Readonly<Record<BenchPart, readonly string[]>> = {
  floor: ["what", "floor", "berth", "against the floor", "to reach", ""],
  kubelet: kubeletHeader,
  probes: kubeletHeader,
  starts: kubeletHeader,
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
  const { what, unit, floor, peer, berth, target } = figure;
  const verdicts = new Map([
    [true, "reached"],
    [false, "missed"],
  ]);
  const reached = isTargetReached(figure);
  const other = part === "floor" ? floor : peer;
  return [
    what,
    show(floor, unit),
    ...(part === "floor" ? [] : [show(peer, unit)]),
    show(berth, unit),
    other === undefined || berth === undefined ? "" : compareWith(berth.value, other.value, unit),
    target === undefined ? "" : `≤ ${target.words}`,
    reached === undefined ? "" : (verdicts.get(reached) ?? ""),
  ];
}

const withUnit = (value: number, unit: Figure["unit"]) => `${formatValue(value, unit)} ${unit}`.trimEnd();

const plain: FormatMeasured = (measured, unit) => (measured === undefined ? "" : withUnit(measured.value, unit));

const withRange: FormatMeasured = (measured, unit) => {
  if (measured === undefined || measured.samples.length < 2) return plain(measured, unit);
  return `${plain(measured, unit)} (${formatValue(measured.low, unit)}–${formatValue(measured.high, unit)})`;
};

/** The difference and the ratio: `+12 ms, 1.09 ×`. There is no ratio to 0. */
function compareWith(value: number, other: number, unit: Figure["unit"]): string {
  const difference = `${value < other ? "−" : "+"}${withUnit(Math.abs(value - other), unit)}`;
  return other === 0 ? difference : `${difference}, ${(value / other).toFixed(2)} ×`;
}
