/**
 * The kubelet's layout of the directories of pods below its root directory and below `podLogsDir`. Nothing is checked
 * here: who makes a path of a name that a user supplied checks the name before.
 */

/** The directory below the root directory that holds those of all pods. */
export const PODS_DIR = "pods";

/** The file in a pod's directory that records the ids of its user namespace. */
export const USER_NAMESPACE_FILE = "userns";

/** By source: the directory below a pod's `volumes` that holds its volumes of that source. */
export const volumePluginDirs = {
  emptyDir: "kubernetes.io~empty-dir",
} as const;

/** The directory of a volume, relative to the directory of its pod. */
export function volumeDirOf(pluginDir: string, volume: string): string {
  return `volumes/${pluginDir}/${volume}`;
}

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
