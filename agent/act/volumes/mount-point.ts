import { basename, dirname } from "node:path/posix";
import { FilesError } from "../../../host/fs/files.ts";
import type { MountPoints, NodeDirs } from "./pod-dirs.ts";

/*
 * The directories at which volumes are mounted, relative to the root directory. Where a server may not answer, a look at
 * such a directory hangs: the directory that it is in and the mount table tell the same.
 */

interface MountPointDeps {
  readonly disk: Pick<NodeDirs, "root">;
  readonly mounts: MountPoints;
}

/** Whether there is a directory for the volume. */
export async function isPresent({ disk: { root } }: Pick<MountPointDeps, "disk">, folder: string): Promise<boolean> {
  const entries = (await root.list(dirname(folder))) ?? [];
  return entries.some(({ name }) => name === basename(folder));
}

/** The directory of a volume as the mount table has it; undefined if nothing is mounted there. */
export async function mountPointOf(
  { disk: { root }, mounts }: MountPointDeps,
  folder: string,
): Promise<string | undefined> {
  const mountPoints = await mounts.mountPointsBelow(root.path(dirname(folder)));
  return mountPoints.find((path) => path.endsWith(`/${folder}`));
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
