import { dirname } from "node:path/posix";
import type { Mounts } from "../../../host/fs/mounts.ts";
import { normal } from "../../decide/events/pod-event.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import type { ClaimedVolume } from "../../translate/volumes/claimed-volume.ts";
import { globalDeviceDir, localDeviceLink } from "../../translate/volumes/paths.ts";
import { pathCallsFor } from "./path-calls.ts";
import type { PersistentVolumeInput } from "./persistent-volume-input.ts";
import type { NodeDirs } from "./pod-dirs.ts";

/*
 * Block devices of persistent volumes (`volumeMode: Block`), in the kubelet's layout: a bind mount of the device below
 * `plugins/`, and a symlink to it below the directory of the pod. The link is made first and removed last: it shows that
 * the volume is on the node.
 */

/** The kubelet's words for a step that fails; also the reason of its event. */
export function mapError(step: string, { specName }: ClaimedVolume["names"], why: string): TranslateError {
  return new TranslateError("FailedMapVolume", `MapVolume.${step} for volume "${specName}" : ${why}`);
}

/**
 * Maps a block device of the node for one pod, and records two events, as the kubelet does. Idempotent. Throws
 * `FilesError`, `TranslateError`, or the signal's reason.
 */
export async function mapLocalDevice(
  { deps, pod, claimed: { names, spec }, signal }: PersistentVolumeInput,
  path: string,
): Promise<void> {
  const { root } = deps.disk;
  const { uid = "" } = pod.metadata;
  const folder = globalDeviceDir(names.specName);
  if (spec.accessModes?.length === 1 && spec.accessModes[0] === "ReadWriteOncePod") {
    const users = (await root.list(folder)) ?? [];
    if (users.some(({ name }) => name !== uid)) {
      const why = "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
      throw mapError("SetUpDevice failed", names, why);
    }
  }
  const calls = await pathCallsFor(deps, [path], signal);
  const device = await calls.realPath(path);
  if (device === undefined)
    throw mapError("EvalHostSymlinks failed", names, `lstat ${path}: no such file or directory`);
  const kind = (await calls.stat(device))?.kind ?? "missing";
  if (kind !== "block device")
    throw mapError("MapBlockVolume failed", names, `${device} is no block device: it is a ${kind}`);
  const link = localDeviceLink(uid, names.specName);
  await root.makeFolder(dirname(link), 0o750);
  await root.link(link, device);
  await root.makeFolder(folder, 0o750);
  const mountPoint = `${folder}/${uid}`;
  // What is there may be the device, which a write would change.
  if ((await root.stat(mountPoint)) === undefined) await root.makeFile(mountPoint, 0o640);
  await calls.bind(device, root.path(mountPoint), { isReadOnly: false, isRecursive: false });
  const paths = { globalMapPath: root.path(folder), volumeMapPath: root.path(dirname(link)) };
  for (const [what, at] of Object.entries(paths)) {
    const message = `MapVolume.MapPodDevice succeeded for volume "${names.specName}" ${what} ${JSON.stringify(at)}`;
    deps.recordEvent(pod, normal("SuccessfulMountVolume", message));
  }
}

/** Removes what {@link mapLocalDevice} has made, by the volume's name alone. Idempotent. Throws `FilesError`. */
export async function unmapDevice(
  { disk: { root }, mounts }: { readonly disk: NodeDirs; readonly mounts: Pick<Mounts, "unmount"> },
  { uid, name }: { readonly uid: string; readonly name: string },
): Promise<void> {
  const link = localDeviceLink(uid, name);
  if ((await root.readLink(link)) === undefined) return;
  const folder = globalDeviceDir(name);
  await mounts.unmount(root.path(folder, uid));
  // Never through a mount: a device that is still mounted stays.
  await root.remove(`${folder}/${uid}`);
  if ((await root.list(folder))?.length === 0) await root.remove(folder);
  await root.remove(link);
}
