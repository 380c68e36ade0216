import type { Container, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "../node-facts.ts";
import { TranslateError } from "../translate-error.ts";

/** The folder of everything a pod has on this node but its logs, relative to the root directory. */
export function podFolder(uid: string): string {
  return `pods/${pathPart(uid, "metadata.uid")}`;
}

/** A text from outside that becomes one part of a path, and no more: `..` or a slash would lead elsewhere. */
export function pathPart(text: string, what: string): string {
  if (!isPathPart(text))
    throw new TranslateError("FailedMount", `${what} cannot be the name of a folder: ${JSON.stringify(text)}`);
  return text;
}

/** Whether a text can be one part of a path. */
export function isPathPart(text: string): boolean {
  return text !== "" && text !== "." && text !== ".." && !/[/\0]/.test(text);
}

/** Where the emptyDirs of a pod live, relative to the root directory; the layout is the kubelet's. */
export function emptyDirsFolder(uid: string): string {
  return `${podFolder(uid)}/volumes/kubernetes.io~empty-dir`;
}

/** Where an emptyDir lives, relative to the root directory. */
export function emptyDirFolder(uid: string, volume: string): string {
  return `${emptyDirsFolder(uid)}/${pathPart(volume, "the name of a volume")}`;
}

/** The path on the host of a volume; undefined for kinds that are not carried out (their pods are rejected before). */
export function volumeHostPath(
  { metadata }: Pod,
  volume: Volume,
  facts: Pick<NodeFacts, "rootDir">,
): string | undefined {
  if (volume.hostPath !== undefined) return volume.hostPath.path;
  if (volume.emptyDir !== undefined) return `${facts.rootDir}/${emptyDirFolder(metadata.uid ?? "", volume.name)}`;
  return undefined;
}

/** The folder of what one container of the pod has on this node but its logs, relative to the root directory. */
export function containerFolder(uid: string, container: string): string {
  return `${podFolder(uid)}/containers/${pathPart(container, "the name of a container")}`;
}

/**
 * Where an instance of a container leaves its last words, relative to the root directory. The kubelet draws the eight digits by lot;
 * here they count instances, so that a container that is made twice finds its file, and whoever removes it, too.
 */
export function terminationLog(uid: string, container: string, attempt: number): string {
  return `${containerFolder(uid, container)}/${attempt.toString(16).padStart(8, "0")}`;
}

/** The mark of an instance whose `postStart` hook has not succeeded yet, relative to the root directory. */
export function postStartMark(uid: string, container: string, attempt: number): string {
  return `${containerFolder(uid, container)}/post-start-${attempt.toString(16).padStart(8, "0")}`;
}

/** The mark of an instance that was removed so that all of its pod begin anew, relative to the root directory. */
export function clearedMark(uid: string, container: string, attempt: number): string {
  return `${containerFolder(uid, container)}/cleared-${attempt.toString(16).padStart(8, "0")}`;
}

/** Where a container finds that file; undefined for one that wants none. */
export function terminationMessagePath({ terminationMessagePath: path = "/dev/termination-log" }: Container) {
  return path === "" ? undefined : absolute(path);
}

/** The API takes relative paths in a container and means them from its root. */
export function absolute(path: string): string {
  return path.startsWith("/") ? path : `/${path}`;
}
