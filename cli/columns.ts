import { cutEnd, cutMiddle } from "./terminal-text.ts";

/** How a table of too many columns fits a terminal; the columns are named by their headings. */
export interface TableFit {
  /** The width of the terminal; infinite for a file or a pipe, where nothing is left out. */
  readonly columns: number;
  /** The columns that may be left out, the first one first. */
  readonly optional: readonly string[];
  /** The column whose cells are cut in the middle, if the others alone are too wide. */
  readonly shortened: string;
}

export interface FittedTable {
  readonly lines: readonly string[];
  /** The headings of the columns that were left out. */
  readonly hidden: readonly string[];
}

type Rows = readonly (readonly string[])[];

const GAP = "  ";
/** Cells of the last column that are cut say little if they are shorter than this. */
const MIN_LAST_WIDTH = 20;
const MIN_SHORTENED_WIDTH = 8;

/** The rows of a table as lines, each column as wide as its widest cell. The first row is the header. */
function alignColumns(rows: Rows): readonly string[] {
  const widths = widthsOf(rows);
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(GAP)
      .trimEnd(),
  );
}

/**
 * The same for a terminal: the last column is cut at its end, then columns are left out, then one is shortened, so that no
 * line wraps.
 */
export function fitColumns(rows: Rows, { columns, optional, shortened }: TableFit): FittedTable {
  const hidden: string[] = [];
  let shown = rows;
  const missing = () => tableWidth(shown) - columns;
  const header = rows[0] ?? [];
  for (const heading of [header.at(-1) ?? "", ...optional]) {
    const isLast = heading === header.at(-1);
    const lastWidth = widthsOf(shown).at(-1) ?? 0;
    if (missing() <= 0 || (isLast && lastWidth - missing() >= MIN_LAST_WIDTH)) break;
    shown = without(shown, heading);
    hidden.push(heading);
  }
  if (missing() > 0 && hidden.length > 0) shown = shorten(shown, shortened, missing());
  return { lines: alignColumns(shown).map((line) => cutEnd(line, columns)), hidden };
}

function widthsOf(rows: Rows): readonly number[] {
  const [header = []] = rows;
  return header.map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
}

const tableWidth = (rows: Rows) => widthsOf(rows).reduce((sum, width) => sum + width + GAP.length, -GAP.length);

function without(rows: Rows, heading: string): Rows {
  const column = rows[0]?.indexOf(heading) ?? -1;
  return rows.map((row) => row.filter((_, index) => index !== column));
}

function shorten(rows: Rows, heading: string, by: number): Rows {
  const column = rows[0]?.indexOf(heading) ?? -1;
  const width = Math.max(MIN_SHORTENED_WIDTH, (widthsOf(rows)[column] ?? 0) - by);
  return rows.map((row) => row.map((cell, index) => (index === column ? cutMiddle(cell, width) : cell)));
}
