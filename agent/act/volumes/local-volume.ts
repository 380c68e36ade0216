import { otherMountPointsOf } from "../../../host/fs/mounts.ts";
import { PODS_DIR, volumeDirOf, volumePluginDirs } from "../../../proto/kubelet/pod-dirs.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { mountError } from "../../translate/volumes/mount-error.ts";
import { localVolumeDir } from "../../translate/volumes/paths.ts";
import { applyFsGroup, hasHadContainer, reportForeignGroup } from "./fs-group.ts";
import { ensureEmptyMountPoint, isPresent } from "./mount-point.ts";
import { type PathCalls, pathCallsFor } from "./path-calls.ts";
import type { PersistentVolumeInput } from "./persistent-volume-input.ts";
import { removeUnlessMounted } from "./pod-dirs.ts";
import { stepError } from "./step-error.ts";
import { type UnmountDeps, unmountAt } from "./unmount.ts";
import type { VolumeDeps } from "./volume-deps.ts";

/*
 * Local persistent volumes: directories of the node that are mounted for each pod. A file system of a server may be
 * mounted there, too, and stop answering (decision 105).
 */

/**
 * Mounts a directory of the node for one pod. The mount itself is writable: the containers of a pod that may only read it
 * get read-only mounts of it.
 */
export async function mountLocal({ deps, pod, claimed, signal }: PersistentVolumeInput, path: string): Promise<void> {
  const { names } = claimed;
  const name = names.specName;
  const folder = localVolumeDir(pod.metadata.uid ?? "", name);
  // What is mounted for the pod already may be on a server, too.
  const calls = await pathCallsFor(deps, [path, deps.disk.root.path(folder)], signal);
  const found = await calls.stat(path);
  const cannotBegin = (why: string) => stepError("NewMounter initialization failed", names, why);
  if (found === undefined) throw cannotBegin(`path ${JSON.stringify(path)} does not exist`);
  if (found.kind === "block device")
    throw mountError({ name }, `${path} is a block device, and its file systems are not supported by this release yet`);
  if (found.kind !== "directory") throw cannotBegin("only directory and block device are supported");
  if (path.split("/").includes("..")) throw mountError({ name }, `invalid path: ${path} must not contain '..'`);
  const realPath = (await calls.realPath(path)) ?? path;
  const volume = { path, realPath, folder, calls };
  // One pod after another: the second one may rely on the owner that the first one has set.
  await deps.lockPath(realPath, () => bindLocal({ deps, pod, claimed, signal }, volume), signal);
}

interface LocalVolume {
  readonly path: string;
  /** The same without symlinks. */
  readonly realPath: string;
  /** Where it is mounted for the pod, relative to the root directory. */
  readonly folder: string;
  readonly calls: PathCalls;
}

async function bindLocal(
  { deps, pod, claimed, signal }: PersistentVolumeInput,
  { path, realPath, folder, calls }: LocalVolume,
): Promise<void> {
  const { names, spec, isReadOnly } = claimed;
  const name = names.specName;
  const others = await mountsOfOtherPods(deps, pod);
  const volumeDir = `/${volumeDirOf(volumePluginDirs.local, name)}`;
  const isInUse = others.some(({ folder }) => folder.endsWith(volumeDir));
  if (isInUse && spec.accessModes?.length === 1 && spec.accessModes[0] === "ReadWriteOncePod")
    throw mountError({ name }, "volume uses the ReadWriteOncePod access mode and is already in use by another pod");
  const isShared = await isUsedByOthers(deps, others, realPath);
  if (isShared) await reportForeignGroup(deps, pod, calls, { path, name });
  const target = deps.disk.root.path(folder);
  await calls.makeFolder(target, 0o750);
  await calls.bind(path, target, { isReadOnly: false, isRecursive: false });
  if (!isReadOnly && !isShared) await applyFsGroup(deps, pod, calls, folder, signal);
  deps.readyMounts.add(folder);
}

interface PodMount {
  readonly uid: string;
  readonly mountPoint: string;
  /** The mount point relative to the root directory. */
  readonly folder: string;
}

/** A directory alone is no mount: the mount may have failed, or the agent that made it may have died before. */
async function mountsOfOtherPods({ disk, mounts }: VolumeDeps, pod: Pod): Promise<readonly PodMount[]> {
  const pods = await disk.root.realPath(PODS_DIR);
  if (pods === undefined) return [];
  return (await mounts.mountPointsBelow(pods))
    .map((mountPoint) => ({ mountPoint, folder: `${PODS_DIR}${mountPoint.slice(pods.length)}` }))
    .map((each) => ({ ...each, uid: each.folder.split("/")[1] ?? "" }))
    .filter(({ uid }) => uid !== pod.metadata.uid);
}

/**
 * Whether the programs of other pods may rely on the owner of a directory, which several persistent volumes may have. Not so
 * where it is a local volume of a pod that has had no container, unless this agent has set that up: the mount may be of an
 * attempt that has ended before all files had their owner.
 */
async function isUsedByOthers(deps: VolumeDeps, others: readonly PodMount[], realPath: string): Promise<boolean> {
  const mountPoints = new Set(otherMountPointsOf(realPath, await deps.mounts.list()));
  for (const { mountPoint, folder, uid } of others) {
    if (!mountPoints.has(mountPoint)) continue;
    const isLocal = folder.includes(`/${volumeDirOf(volumePluginDirs.local, "")}`);
    if (!isLocal || deps.readyMounts.has(folder) || (await hasHadContainer(deps.disk, uid))) return true;
  }
  return false;
}

/**
 * Unmounts a volume and removes its directory, which must be empty then. Idempotent. Throws `FilesError`, or the signal's
 * reason.
 */
export async function removeLocal(deps: UnmountDeps, folder: string, signal: AbortSignal): Promise<void> {
  if (!(await isPresent(deps, folder))) return;
  await unmountAt(deps, deps.disk.root.path(folder), signal);
  await ensureEmptyMountPoint(deps.disk, folder);
  await removeUnlessMounted(deps.disk, deps.mounts, folder);
}
