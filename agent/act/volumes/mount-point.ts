import { FilesError } from "../../../host/fs/files.ts";
import type { NodeDirs } from "./pod-dirs.ts";

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
