import { PODS_DIR, volumeDirOf, volumePluginDirs } from "../../../proto/kubelet/pod-dirs.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { mountError } from "../../translate/volumes/mount-error.ts";
import { localVolumeDir } from "../../translate/volumes/paths.ts";
import { applyFsGroup, reportForeignGroup } from "./fs-group.ts";
import type { PersistentVolumeInput } from "./persistent-volume-input.ts";
import { stepError } from "./step-error.ts";
import type { VolumeDeps } from "./volume-deps.ts";

/**
 * Mounts a directory of the node for one pod. The mount itself is writable: the containers of a pod that may only read it
 * get read-only mounts of it.
 */
export async function mountLocal({ deps, pod, claimed, signal }: PersistentVolumeInput, path: string): Promise<void> {
  const { disk } = deps;
  const { names } = claimed;
  const name = names.specName;
  const found = await disk.machine.stat(path);
  const cannotBegin = (why: string) => stepError("NewMounter initialization failed", names, why);
  if (found === undefined) throw cannotBegin(`path ${JSON.stringify(path)} does not exist`);
  if (found.kind === "block device")
    throw mountError({ name }, `${path} is a block device, and its file systems are not supported by this release yet`);
  if (found.kind !== "directory") throw cannotBegin("only directory and block device are supported");
  if (path.split("/").includes("..")) throw mountError({ name }, `invalid path: ${path} must not contain '..'`);
  // One pod after another: the second one may rely on the owner that the first one has set.
  await deps.lockPath(path, () => bindLocal({ deps, pod, claimed, signal }, path), signal);
}

async function bindLocal({ deps, pod, claimed, signal }: PersistentVolumeInput, path: string): Promise<void> {
  const { disk, mounts } = deps;
  const { names, spec, isReadOnly } = claimed;
  const name = names.specName;
  const isShared = await isUsedByOtherPods(deps, pod, name);
  if (isShared && spec.accessModes?.length === 1 && spec.accessModes[0] === "ReadWriteOncePod")
    throw mountError({ name }, "volume uses the ReadWriteOncePod access mode and is already in use by another pod");
  if (isShared) await reportForeignGroup(deps, pod, { path, name });
  const folder = localVolumeDir(pod.metadata.uid ?? "", name);
  await disk.root.makeFolder(folder, 0o750);
  await mounts.bind(path, disk.root.path(folder), { isReadOnly: false, isRecursive: false });
  if (!isReadOnly && !isShared) await applyFsGroup(deps, pod, folder, signal);
}

/**
 * Other pods have the volume mounted: their program relies on its owner. A directory alone shows nothing: the mount may
 * have failed, or the agent that made it may have died before the mount.
 */
async function isUsedByOtherPods({ disk, mounts }: VolumeDeps, { metadata }: Pod, name: string): Promise<boolean> {
  const folder = volumeDirOf(volumePluginDirs.local, name);
  const mountPoints = await mounts.mountPointsBelow(disk.root.path(PODS_DIR));
  return mountPoints.some((each) => each.endsWith(`/${folder}`) && !each.endsWith(`/${metadata.uid}/${folder}`));
}
