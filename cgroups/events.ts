import { readKeys } from "./controller.ts";
import type { CgroupFiles } from "./files.ts";

/** `cgroup.events` and `memory.events` of a cgroup, with those of all cgroups below it. */
export interface CgroupEvents {
  /** Whether a process is in it, or below. */
  readonly isPopulated: boolean;
  /** How often an allocation met `memory.max`, and how many processes the kernel has killed for it; 0 without the memory controller. */
  readonly maxEvents: number;
  readonly oomKills: number;
}

const EVENT_FILES = ["cgroup.events", "memory.events"] as const;

/** What the files hold now; undefined if the cgroup is absent. */
export function readCgroupEvents(files: Pick<CgroupFiles, "read">, folder: string): CgroupEvents | undefined {
  const read = (file: string) => files.read(`${folder}/${file}`);
  const { populated } = readKeys(read, "cgroup.events", ["populated"]) ?? {};
  if (populated === undefined) return undefined;
  const { max = 0, oom_kill: oomKills = 0 } = readKeys(read, "memory.events", ["max", "oom_kill"]) ?? {};
  return { isPopulated: populated === 1, maxEvents: max, oomKills };
}

/**
 * Calls `onEvents` with what the files hold, at once and after each change that the kernel notifies, until the signal
 * aborts; undefined, once and last, when the cgroup is gone. The kernel does not always notify the removal itself, but
 * before it that no process is left.
 */
export function watchCgroupEvents(
  files: Pick<CgroupFiles, "read" | "watch">,
  folder: string,
  onEvents: (events: CgroupEvents | undefined) => void,
  signal: AbortSignal,
): void {
  const ended = new AbortController();
  const until = AbortSignal.any([signal, ended.signal]);
  const report = () => {
    if (until.aborted) return;
    const events = readCgroupEvents(files, folder);
    if (events === undefined) ended.abort();
    onEvents(events);
  };
  for (const file of EVENT_FILES) {
    const path = `${folder}/${file}`;
    // Without the memory controller there is no `memory.events`; without the cgroup there is nothing to watch.
    if (files.read(path) !== undefined) files.watch(path, report, until);
  }
  report();
}
