import type { PodListing } from "../../agent/serve/local/pod-list.ts";
import { formatPods } from "../../cli/pod-table.ts";
import { columnsOf, cutEnd } from "../../cli/terminal-text.ts";

/** The output for the table: standard output, or a fake. */
export interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
}

/** Shows the table of pods, and updates it when they change. */
export interface LiveTable {
  show(listing: PodListing): void;
}

/**
 * On a terminal each table replaces the one before and fits the terminal's size. Elsewhere the tables follow one
 * another, one for each change of a row; messages below the rows change too often to be a reason for a new table. A note that
 * columns are left out names `command`, which shows them.
 */
export function createLiveTable(output: Output, command: string, now: () => number = Date.now): LiveTable {
  let lastRows: string | undefined;
  let shownLines: readonly string[] = [];
  return {
    show(listing) {
      const time = new Date(now()).toLocaleTimeString("en-GB");
      if (output.isTTY) {
        const { columns, rows } = sizeOf(output);
        const lines = fit(
          `${time}\n${formatPods(listing, { now: now(), columns, longNotes: "cut", command })}`,
          columns,
          rows,
        );
        output.write(`${cursorToStart(shownLines, columns)}${lines.join("\n")}\n`);
        shownLines = lines;
        return;
      }
      const state = stableRows(listing);
      if (state !== lastRows) output.write(`${time}\n${formatPods(listing, { now: now() })}\n`);
      lastRows = state;
    },
  };
}

/** The table without ages, which change by themselves, and without the messages of pods. */
const stableRows = ({ pods, ...rest }: PodListing) =>
  formatPods({ ...rest, pods: pods.map((pod) => ({ ...pod, message: "" })) }, { now: 0 });

/** A terminal that does not know its size reports 0. */
const sizeOf = (output: Output) => ({ columns: columnsOf(output), rows: output.rows || 24 });

/**
 * The control sequence that moves the cursor to the first shown line and clears from there. Counts lines that a narrow
 * terminal wraps.
 */
function cursorToStart(lines: readonly string[], columns: number): string {
  if (lines.length === 0) return "";
  const height = lines.reduce((sum, line) => sum + Math.max(1, Math.ceil([...line].length / columns)), 0);
  return `\r\u001b[${height}A\u001b[J`;
}

function fit(text: string, columns: number, rows: number): readonly string[] {
  const lines = text
    .trimEnd()
    .split("\n")
    .map((line) => line.replace(/\p{Cc}/gu, " "));
  // The cursor is below the last line, and cannot move up beyond the first row.
  const maxLines = Math.max(2, rows - 1);
  if (lines.length <= maxLines) return lines;
  return [...lines.slice(0, maxLines - 1), cutEnd(`… and ${lines.length - maxLines + 1} more lines`, columns)];
}
