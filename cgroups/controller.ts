import type { CgroupLimits, Limit } from "../proto/cgroup/limits.ts";
import type { CgroupStats } from "../proto/cgroup/stats.ts";
import { ownCgroupError } from "./error.ts";

/** The content of a file of one cgroup by its name; undefined if the cgroup has no such file. */
export type ReadFile = (file: string) => string | undefined;

/** A limit in its file. */
export interface LimitFile {
  readonly file: string;
  /** The text as the kernel shows it, so that it can be compared with the file. */
  readonly value: string;
  /** Where the kernel has no such file, the limit is in effect anyway. */
  readonly isOptional?: boolean;
}

/** What the kernel counts in. */
export interface PageSizes {
  /** A page of memory, in bytes. */
  readonly pageBytes: number;
  /** The kernel's huge page sizes, in bytes. */
  readonly hugePageSizes: readonly number[];
}

/** One controller of cgroup v2: its limits in the words of its files, read back, and its stats. */
export interface Controller {
  limitFiles(limits: CgroupLimits, sizes: PageSizes): readonly LimitFile[];
  /** The limits that the files hold; a file that is missing is a field that is missing. */
  limits(read: ReadFile, sizes: PageSizes): CgroupLimits;
  stats(read: ReadFile, sizes: PageSizes): CgroupStats;
}

/** The kernel counts pages in 63 bits. */
const MAX_COUNTED_BYTES = 2n ** 63n - 1n;

/**
 * A limit in bytes as the kernel shows it: rounded down to whole pages of `unitBytes`, `max` for more than it can count.
 * A number of JavaScript would lose digits in its text.
 */
export function bytesText(limit: Limit, unitBytes: number): string {
  if (limit === "max" || limit >= Number(MAX_COUNTED_BYTES)) return "max";
  const unit = BigInt(unitBytes);
  const units = BigInt(Math.floor(limit)) / unit;
  return units >= MAX_COUNTED_BYTES / unit ? "max" : String(units * unit);
}

/** The limit that a file holds, from its text. */
export function parseLimit(file: string, text: string): Limit {
  return text === "max" ? "max" : parseCount(file, text);
}

/** A number of a file. Throws `EPARSE` for any other text. */
export function parseCount(file: string, text: string): number {
  const count = /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isNaN(count)) throw unreadable(file, text, "a number");
  return count;
}

export function unreadable(file: string, text: string, expected: string) {
  const shown = JSON.stringify(text.slice(0, 200));
  return ownCgroupError("EPARSE", file, text, `${file} of a cgroup holds ${shown}, which is not ${expected}`);
}

/** The number that a file holds; undefined if there is no such file. Throws `EPARSE` for any other text. */
export function readCount(read: ReadFile, file: string): number | undefined {
  const text = read(file);
  return text === undefined ? undefined : parseCount(file, text);
}

/**
 * The numbers of a flat keyed file such as `cpu.stat`, by their keys; a key that is missing has none. `memory.stat` has
 * some sixty keys of which few are of interest: the text is searched for those.
 */
export function readKeys<Key extends string>(
  read: ReadFile,
  file: string,
  keys: readonly Key[],
): Readonly<Partial<Record<Key, number>>> | undefined {
  const text = read(file);
  if (text === undefined) return undefined;
  const lines = `\n${text}\n`;
  const found: Partial<Record<Key, number>> = {};
  for (const key of keys) {
    const at = lines.indexOf(`\n${key} `);
    if (at < 0) continue;
    const start = at + key.length + 2;
    found[key] = parseCount(file, lines.slice(start, lines.indexOf("\n", start)));
  }
  return found;
}
