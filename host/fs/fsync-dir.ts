import { constants } from "node:fs";
import { open } from "node:fs/promises";

/** Fsyncs a folder, so that the names in it survive a power cut. Rejects with the kernel's error. */
export type FolderSync = (folder: string) => Promise<void>;

interface FolderSyncs {
  /** The running sync. */
  readonly running: Promise<void>;
  /** The sync that starts when the running one has ended; all calls made meanwhile share it. */
  next: Promise<void> | undefined;
}

/**
 * Coalesces fsyncs of a folder: a hundred files written into it at once need a few syncs, not a hundred. A call during
 * a running sync shares the next one, because the running one may have started before the caller's file was renamed.
 */
export function createFolderSync(sync: FolderSync = syncFolder): FolderSync {
  const folders = new Map<string, FolderSyncs>();

  function start(folder: string): Promise<void> {
    const running = sync(folder);
    const own: FolderSyncs = { running, next: undefined };
    folders.set(folder, own);
    const end = () => {
      if (own.next === undefined && folders.get(folder) === own) folders.delete(folder);
    };
    running.then(end, end);
    return running;
  }

  return (folder) => {
    const syncs = folders.get(folder);
    if (syncs === undefined) return start(folder);
    const startNext = () => start(folder);
    // An error is reported to the callers of that sync only; the next sync runs anyway.
    syncs.next ??= syncs.running.then(startNext, startNext);
    return syncs.next;
  };
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
