import { type Figure, inUnit, isReached } from "./figures.ts";
import type { Measured } from "./statistics.ts";

/** A table: beside the floor, beside the kubelet, and what has to do with probes, beside the kubelet too. */
export type Part = "floor" | "kubelet" | "probes";

const besideKubelet = ["what", "floor", "kubelet", "berth", "against the kubelet", "to reach", ""];

const headers: Readonly<Record<Part, readonly string[]>> = {
  floor: ["what", "floor", "berth", "against the floor", "to reach", ""],
  kubelet: besideKubelet,
  probes: besideKubelet,
};

/** The figures for a terminal, with the lowest and highest sample behind each value that was made of several. */
export function textTable(figures: readonly Figure[], part: Part): string {
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

/** The same for a README, values alone. */
export function markdownTable(figures: readonly Figure[], part: Part): string {
  const header = headers[part];
  const rows = figures.map((figure) => cellsOf(figure, part, plain));
  return [header, header.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

type Show = (measured: Measured | undefined, unit: Figure["unit"]) => string;

function cellsOf(figure: Figure, part: Part, show: Show): readonly string[] {
  const { what, unit, floor, peer, berth, target } = figure;
  const verdicts = new Map([
    [true, "reached"],
    [false, "missed"],
  ]);
  const reached = isReached(figure);
  const other = part === "floor" ? floor : peer;
  return [
    what,
    show(floor, unit),
    ...(part === "floor" ? [] : [show(peer, unit)]),
    show(berth, unit),
    other === undefined || berth === undefined ? "" : against(berth.value, other.value, unit),
    target === undefined ? "" : `≤ ${target.words}`,
    reached === undefined ? "" : (verdicts.get(reached) ?? ""),
  ];
}

const inWords = (value: number, unit: Figure["unit"]) => `${inUnit(value, unit)} ${unit}`.trimEnd();

const plain: Show = (measured, unit) => (measured === undefined ? "" : inWords(measured.value, unit));

const withRange: Show = (measured, unit) => {
  if (measured === undefined || measured.samples.length < 2) return plain(measured, unit);
  return `${plain(measured, unit)} (${inUnit(measured.low, unit)}–${inUnit(measured.high, unit)})`;
};

/** `+12 ms, 1.09 ×`; of nothing there is no multiple. */
function against(value: number, other: number, unit: Figure["unit"]): string {
  const difference = `${value < other ? "−" : "+"}${inWords(Math.abs(value - other), unit)}`;
  return other === 0 ? difference : `${difference}, ${(value / other).toFixed(2)} ×`;
}
