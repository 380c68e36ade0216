import type { PodListing } from "../../agent/serve/local/pod-list.ts";
import { podTable } from "../../cli/pod-table.ts";

/** Where a table is shown: standard output, or a fake. */
export interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
}

/** Shows pods, and shows them again when they have changed. */
export interface Screen {
  show(listing: PodListing): void;
}

/**
 * On a terminal each table takes the place of the one before and keeps to the terminal's size; elsewhere they follow one
 * another, one for each change of a row: the words below the rows change with every try.
 */
export function createScreen(output: Output, now: () => number = Date.now): Screen {
  let before: string | undefined;
  let shown: readonly string[] = [];
  return {
    show(listing) {
      const text = `${new Date(now()).toLocaleTimeString("en-GB")}\n${podTable(listing, now())}`;
      if (output.isTTY) {
        const { columns, rows } = sizeOf(output);
        const lines = fit(text, columns, rows);
        output.write(`${backOver(shown, columns)}${lines.join("\n")}\n`);
        shown = lines;
        return;
      }
      const state = rowsOf(listing);
      if (state !== before) output.write(`${text}\n`);
      before = state;
    },
  };
}

/** The table without ages, which change by themselves, and without what is said of single pods. */
const rowsOf = ({ pods, ...rest }: PodListing) =>
  podTable({ ...rest, pods: pods.map((pod) => ({ ...pod, message: "" })) }, 0);

/** A terminal that does not know its size says 0. */
const sizeOf = ({ columns, rows }: Output) => ({ columns: columns || 80, rows: rows || 24 });

/** Brings the cursor to the beginning of what was shown and clears from there on. A narrower terminal has wrapped it. */
function backOver(lines: readonly string[], columns: number): string {
  if (lines.length === 0) return "";
  const height = lines.reduce((sum, line) => sum + Math.max(1, Math.ceil([...line].length / columns)), 0);
  return `\r\u001b[${height}A\u001b[J`;
}

function fit(text: string, columns: number, rows: number): readonly string[] {
  const all = text.trimEnd().split("\n");
  const notesBegin = all.indexOf("");
  const lines = all.map((line, at) =>
    cut(line.replace(/\p{Cc}/gu, " "), columns, notesBegin >= 0 && at > notesBegin ? "middle" : "end"),
  );
  // The cursor stands below the last line, and cannot go back beyond the first row.
  const room = Math.max(2, rows - 1);
  if (lines.length <= room) return lines;
  return [...lines.slice(0, room - 1), cut(`… and ${lines.length - room + 1} more lines`, columns, "end")];
}

/** A row ends with what matters least, a note with the cause of all that it says before. */
function cut(line: string, columns: number, where: "middle" | "end"): string {
  const characters = [...line];
  if (characters.length <= columns) return line;
  const tail = where === "end" ? 0 : Math.floor((columns - 1) / 2);
  return [...characters.slice(0, columns - 1 - tail), "…", ...characters.slice(characters.length - tail)].join("");
}
