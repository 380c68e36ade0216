import type { Mounts } from "../../../host/fs/mounts.ts";
import { mayStopAnswering } from "../../../host/fs/network-file-systems.ts";
import type { NetworkFiles } from "../../../host/fs/network-files.ts";
import type { NodeDirs } from "./pod-dirs.ts";

export interface UnmountDeps {
  readonly disk: NodeDirs;
  readonly mounts: Pick<Mounts, "list" | "mountPointsBelow" | "mountsAt" | "unmount">;
  readonly networkFiles: Pick<NetworkFiles, "unmount">;
}

/**
 * Unmounts all that is mounted at a path. The last unmount of a file system waits for
 * its server: one that may not answer is unmounted in a process of its own. Throws `FilesError`, or the signal's reason.
 */
export async function unmountAt(
  { mounts, networkFiles }: UnmountDeps,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const found = await mounts.mountsAt(path);
  if (found.length === 0) return;
  if (found.some(mayStopAnswering)) await networkFiles.unmount(path, signal);
  else await mounts.unmount(path);
}
