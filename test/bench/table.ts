import { type Figure, inUnit, isReached } from "./figures.ts";
import type { Measured } from "./statistics.ts";

const HEADER = ["what", "floor", "berth", "against the floor", "to reach", ""];

/** The figures for a terminal, with the lowest and highest sample behind each value that was made of several. */
export function textTable(figures: readonly Figure[]): string {
  const rows = [HEADER, ...figures.map((figure) => cellsOf(figure, withRange))];
  const widths = HEADER.map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  const lineOf = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd();
  return rows.map(lineOf).join("\n");
}

/** The same for a README, values alone. */
export function markdownTable(figures: readonly Figure[]): string {
  const rows = figures.map((figure) => cellsOf(figure, plain));
  return [HEADER, HEADER.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

type Show = (measured: Measured | undefined, unit: Figure["unit"]) => string;

function cellsOf(figure: Figure, show: Show): readonly string[] {
  const { what, unit, floor, berth, target } = figure;
  const verdicts = new Map([
    [true, "reached"],
    [false, "missed"],
  ]);
  const reached = isReached(figure);
  return [
    what,
    show(floor, unit),
    show(berth, unit),
    floor === undefined || berth === undefined ? "" : against(berth.value, floor.value, unit),
    target === undefined ? "" : `≤ ${target.words}`,
    reached === undefined ? "" : (verdicts.get(reached) ?? ""),
  ];
}

const plain: Show = (measured, unit) => (measured === undefined ? "" : `${inUnit(measured.value, unit)} ${unit}`);

const withRange: Show = (measured, unit) => {
  if (measured === undefined || measured.samples.length < 2) return plain(measured, unit);
  return `${plain(measured, unit)} (${inUnit(measured.low, unit)}–${inUnit(measured.high, unit)})`;
};

/** `+12 ms, 1.09 ×` */
function against(value: number, floor: number, unit: Figure["unit"]): string {
  const difference = inUnit(Math.abs(value - floor), unit);
  return `${value < floor ? "−" : "+"}${difference} ${unit}, ${(value / floor).toFixed(2)} ×`;
}
