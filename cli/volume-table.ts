import type { VolumeListing } from "../agent/serve/local/volume-list.ts";
import { escapeControlChars } from "../host/log/escape-control.ts";
import { alignColumns } from "./columns.ts";
import { sizeText } from "./doctor/size.ts";

const HEADER = ["NAMESPACE", "POD", "VOLUME", "KIND", "USED", "AVAILABLE", "CAPACITY", "LIMIT", "INODES"];

/** The text of `berth pods --volumes`: a table of the volumes, then why some have no figures. */
export function formatVolumes({ pods }: VolumeListing): string {
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
  const lines = [...alignColumns([HEADER, ...rows]), ...(problems.length === 0 ? [] : ["", ...problems])];
  return `${lines.map(escapeControlChars).join("\n")}\n`;
}

const sizeOf = (bytes: number | undefined) => (bytes === undefined ? "-" : sizeText(bytes));
