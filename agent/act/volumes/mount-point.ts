import { basename, dirname } from "node:path/posix";
import { FilesError } from "../../../host/fs/files.ts";
import type { NodeDirs } from "./pod-dirs.ts";

/* The directories at which volumes are mounted, relative to the root directory. */

/** Whether there is a directory for the volume, by the directory that it is in: what is mounted there may not answer. */
export async function isPresent(
  { disk: { root } }: { readonly disk: Pick<NodeDirs, "root"> },
  folder: string,
): Promise<boolean> {
  const entries = (await root.list(dirname(folder))) ?? [];
  return entries.some(({ name }) => name === basename(folder));
}

/**
 * Throws `FilesError` if the directory of a volume whose mount is gone has files. They would be removed with it, and may
 * be the user's data.
 */
export async function ensureEmptyMountPoint({ root }: Pick<NodeDirs, "root">, folder: string): Promise<void> {
  const [entry] = (await root.list(folder)) ?? [];
  if (entry === undefined) return;
  const path = root.path(folder);
  throw new FilesError("ENOTEMPTY", path, `${path} is kept: nothing is mounted there, and it contains ${entry.name}`);
}
