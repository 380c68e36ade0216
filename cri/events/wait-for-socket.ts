import { type FSWatcher, watch } from "node:fs";
import { access } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { type Clock, sleep } from "../../host/clock.ts";

/** How long to trust inotify alone where there is no socket to try. */
const auditMs = 10_000;

/**
 * Waits until it is worth while to connect again. True as soon as the socket was made anew; false when `withinMs` have
 * passed or the signal aborts. While there is no socket at all, only its appearance counts (and a rare audit).
 * Never rejects.
 */
export async function socketMayBeBack(
  path: string,
  withinMs: number,
  clock: Clock,
  signal: AbortSignal,
): Promise<boolean> {
  const done = new AbortController();
  const end = AbortSignal.any([signal, done.signal]);
  const watcher = watchFolder(dirname(path), (name) => {
    if (name === basename(path)) done.abort();
  });
  try {
    // Without a watch only trying can tell, so the rare audit would be too rare.
    const patient = watcher !== undefined && !(await exists(path));
    await sleep(clock, patient ? Math.max(auditMs, withinMs) : withinMs, end);
    return false;
  } catch {
    // Only the signal ends the sleep early: the watcher's, or the caller's.
    return done.signal.aborted;
  } finally {
    watcher?.close();
  }
}

/** Undefined where the folder cannot be watched, e.g. because it does not exist yet. */
function watchFolder(folder: string, onChange: (name: string | null) => void): FSWatcher | undefined {
  try {
    return watch(folder, (_, name) => onChange(name)).on("error", () => onChange(null));
  } catch {
    // The caller then relies on its timer.
    return undefined;
  }
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );
