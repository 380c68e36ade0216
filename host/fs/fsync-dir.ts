import { constants } from "node:fs";
import { open } from "node:fs/promises";

/** Brings the names in a folder to the disk. Rejects with what the kernel says. */
export type FolderSync = (folder: string) => Promise<void>;

interface Syncs {
  /** The one that is under way. */
  readonly present: Promise<void>;
  /** The one that begins when that has ended; all who ask meanwhile share it. */
  next: Promise<void> | undefined;
}

/**
 * A hundred files that are written into one folder at once need it synced a few times, not a hundred. Whoever asks while a sync is
 * under way shares the next one: the present one may have begun before the name in question was there.
 */
export function createFolderSync(sync: FolderSync = syncFolder): FolderSync {
  const folders = new Map<string, Syncs>();

  function begin(folder: string): Promise<void> {
    const present = sync(folder);
    const own: Syncs = { present, next: undefined };
    folders.set(folder, own);
    const end = () => {
      if (own.next === undefined && folders.get(folder) === own) folders.delete(folder);
    };
    present.then(end, end);
    return present;
  }

  return (folder) => {
    const syncs = folders.get(folder);
    if (syncs === undefined) return begin(folder);
    const again = () => begin(folder);
    // A sync that failed fails for those who asked for it; the next ones try for themselves.
    syncs.next ??= syncs.present.then(again, again);
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
