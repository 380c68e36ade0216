import {
  FOREIGN_SHARE,
  FOREIGN_SHARE_OF_MINUTE,
  type ForeignCpu,
  isTooMuch,
  percent,
} from "./foreign-cpu/foreign-cpu.ts";
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
  return `--write needs a quiet machine: its CPUs are busy for ${percent(busyShare)} of the time, and may be for ${percent(QUIET_SHARE)}`;
}

/**
 * Why the figures of a part must not be published when others used so much of the CPUs meanwhile; undefined if they may.
 * `foreignCpu` is undefined if the watch has ended.
 */
export function refusalOfForeignCpu(part: string, foreignCpu: ForeignCpu | undefined): string | undefined {
  if (foreignCpu === undefined)
    return `the part ${part} is not written: the watch of other processes has ended, so what they used meanwhile is unknown`;
  if (!isTooMuch(foreignCpu)) return undefined;
  const { processes, steal, busiestMinute, most } = foreignCpu;
  const named = most.map(({ name, share }) => `${name} ${percent(share)}`).join(", ");
  const used = `other processes used ${percent(processes)} of the CPUs${named === "" ? "" : ` (${named})`} and other machines ${percent(steal)} (steal), in the busiest minute ${percent(busiestMinute)} together`;
  return `the part ${part} is not written: meanwhile ${used}; they may use ${percent(FOREIGN_SHARE)}, and ${percent(FOREIGN_SHARE_OF_MINUTE)} in a minute`;
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
