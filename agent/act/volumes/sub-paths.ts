import { dirname } from "node:path/posix";
import { FilesError } from "../../../host/fs/files.ts";
import type { Mounts } from "../../../host/fs/mounts.ts";
import { mayStopAnswering } from "../../../host/fs/network-file-systems.ts";
import type { NetworkFiles } from "../../../host/fs/network-files.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import { subPathsDir } from "../../translate/volumes/paths.ts";
import type { SubPath } from "../../translate/volumes/sub-paths.ts";
import { type NodeDirs, removeUnlessMounted } from "./pod-dirs.ts";
import { type UnmountDeps, unmountAt } from "./unmount.ts";

interface SubPathDeps {
  readonly disk: NodeDirs;
  readonly mounts: Pick<Mounts, "bindBeneath" | "list">;
  readonly networkFiles: Pick<NetworkFiles, "bindBeneath">;
}

/** The codes with which a missing folder of a path cannot be made. */
const couldNotMake: readonly string[] = ["EROFS", "ENOSPC", "EDQUOT"];

/**
 * Mounts the `subPath`s of a container where the runtime finds them. One that is mounted already stays, unless another
 * file has taken its place in the volume since. Where a server may hold the call up, it is made in a process of its own:
 * in this one nothing else would run meanwhile. Throws `FilesError`, or `TranslateError` in the kubelet's words, which
 * keep what is on the node to themselves.
 */
export async function mountSubPaths(
  { disk: { root }, mounts, networkFiles }: SubPathDeps,
  container: string,
  subPaths: readonly SubPath[],
  signal: AbortSignal,
): Promise<void> {
  // What is mounted where is not asked of the path: a look at it may already hang, and symlinks may lead anywhere.
  const hasServers =
    subPaths.some(({ isNodePath }) => isNodePath) && (await mounts.list()).some((each) => mayStopAnswering(each));
  for (const { volume, volumePath, path, target, isRemote, isNodePath } of subPaths) {
    await root.makeFolder(dirname(target), 0o750);
    try {
      if (isRemote || (isNodePath && hasServers))
        await networkFiles.bindBeneath(volumePath, path, root.path(target), signal);
      else await mounts.bindBeneath(volumePath, path, root.path(target));
    } catch (cause) {
      if (!(cause instanceof FilesError)) throw cause;
      const step = couldNotMake.includes(cause.code) ? "create subPath directory" : "prepare subPath";
      const message = `failed to ${step} for volumeMount "${volume}" of container "${container}"`;
      throw new TranslateError("CreateContainerConfigError", message, { cause });
    }
  }
}

/** Makes the directory of a pod's `subPath` mounts. Throws `FilesError`. */
export async function makeSubPathsDir({ root }: NodeDirs, uid: string): Promise<void> {
  await root.makeFolder(subPathsDir(uid), 0o750);
}

/**
 * Unmounts all `subPath`s of a pod, and removes their directory. Idempotent. Refuses as {@link removeUnlessMounted}
 * does. Throws `FilesError`, `TranslateError`, or the signal's reason.
 */
export async function removeSubPaths(deps: UnmountDeps, uid: string, signal: AbortSignal): Promise<void> {
  const { disk, mounts } = deps;
  const folder = subPathsDir(uid);
  // The newest first: a container may have mounted something below its own.
  const mountPoints = await mounts.mountPointsBelow(disk.root.path(folder));
  for (const each of mountPoints.toReversed()) await unmountAt(deps, each, signal);
  await removeUnlessMounted(disk, mounts, folder);
}
