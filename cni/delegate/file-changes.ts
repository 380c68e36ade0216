import { type FileStat, type Files, FilesError } from "../../host/fs/files.ts";
import type { Mounts } from "../../host/fs/mounts.ts";
import { networkMountOf } from "../../host/fs/network-file-systems.ts";
import type { StatSync } from "../../host/fs/stat-sync.ts";

/** Whether a file has the same metadata as before. False also if the kernel refuses the look. */
export function isUnchanged(statSync: StatSync, path: string, stat: FileStat | undefined): boolean {
  try {
    return Bun.deepEquals(statSync(path), stat);
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    return false;
  }
}

/** Whether a path leads to a file system whose calls may last for ever. It looks at none of these file systems. */
export async function mayStopAnswering(
  { mounts, files }: { readonly mounts: Pick<Mounts, "list">; readonly files: Pick<Files, "readLink"> },
  paths: readonly string[],
): Promise<boolean> {
  const table = await mounts.list();
  for (const path of paths)
    if ((await networkMountOf(path, table, (link) => files.readLink(link))) !== undefined) return true;
  return false;
}
