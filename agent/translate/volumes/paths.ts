import {
  formatInstanceMark,
  globalDeviceDirOf,
  PODS_DIR,
  readyDirOf,
  SUB_PATHS_DIR,
  type VolumeDirSource,
  volumeDeviceOf,
  volumeDirOf,
  volumePluginDirs,
} from "../../../proto/kubelet/pod-dirs.ts";
import type { Container, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "../node-facts.ts";
import { TranslateError } from "../translate-error.ts";

const VOLUME_NAME = "the name of a volume";

/** The pod's directory, relative to the root directory. It holds everything of the pod except its logs. */
export function podDir(uid: string): string {
  return `${PODS_DIR}/${pathPart(uid, "metadata.uid")}`;
}

/**
 * Checks a user-supplied name that becomes one path component. Throws `TranslateError` for `..` or a slash, which would
 * lead elsewhere.
 */
export function pathPart(text: string, what: string): string {
  if (!isPathPart(text))
    throw new TranslateError("FailedMount", `${what} cannot be the name of a folder: ${JSON.stringify(text)}`);
  return text;
}

/** Whether a text can be one path component. */
export function isPathPart(text: string): boolean {
  return text !== "" && text !== "." && text !== ".." && !/[/\0]/.test(text);
}

/** The directory of one volume, relative to the root directory. `pluginDir` is that of the volume's source. */
export function volumeDir(uid: string, pluginDir: string, volume: string): string {
  return `${podDir(uid)}/${volumeDirOf(pluginDir, pathPart(volume, VOLUME_NAME))}`;
}

/** The directory with the file that shows that a volume's directory is made, relative to the root directory. */
export function volumeReadyDir(uid: string, pluginDir: string, volume: string): string | undefined {
  const folder = readyDirOf(pluginDir, pathPart(volume, "the name of a volume"));
  return folder && `${podDir(uid)}/${folder}`;
}

/** Where a local persistent volume is mounted for a pod, relative to the root directory. */
export function localVolumeDir(uid: string, persistentVolume: string): string {
  return volumeDir(uid, volumePluginDirs.local, persistentVolume);
}

/** Where a volume of an NFS server is mounted for a pod, relative to the root directory; a persistent one by its own name. */
export function nfsVolumeDir(uid: string, volume: string): string {
  return volumeDir(uid, volumePluginDirs.nfs, volume);
}

/** The symlink to the block device of a local persistent volume of a pod, relative to the root directory. */
export function localDeviceLink(uid: string, persistentVolume: string): string {
  return `${podDir(uid)}/${volumeDeviceOf(volumePluginDirs.local, pathPart(persistentVolume, VOLUME_NAME))}`;
}

/** Where the block device of a local persistent volume is mounted, once for each pod, relative to the root directory. */
export function globalDeviceDir(persistentVolume: string): string {
  return globalDeviceDirOf(volumePluginDirs.local, pathPart(persistentVolume, VOLUME_NAME));
}

/** The directory of one emptyDir, relative to the root directory. */
export function emptyDirPath(uid: string, volume: string): string {
  return volumeDir(uid, volumePluginDirs.emptyDir, volume);
}

type DirSource = Exclude<VolumeDirSource, "local">;

const dirSources: readonly DirSource[] = ["configMap", "downwardAPI", "emptyDir", "nfs", "projected", "secret"];

/** The source of a volume of the pod that has a directory of its own, by its name in the pod; undefined for any other. */
export function volumeDirSource(volume: Volume): DirSource | undefined {
  return dirSources.find((source) => volume[source] !== undefined);
}

/** The host path of a volume; undefined for unsupported kinds, whose pods wait. */
export function volumeHostPath(
  { metadata }: Pod,
  volume: Volume,
  facts: Pick<NodeFacts, "rootDir">,
): string | undefined {
  if (volume.hostPath !== undefined) return volume.hostPath.path;
  const source = volumeDirSource(volume);
  if (source === undefined) return undefined;
  return `${facts.rootDir}/${volumeDir(metadata.uid ?? "", volumePluginDirs[source], volume.name)}`;
}

/** Where all `subPath`s of a pod are mounted, relative to the root directory. */
export function subPathsDir(uid: string): string {
  return `${podDir(uid)}/${SUB_PATHS_DIR}`;
}

/** Where the `subPath` of one `volumeMounts[index]` is mounted, relative to the root directory. */
export function subPathTarget(
  uid: string,
  { container, volume, index }: { readonly container: string; readonly volume: string; readonly index: number },
): string {
  const [volumePart, containerPart] = [pathPart(volume, VOLUME_NAME), pathPart(container, "the name of a container")];
  return `${subPathsDir(uid)}/${volumePart}/${containerPart}/${index}`;
}

/** The directory of all containers that the pod has had, relative to the root directory. */
export function containersDir(uid: string): string {
  return `${podDir(uid)}/containers`;
}

/** The directory of one container of the pod, relative to the root directory. */
export function containerDir(uid: string, container: string): string {
  return `${containersDir(uid)}/${pathPart(container, "the name of a container")}`;
}

/**
 * The termination-message file of a container instance, relative to the root directory. The kubelet uses eight random
 * digits. Here they are the attempt, so that a container created twice, and the cleanup, find the same file.
 */
export function terminationLogFile(uid: string, container: string, attempt: number): string {
  return `${containerDir(uid, container)}/${attempt.toString(16).padStart(8, "0")}`;
}

/** Marks an instance whose `postStart` hook has not succeeded yet; relative to the root directory. */
export function postStartMark(uid: string, container: string, attempt: number): string {
  return `${containerDir(uid, container)}/${formatInstanceMark("post-start", attempt)}`;
}

/** Marks an instance whose `preStop` hook has ended; relative to the root directory. */
export function preStopMark(uid: string, container: string, attempt: number): string {
  return `${containerDir(uid, container)}/${formatInstanceMark("pre-stop", attempt)}`;
}

/** Marks an instance that was removed by RestartAllContainers; relative to the root directory. */
export function removedForRestartMark(uid: string, container: string, attempt: number): string {
  return `${containerDir(uid, container)}/${formatInstanceMark("cleared", attempt)}`;
}

/** Marks an instance that has started, or is ready, by its probes; relative to the root directory. */
export function probeMarkFile(
  uid: string,
  { mark, name, attempt }: { readonly mark: "started" | "ready"; readonly name: string; readonly attempt: number },
): string {
  return `${containerDir(uid, name)}/${formatInstanceMark(mark, attempt)}`;
}

/** The path of the termination-message file in the container; undefined when the container disables it. */
export function terminationMessagePath({ terminationMessagePath: path = "/dev/termination-log" }: Container) {
  return path === "" ? undefined : absolutePath(path);
}

/** The API server accepts relative mount paths, which are relative to the container's root. */
export function absolutePath(path: string): string {
  return path.startsWith("/") ? path : `/${path}`;
}
