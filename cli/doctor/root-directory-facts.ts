import { realpath, stat } from "node:fs/promises";
import { dirname } from "node:path/posix";
import { parseMountinfo } from "../../host/fs/mounts.ts";

/** The mount that a folder is on. */
export interface FolderMount {
  readonly mountPoint: string;
  /** Whether mounts made below it reach other mount namespaces, such as those of containers. */
  readonly isShared: boolean;
}

/** The mount of a real path by the text of /proc/self/mountinfo; undefined if the kernel lists none. */
export function mountOf(mountinfo: string, path: string): FolderMount | undefined {
  const mounts = mountinfo.split("\n").flatMap((line) =>
    parseMountinfo(line).map(({ mountPoint }) => ({
      mountPoint,
      isShared: / shared:\d+ /.test(line.slice(0, line.indexOf(" - ") + 1)),
    })),
  );
  const above = mounts.filter(
    ({ mountPoint }) => mountPoint === "/" || path === mountPoint || path.startsWith(`${mountPoint}/`),
  );
  // Of several mounts at one point the last one hides the others.
  return above.reduce<FolderMount | undefined>(
    (deepest, mount) =>
      deepest === undefined || mount.mountPoint.length >= deepest.mountPoint.length ? mount : deepest,
    undefined,
  );
}

/** The real path of the nearest existing folder: the agent creates the rest. */
export async function existingRealPath(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (!isAbsent(error) || path === "/") throw error;
    return await existingRealPath(dirname(path));
  }
}

/** The id of the user that owns a file; undefined if it does not exist. */
export async function fileOwnerOf(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).uid;
  } catch (error) {
    if (isAbsent(error)) return undefined;
    throw error;
  }
}

function isAbsent(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
