import { basename } from "node:path/posix";
import { KillableProgramError } from "../../../host/fs/killable-program.ts";
import type { Mounts } from "../../../host/fs/mounts.ts";
import type { NetworkMounts } from "../../../host/fs/network-mounts.ts";
import type { NFSVolumeSource } from "../../../proto/kubernetes/gen/types.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import type { VolumeNames } from "../../translate/volumes/missing-drivers.ts";
import { mountError } from "../../translate/volumes/mount-error.ts";
import { nfsVolumeDir } from "../../translate/volumes/paths.ts";
import { ensureEmptyMountPoint, isPresent } from "./mount-point.ts";
import { type NodeDirs, removeUnlessMounted } from "./pod-dirs.ts";

/*
 * Volumes of NFS servers. A server may stop answering: then every look at its files hangs, and not even a stat of the
 * mount point returns. So whether a volume is mounted is read in the mount table alone, and only programs that can be
 * killed touch the mount (https://kubernetes.io/docs/concepts/storage/volumes/#nfs).
 */

/** What mounts and unmounts them. */
export interface NfsDeps {
  readonly disk: NodeDirs;
  readonly mounts: Pick<Mounts, "mountPointsBelow" | "mountsAt">;
  readonly networkMounts: NetworkMounts;
}

export interface NfsVolume {
  readonly uid: string;
  readonly names: VolumeNames;
  readonly source: NFSVolumeSource;
  /** Of a persistent volume. */
  readonly mountOptions: readonly string[];
  /** Mounts it read-only. */
  readonly isReadOnly: boolean;
}

/** More mounts on top of each other than agents that die while they mount leave behind. */
const MAX_STACKED_MOUNTS = 100;

/**
 * Mounts a volume for one pod; one that is mounted stays. Idempotent. Throws `FilesError`, `TranslateError` in the
 * kubelet's words, or the signal's reason.
 */
export async function setUpNfs(deps: NfsDeps, volume: NfsVolume, signal: AbortSignal): Promise<void> {
  const { disk, networkMounts } = deps;
  const folder = nfsVolumeDir(volume.uid, volume.names.specName);
  if (await isMounted(deps, folder)) return;
  await disk.root.makeFolder(folder, 0o750);
  const mount = {
    source: `${serverOf(volume.source)}:${volume.source.path}`,
    target: disk.root.path(folder),
    fsType: "nfs",
    options: [...new Set([...volume.mountOptions, ...(volume.isReadOnly ? ["ro"] : [])])].toSorted(),
  };
  try {
    await networkMounts.mount(mount, signal);
  } catch (error) {
    // The program of an agent that died meanwhile may have mounted it.
    if (!signal.aborted && (await isMounted(deps, folder))) return;
    if (!signal.aborted) await removeMountPoint(deps, folder);
    throw error instanceof KillableProgramError ? mountFailure(volume.names, mount, error) : error;
  }
}

/** An IPv6 address is in brackets: a colon separates the server from the path. */
function serverOf({ server }: NFSVolumeSource): string {
  return server.includes(":") && !server.startsWith("[") ? `[${server}]` : server;
}

function mountFailure(
  { specName, nameInPod }: VolumeNames,
  { source, target, fsType, options }: Parameters<NetworkMounts["mount"]>[0],
  { isTimeout, status, output }: KillableProgramError,
): TranslateError {
  if (isTimeout) {
    const lists = `unmounted volumes=[${nameInPod}], unattached volumes=[], failed to process volumes=[]`;
    return new TranslateError("FailedMount", `Unable to attach or mount volumes: ${lists}: context deadline exceeded`);
  }
  const optionArgs = options.length === 0 ? "" : ` -o ${options.join(",")}`;
  const args = `-t ${fsType}${optionArgs} ${source} ${target}`;
  const what = `mount failed: ${status}\nMounting command: mount\nMounting arguments: ${args}\nOutput: ${output}`;
  return mountError({ name: specName }, what);
}

/**
 * Unmounts a volume and removes its directory, which must be empty then. Idempotent. Throws `FilesError`, `TranslateError`
 * in the kubelet's words, or the signal's reason.
 */
export async function removeNfs(deps: NfsDeps, folder: string, signal: AbortSignal): Promise<void> {
  if (!(await isPresent(deps, folder))) return;
  const target = deps.disk.root.path(folder);
  for (let mount = 0; mount < MAX_STACKED_MOUNTS && (await isMounted(deps, folder)); mount++)
    try {
      await deps.networkMounts.unmount(target, signal);
    } catch (error) {
      if (!(error instanceof KillableProgramError)) throw error;
      // It may have been unmounted meanwhile.
      if (await isMounted(deps, folder)) throw unmountFailure(basename(folder), target, error);
    }
  await removeMountPoint(deps, folder);
}

function unmountFailure(name: string, target: string, { status, output }: KillableProgramError): TranslateError {
  const why = `unmount failed: ${status}\nUnmounting arguments: ${target}\nOutput: ${output}`;
  return new TranslateError("FailedMount", `UnmountVolume.TearDown failed for volume "${name}" : ${why}`);
}

/** Never reaches into a mount: it refuses a directory that has one, or files. */
async function removeMountPoint({ disk, mounts }: NfsDeps, folder: string): Promise<void> {
  if (await isMounted({ disk, mounts }, folder)) return;
  await ensureEmptyMountPoint(disk, folder);
  await removeUnlessMounted(disk, mounts, folder);
}

async function isMounted({ disk: { root }, mounts }: Omit<NfsDeps, "networkMounts">, folder: string): Promise<boolean> {
  return (await mounts.mountsAt(root.path(folder))).length > 0;
}
