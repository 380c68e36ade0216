import { dirname } from "node:path/posix";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import { READY_FILE, type VolumeDirSource, volumePluginDirs } from "../../../proto/kubelet/pod-dirs.ts";
import type { Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { volumeNamed } from "../../../proto/kubernetes/volumes.ts";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import { contentOf } from "../../translate/volumes/content.ts";
import { mediumOf } from "../../translate/volumes/medium.ts";
import { memoryVolumeBytes } from "../../translate/volumes/memory-limit.ts";
import {
  missingDriverError,
  type SourceWithoutDriver,
  type VolumeSource,
} from "../../translate/volumes/missing-drivers.ts";
import { mountError } from "../../translate/volumes/mount-error.ts";
import { volumeDir, volumeDirSource, volumeReadyDir } from "../../translate/volumes/paths.ts";
import { writeContent } from "./atomic-writer.ts";
import { checkHostPath } from "./host-path.ts";
import { removeLocal } from "./local-volume.ts";
import { isPresent } from "./mount-point.ts";
import { type NfsDeps, removeNfs, setUpNfs } from "./nfs.ts";
import { setUpClaimedVolume } from "./persistent-volumes.ts";
import { type NodeDirs, removeUnlessMounted } from "./pod-dirs.ts";
import { rethrowMountError } from "./rethrow-mount-error.ts";
import { type UnmountDeps, unmountAt } from "./unmount.ts";
import type { VolumeDeps } from "./volume-deps.ts";
import { unmapDevice } from "./volume-devices.ts";

/** How the volumes of one source are set up. Every source is one entry of the table below. */
interface VolumePlugin<V extends Volume> {
  /** Creates the volume, or checks it. Idempotent. Throws `FilesError` or `TranslateError`. */
  setUp(deps: VolumeDeps, pod: Pod, volume: V, signal: AbortSignal): Promise<void>;
}

type VolumeWith<Source extends VolumeSource> = Volume & Required<Pick<Volume, Source>>;

const volumePlugins = {
  hostPath: { setUp: (deps, _pod, volume, signal) => checkHostPath(deps, volume, signal) },
  emptyDir: {
    async setUp(deps, pod, volume) {
      const { disk, mounts, facts } = deps;
      const medium = mediumOf(pod, volume);
      const folder = await makeVolumeDir(disk, pod, volume.name, "emptyDir");
      const path = disk.root.path(folder);
      if (medium.kind === "memory")
        await mounts.mountTmpfs(path, { ...tmpfsOwner(pod), ...tmpfsSize(pod, volume, facts()) });
      if (medium.kind === "huge pages")
        await mounts.mountHugePages(path, { ...hugePagesOwner(pod), pageBytes: medium.pageBytes });
      await markReady(deps, pod, volume.name, "emptyDir");
    },
  },
  configMap: { setUp: (deps, pod, volume) => setUpContent(deps, pod, volume, "configMap") },
  // On a tmpfs, as with the kubelet, so that no Secret is on the disk.
  secret: { setUp: (deps, pod, volume) => setUpContent(deps, pod, volume, "secret") },
  downwardAPI: { setUp: (deps, pod, volume) => setUpContent(deps, pod, volume, "downwardAPI") },
  projected: { setUp: (deps, pod, volume) => setUpContent(deps, pod, volume, "projected") },
  nfs: {
    setUp(deps, { metadata: { uid = "" } }, { name, nfs: source }, signal) {
      const names = { specName: name, nameInPod: name };
      return setUpNfs(deps, { uid, names, source, mountOptions: [], isReadOnly: source.readOnly === true }, signal);
    },
  },
  persistentVolumeClaim: { setUp: setUpClaimedVolume },
  ephemeral: { setUp: setUpClaimedVolume },
} satisfies {
  readonly [Source in Exclude<VolumeSource, SourceWithoutDriver | "image">]: VolumePlugin<VolumeWith<Source>>;
};

const sources = Object.keys(volumePlugins) as readonly (keyof typeof volumePlugins)[];

/** Undefined for a source that this release does not support. */
function pluginOf(volume: Partial<Volume>): VolumePlugin<Volume> | undefined {
  const source = sources.find((each) => volume[each] !== undefined);
  return source && volumePlugins[source];
}

/**
 * Creates a volume of the pod, or checks or updates it. Idempotent. Throws `TranslateError`, in the kubelet's words, with
 * the name of the volume.
 */
export async function setUpVolume(deps: VolumeDeps, pod: Pod, name: string, signal: AbortSignal): Promise<void> {
  const volume = volumeNamed(pod, name) ?? { name };
  const plugin = pluginOf(volume);
  if (plugin === undefined) throw missingDriverError({ specName: name, nameInPod: name }, volume);
  await plugin.setUp(deps, pod, volume, signal).catch(rethrowMountError(name));
}

/** Whether a volume without a claim that is set up is on the node, where `observed/` finds it by this name. */
export function isVolumeOnNode(pod: Pod, name: string): boolean {
  const volume = volumeNamed(pod, name);
  return volume !== undefined && volumeDirSource(volume) !== undefined;
}

/**
 * Unmounts and removes what a volume has left on the node, by its name alone: the pod may not be desired any more.
 * Idempotent. Throws `FilesError`, `TranslateError`, or the signal's reason.
 */
export async function removeVolume(
  deps: NfsDeps & UnmountDeps & Pick<VolumeDeps, "readyMounts">,
  { uid, name }: { readonly uid: string; readonly name: string },
  signal: AbortSignal,
): Promise<void> {
  const { disk } = deps;
  for (const pluginDir of Object.values(volumePluginDirs)) {
    const folder = volumeDir(uid, pluginDir, name);
    const readyDir = volumeReadyDir(uid, pluginDir, name);
    deps.readyMounts.delete(folder);
    if (pluginDir === volumePluginDirs.nfs) await removeNfs(deps, folder, signal);
    else if (pluginDir === volumePluginDirs.local) await removeLocal(deps, folder, signal);
    else if (await isPresent(deps, folder)) {
      // First, as by the kubelet: what is half removed is not ready.
      if (readyDir !== undefined) await disk.root.remove(readyDir);
      await removeDir(deps, pluginDir, folder, signal);
    }
  }
  await unmapDevice(deps, { uid, name });
}

/** A container may have mounted the file system of a server there, which may not answer: no call looks at that. */
async function removeDir(deps: UnmountDeps, pluginDir: string, folder: string, signal: AbortSignal): Promise<void> {
  const { disk, mounts } = deps;
  const path = disk.root.path(folder);
  // umount2 frees the memory of a file system while nothing else of the agent runs: a gigabyte takes two seconds.
  if (pluginDir === volumePluginDirs.emptyDir && (await isMemoryOfVolume(mounts, path)))
    await removeContent(disk.root, folder);
  await unmountAt(deps, path, signal);
  await removeUnlessMounted(disk, mounts, folder);
}

/**
 * Whether the only mount at the path of an emptyDir, and below it, is a whole file system in memory that nothing else
 * shows. A privileged container may have mounted anything else over the volume (`mountPropagation: Bidirectional`), such
 * as the node's /dev/shm: those files are not the pod's.
 */
async function isMemoryOfVolume(mounts: UnmountDeps["mounts"], path: string): Promise<boolean> {
  const [own, ...stacked] = await mounts.mountsAt(path);
  if (own === undefined || stacked.length > 0 || own.root !== "/") return false;
  if (own.fsType !== "tmpfs" && own.fsType !== "hugetlbfs") return false;
  const others = (await mounts.list()).filter(({ mountPoint }) => mountPoint !== own.mountPoint);
  return !others.some(({ device, mountPoint }) => device === own.device || mountPoint.startsWith(`${own.mountPoint}/`));
}

/** Removes the files in a folder, beside everything else that the agent does. */
async function removeContent(root: Files, folder: string): Promise<void> {
  for (const { name } of (await root.list(folder)) ?? []) await root.remove(`${folder}/${name}`);
}

/**
 * Any user may write to a new directory, as with the kubelet; containers mount those of content volumes read-only. The
 * setgid bit gives new files the pod's fsGroup.
 */
async function makeVolumeDir({ root }: NodeDirs, pod: Pod, name: string, source: VolumeDirSource): Promise<string> {
  const folder = volumeDir(pod.metadata.uid ?? "", volumePluginDirs[source], name);
  const group = pod.spec.securityContext?.fsGroup;
  await root.makeFolder(folder, group === undefined ? 0o777 : 0o2777, group);
  return folder;
}

/**
 * Leaves the file by which a kubelet that takes over the node knows a volume that is set up. Like the kubelet it does
 * without it on a disk that is full.
 */
async function markReady({ disk: { root }, log }: VolumeDeps, pod: Pod, name: string, source: VolumeDirSource) {
  const { uid = "", namespace, name: podName } = pod.metadata;
  const folder = volumeReadyDir(uid, volumePluginDirs[source], name);
  const file = `${folder}/${READY_FILE}`;
  try {
    if (folder === undefined || (await root.stat(file)) !== undefined) return;
    for (const each of [dirname(folder), folder]) await root.makeFolder(each, 0o750);
    await root.makeFile(file, 0o644);
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    log.warn(
      { pod: `${namespace}/${podName}`, uid, volume: name },
      `a mark for the kubelet is missing: ${error.message}`,
    );
  }
}

/** The root directory of a file system in memory, as the kubelet leaves it. */
function tmpfsOwner({ spec }: Pod): { readonly mode: number; readonly group?: number } {
  const group = spec.securityContext?.fsGroup;
  return group === undefined ? { mode: 0o1777 } : { mode: 0o3777, group };
}

/** Mode and group of an emptyDir in huge pages: it is root's unless the pod has an fsGroup. */
function hugePagesOwner({ spec }: Pod): { readonly mode: number; readonly group?: number } {
  const group = spec.securityContext?.fsGroup;
  return group === undefined ? { mode: 0o755 } : { mode: 0o2775, group };
}

function tmpfsSize(pod: Pod, volume: Volume, facts: NodeFacts): { readonly sizeBytes?: number } {
  const sizeBytes = memoryVolumeBytes(pod, volume, facts);
  return sizeBytes === undefined ? {} : { sizeBytes };
}

/** Writes the files of a volume. It makes their content first: if an object or key is missing, no directory is made. */
async function setUpContent(deps: VolumeDeps, pod: Pod, volume: Volume, source: VolumeDirSource): Promise<void> {
  const { disk, mounts, facts, clock } = deps;
  const content = contentOf({ pod, facts: facts() }, volume);
  const folder = await makeVolumeDir(disk, pod, volume.name, source);
  if (source !== "configMap")
    await mounts.mountTmpfs(disk.root.path(folder), { ...tmpfsOwner(pod), ...tmpfsSize(pod, volume, facts()) });
  try {
    await writeContent(disk.root, folder, content, clock.now(), pod.spec.securityContext?.fsGroup);
  } catch (error) {
    throw error instanceof TranslateError ? mountError(volume, error.message) : error;
  }
  await markReady(deps, pod, volume.name, source);
}
