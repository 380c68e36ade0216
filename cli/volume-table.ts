import type { VolumeListing } from "../agent/serve/local/volume-list.ts";
import { escapeControlChars } from "../host/log/escape-control.ts";
import { sizeText } from "../proto/size-text.ts";
import { fitColumns } from "./columns.ts";
import { hangingLines, hiddenNote } from "./terminal-text.ts";

const HEADER = ["NAMESPACE", "POD", "VOLUME", "KIND", "USED", "AVAILABLE", "CAPACITY", "LIMIT", "INODES"];

/**
 * The text of `berth pods --volumes`: a table of the volumes, then why some have no figures. `columns`: the width of the
 * terminal; infinite for a file or a pipe. `command`: the `berth pods` that a note repeats.
 */
export function formatVolumes(
  { pods }: VolumeListing,
  columns = Number.POSITIVE_INFINITY,
  command = "berth pods",
): string {
  const rows = pods.flatMap(({ namespace, name, volumes }) =>
    volumes.map(({ name: volume, kind, claim, ...stats }) => [
      namespace,
      name,
      volume,
      claim === undefined ? kind : `${kind}/${claim}`,
      sizeOf(stats.usedBytes),
      sizeOf(stats.availableBytes),
      sizeOf(stats.capacityBytes),
      sizeOf(stats.limitBytes),
      stats.inodesUsed === undefined ? "-" : String(stats.inodesUsed),
    ]),
  );
  if (rows.length === 0) return "no volumes\n";
  const problems = pods.flatMap(({ name, volumes }) =>
    volumes.flatMap((volume) => (volume.problem === undefined ? [] : [`${name}: ${volume.name}: ${volume.problem}`])),
  );
  const isOneNamespace = new Set(rows.map(([namespace]) => namespace)).size === 1;
  const optional = [...(isOneNamespace ? ["NAMESPACE"] : []), "CAPACITY", "LIMIT"];
  const { lines, hidden } = fitColumns([HEADER, ...rows], { columns, optional, shortened: "POD" });
  const notes = [problems, hidden.length === 0 ? [] : [hiddenNote(hidden, columns, `${command} --volumes`)]]
    .filter((block) => block.length > 0)
    .flatMap((block) => ["", ...block.flatMap((note) => hangingLines("", escapeControlChars(note), columns))]);
  return `${[...lines.map(escapeControlChars), ...notes].join("\n")}\n`;
}

const sizeOf = (bytes: number | undefined) => (bytes === undefined ? "-" : sizeText(bytes));
