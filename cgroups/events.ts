import { onAbort } from "../host/async/abort.ts";
import type { Clock } from "../host/clock.ts";
import { readKeys } from "./controller.ts";
import type { CgroupFiles } from "./files.ts";

/**
 * Whether a process is in the cgroup, or below, by `cgroup.events`; undefined if the cgroup is absent. `memory.events` is not
 * watched: its counters are read with the stats, and the kernel's log tells of processes that it kills for memory.
 */
export function readIsPopulated(files: Pick<CgroupFiles, "read">, folder: string): boolean | undefined {
  const events = readKeys((file) => files.read(`${folder}/${file}`), "cgroup.events", ["populated"]);
  return events?.populated === undefined ? undefined : events.populated === 1;
}

/** Bun drops a notification that comes within a millisecond after another one. */
const READ_AGAIN_MS = 5;

/**
 * Calls `onChange` with `readIsPopulated`, at once, after each change that the kernel notifies and a little later again, until
 * the signal aborts; with undefined, once and last, when the cgroup is gone. The kernel does not always notify the removal
 * itself, but before it that no process is left.
 */
export function watchIsPopulated(
  { files, clock }: { readonly files: Pick<CgroupFiles, "read" | "watch">; readonly clock: Clock },
  folder: string,
  onChange: (isPopulated: boolean | undefined) => void,
  signal: AbortSignal,
): void {
  const ended = new AbortController();
  const until = AbortSignal.any([signal, ended.signal]);
  let cancelTimer = () => {};
  onAbort(until, () => cancelTimer());
  const report = () => {
    if (until.aborted) return;
    const isPopulated = readIsPopulated(files, folder);
    if (isPopulated === undefined) ended.abort();
    onChange(isPopulated);
  };
  const onNotified = () => {
    report();
    cancelTimer();
    if (!until.aborted) cancelTimer = clock.wakeAt(clock.now() + READ_AGAIN_MS, report);
  };
  const path = `${folder}/cgroup.events`;
  if (files.read(path) !== undefined) files.watch(path, onNotified, until);
  report();
}
