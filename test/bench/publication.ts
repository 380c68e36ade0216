import { QUIET_SHARE } from "./quiet-machine.ts";

/** What must be true of a run whose figures are published. */
export interface RunToPublish {
  /** As printed by `berth version`: `berth 0.1.0 (75a5052bdfd6)`, with a plus if tracked files differ from the commit. */
  readonly version: string;
  /** The commit that is checked out. */
  readonly head: string;
  /** The output of `git status --porcelain`. */
  readonly changes: string;
  readonly isQuick: boolean;
}

/** Why the figures of such a run must not be published; undefined if they may. */
export function refusalOf({ version, head, changes, isQuick }: RunToPublish): string | undefined {
  if (isQuick) return "--write needs enough pairs: leave out --effort quick";
  const changed = changes.split("\n").filter((line) => line !== "");
  if (changed.length > 0)
    return `--write needs a tree that is committed; these files are not:\n${changed.map((line) => `  ${line}`).join("\n")}`;
  const built = /\(([0-9a-f]+\+?)\)/.exec(version)?.[1] ?? "";
  if (built === "" || !head.startsWith(built))
    return `--write needs the program of the commit ${head.slice(0, 12)}, but found ${version}: npm run build`;
  return undefined;
}

/** Why figures measured on a machine this busy must not be published; undefined if they may. */
export function refusalOfMachine(busyShare: number): string | undefined {
  if (busyShare <= QUIET_SHARE) return undefined;
  const percent = (share: number) => `${(100 * share).toFixed(0)} %`;
  return `--write needs a quiet machine: its CPUs are busy for ${percent(busyShare)} of the time, and may be for ${percent(QUIET_SHARE)}`;
}

/** The samples as JSON: numbers with three digits after the point at most, one line for each list of numbers. */
export function samplesText(value: unknown): string {
  const rounded = JSON.stringify(
    value,
    (_, part: unknown) => (typeof part === "number" ? Math.round(part * 1000) / 1000 : part),
    1,
  );
  return `${rounded.replaceAll(/\[\s*(-?\d[^[\]{}"]*?)\s*\]/g, (_, list: string) => `[${list.replaceAll(/\s+/g, " ")}]`)}\n`;
}
