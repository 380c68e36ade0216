import { type FSWatcher, watch } from "node:fs";
import { access } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { type Clock, sleep } from "../../host/clock.ts";

/** How long to rely on inotify alone while the socket does not exist. */
const CHECK_INTERVAL_MS = 10_000;

/**
 * Waits until another connection attempt makes sense. True as soon as the socket was created again; false when
 * `withinMs` have passed or the signal aborts. While the socket does not exist, it waits for its creation, with a check
 * every ten seconds. Never rejects.
 */
export async function waitForSocket(
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
    // Without an inotify watch only a connection attempt can detect the socket.
    const isSocketAbsent = watcher !== undefined && !(await pathExists(path));
    await sleep(clock, isSocketAbsent ? Math.max(CHECK_INTERVAL_MS, withinMs) : withinMs, end);
    return false;
  } catch {
    // Either the watch or the caller's signal has ended the sleep.
    return done.signal.aborted;
  } finally {
    watcher?.close();
  }
}

/** Undefined if the folder cannot be watched, e.g. because it does not exist yet. */
function watchFolder(folder: string, onChange: (name: string | null) => void): FSWatcher | undefined {
  try {
    return watch(folder, (_, name) => onChange(name)).on("error", () => onChange(null));
  } catch {
    // The caller then relies on its timer.
    return undefined;
  }
}

const pathExists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );
