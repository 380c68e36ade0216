import { basename, dirname } from "node:path/posix";
import type { FileChanged, FileStat, Files } from "../../../host/fs/files.ts";

interface Folder {
  readonly path: string;
  readonly inode: number;
}

export interface PathWatchSettings {
  /** Rooted at `/`. */
  readonly files: Files;
  readonly path: string;
  /** Something may have changed at the path, or below it where it is a folder. */
  readonly ring: () => void;
  /** A file was written to, or has come whole, or is gone. */
  readonly heard: (path: string, isInPlace: boolean) => void;
}

/**
 * Watches what is at a path, be it a folder, a file or nothing yet: the folder, and the nearest folder above the path that is
 * there, so that what appears, goes or is replaced is told too. What is to be watched changes with that: the caller arms before
 * each look. Arming rejects with what keeps a folder from being looked at or watched. The signal ends all.
 */
export function createPathWatch(settings: PathWatchSettings, signal: AbortSignal): () => Promise<void> {
  const { files, path } = settings;
  /** The one name above that counts; undefined for any. */
  let heeded: string | undefined;
  const above = createFolderWatch(settings, signal, (name) => heeded === undefined || name === heeded);
  const inside = createFolderWatch(settings, signal, () => true);

  return async function arm(): Promise<void> {
    const { folder, below } = await nearestFolder(files, path);
    above(folder);
    const found = await files.stat(path);
    // A manifest may be a link into a neighbour, as volumes of ConfigMaps make them: it changes when that does.
    heeded = isManifest(found) ? undefined : below;
    inside(found?.kind === "directory" ? { path, inode: found.inode } : undefined);
  };
}

function isManifest(found: FileStat | undefined): boolean {
  return found !== undefined && found.kind !== "directory";
}

/** The nearest folder above a path, and the name in it that leads towards the path. */
async function nearestFolder(files: Files, path: string): Promise<{ readonly folder: Folder; readonly below: string }> {
  const parent = dirname(path);
  const found = await files.stat(parent);
  if (found?.kind === "directory" || parent === path)
    return { folder: { path: parent, inode: found?.inode ?? 0 }, below: basename(path) };
  return nearestFolder(files, parent);
}

/** One watch, which moves to another folder when it is told so; a folder of the same path may be another one by now. */
function createFolderWatch(
  { files, ring, heard }: PathWatchSettings,
  signal: AbortSignal,
  counts: (name: string) => boolean,
): (folder: Folder | undefined) => void {
  let watched: (Folder & { readonly own: AbortController }) | undefined;

  function release(): void {
    watched?.own.abort();
    watched = undefined;
  }

  return (folder) => {
    if (watched?.path === folder?.path && watched?.inode === folder?.inode) return;
    release();
    if (folder === undefined) return;
    const own = new AbortController();
    const changed: FileChanged = (name, isInPlace) => {
      if (name !== undefined && !counts(name)) return;
      if (name !== undefined) heard(files.path(folder.path, name), isInPlace);
      ring();
    };
    const gone = () => {
      if (watched?.own === own) release();
      ring();
    };
    files.watch(folder.path, changed, gone, AbortSignal.any([own.signal, signal]));
    watched = { ...folder, own };
    // Nobody has told what changed between the look that led here and this moment.
    ring();
  };
}
