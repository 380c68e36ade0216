import { basename, dirname } from "node:path/posix";
import type { FileStat, Files, OnFileChanged } from "../../../host/fs/files.ts";

interface WatchedDirectory {
  readonly path: string;
  readonly inode: number;
}

export interface PathWatchOptions {
  /** Rooted at `/`. */
  readonly files: Files;
  readonly path: string;
  /** Something may have changed at the path, or in it if it is a directory. */
  readonly onChange: () => void;
  /** A file was written in place (`isInPlace`), renamed into place, or removed. */
  readonly onFileEvent: (path: string, isInPlace: boolean) => void;
}

/**
 * Watches a path that may be a directory, a file or missing: the directory itself, and the nearest existing directory
 * above the path, so that appearing, disappearing and replaced files are reported, too. Returns a function that moves
 * the watches to the directories that matter now: call it before each read of the path. It rejects if a directory
 * cannot be read or watched. When the signal aborts, all watches end.
 */
export function createPathWatch(options: PathWatchOptions, signal: AbortSignal): () => Promise<void> {
  const { files, path } = options;
  /** The only relevant name in the directory above; undefined if every name is relevant. */
  let relevantName: string | undefined;
  const above = createDirectoryWatch(options, signal, (name) => relevantName === undefined || name === relevantName);
  const inside = createDirectoryWatch(options, signal, () => true);

  return async function rearm(): Promise<void> {
    const { folder, below } = await nearestDirectory(files, path);
    above(folder);
    const found = await files.stat(path);
    // A manifest may be a symlink into a sibling, as in ConfigMap volumes: it changes when the sibling does.
    relevantName = isManifest(found) ? undefined : below;
    inside(found?.kind === "directory" ? { path, inode: found.inode } : undefined);
  };
}

function isManifest(found: FileStat | undefined): boolean {
  return found !== undefined && found.kind !== "directory";
}

/** The nearest existing directory above a path, and the name in it that leads to the path. */
async function nearestDirectory(
  files: Files,
  path: string,
): Promise<{ readonly folder: WatchedDirectory; readonly below: string }> {
  const parent = dirname(path);
  const found = await files.stat(parent);
  if (found?.kind === "directory" || parent === path)
    return { folder: { path: parent, inode: found?.inode ?? 0 }, below: basename(path) };
  return nearestDirectory(files, parent);
}

/**
 * One watch that can move to another directory. A directory at the same path may be a new one, so inodes are compared.
 */
function createDirectoryWatch(
  { files, onChange, onFileEvent }: PathWatchOptions,
  signal: AbortSignal,
  isRelevant: (name: string) => boolean,
): (folder: WatchedDirectory | undefined) => void {
  let watched: (WatchedDirectory & { readonly abort: AbortController }) | undefined;

  function release(): void {
    watched?.abort.abort();
    watched = undefined;
  }

  return (folder) => {
    if (watched?.path === folder?.path && watched?.inode === folder?.inode) return;
    release();
    if (folder === undefined) return;
    const abort = new AbortController();
    const handleChange: OnFileChanged = (name, isInPlace) => {
      if (name !== undefined && !isRelevant(name)) return;
      if (name !== undefined) onFileEvent(files.path(folder.path, name), isInPlace);
      onChange();
    };
    const handleGone = () => {
      if (watched?.abort === abort) release();
      onChange();
    };
    files.watch(folder.path, handleChange, handleGone, AbortSignal.any([abort.signal, signal]));
    watched = { ...folder, abort };
    // Changes between the caller's read and the start of this watch were not reported.
    onChange();
  };
}
