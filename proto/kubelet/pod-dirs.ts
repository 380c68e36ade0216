/**
 * The kubelet's layout of the directories of pods below its root directory and below `podLogsDir`. Nothing is checked
 * here: who makes a path of a name that a user supplied checks the name before.
 */

/** The directory below the root directory that holds those of all pods. */
export const PODS_DIR = "pods";

/** The file in a pod's directory that records the ids of its user namespace. */
export const USER_NAMESPACE_FILE = "userns";

/** The directory in a pod's directory that holds the mounts of `subPath`. */
export const SUB_PATHS_DIR = "volume-subpaths";

/**
 * By source: the directory below a pod's `volumes` that holds its volumes of that source. A persistent volume has its own
 * name there, not the one that it has in the pod.
 */
export const volumePluginDirs = {
  configMap: "kubernetes.io~configmap",
  downwardAPI: "kubernetes.io~downward-api",
  emptyDir: "kubernetes.io~empty-dir",
  local: "kubernetes.io~local-volume",
  nfs: "kubernetes.io~nfs",
  projected: "kubernetes.io~projected",
  secret: "kubernetes.io~secret",
} as const;

/** A source of volumes that have a directory of their own below that of their pod. */
export type VolumeDirSource = keyof typeof volumePluginDirs;

/** The directory of a volume, relative to the directory of its pod. */
export function volumeDirOf(pluginDir: string, volume: string): string {
  return `volumes/${pluginDir}/${volume}`;
}

/** The symlink to the block device of a volume, relative to the directory of its pod. */
export function volumeDeviceOf(pluginDir: string, volume: string): string {
  return `volumeDevices/${pluginDir}/${volume}`;
}

/** The directory with the bind mounts of a block device, one a pod, relative to the root directory. */
export function globalDeviceDirOf(pluginDir: string, volume: string): string {
  return `plugins/${pluginDir}/volumeDevices/${volume}`;
}

/**
 * The directory whose file `ready` shows that the directory of a volume is made, relative to the directory of its pod.
 * The kubelet makes every volume of files that it writes itself on an emptyDir, which it names `wrapped_VOLUME`.
 * Undefined for a volume without one.
 */
export function readyDirOf(pluginDir: string, volume: string): string | undefined {
  if (pluginDir === volumePluginDirs.local) return undefined;
  const name = pluginDir === volumePluginDirs.emptyDir ? volume : `wrapped_${volume}`;
  return `plugins/${volumePluginDirs.emptyDir}/${name}`;
}

/** The file in a {@link readyDirOf}. It is empty. */
export const READY_FILE = "ready";

/**
 * What a file in the directory of a container marks: an instance whose `postStart` hook has not succeeded yet, one whose
 * `preStop` hook has ended, one that was removed by RestartAllContainers, or one that has started or is ready by its
 * probes.
 */
export type InstanceMark = "post-start" | "pre-stop" | "cleared" | "started" | "ready";

export function formatInstanceMark(mark: InstanceMark, attempt: number): string {
  return `${mark}-${attempt.toString(16).padStart(8, "0")}`;
}

/** Undefined for any other file. */
export function parseInstanceMark(file: string): { readonly mark: InstanceMark; readonly attempt: number } | undefined {
  const [, mark, digits = ""] = /^(post-start|pre-stop|cleared|started|ready)-([0-9a-f]{8})$/.exec(file) ?? [];
  return mark === undefined ? undefined : { mark: mark as InstanceMark, attempt: Number.parseInt(digits, 16) };
}

/** Whose logs a directory holds. */
interface LogOwner {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The log directory of a pod below `podLogsDir`, which `kubectl logs` and log collectors expect. */
export function formatLogDir({ namespace, name, uid }: LogOwner): string {
  return `${namespace}_${name}_${uid}`;
}

/** Namespaces and names have no underscore. Undefined for any other directory. */
export function parseLogDir(folder: string): LogOwner | undefined {
  const [, namespace = "", name = "", uid = ""] = /^([a-z0-9-]+)_([a-z0-9.-]+)_(.+)$/.exec(folder) ?? [];
  return uid === "" ? undefined : { namespace, name, uid };
}
