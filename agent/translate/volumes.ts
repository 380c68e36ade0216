import type { Pod, Volume } from "../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "./node-facts.ts";
import { TranslateError } from "./translate-error.ts";

/** The folder of everything a pod has on this node but its logs, relative to the root directory. */
export function podFolder(uid: string): string {
  return `pods/${pathPart(uid, "metadata.uid")}`;
}

/** A text from outside that becomes one part of a path, and no more: `..` or a slash would lead elsewhere. */
export function pathPart(text: string, what: string): string {
  if (text === "" || text === "." || text === ".." || /[/\0]/.test(text))
    throw new TranslateError("FailedMount", `${what} cannot be the name of a folder: ${JSON.stringify(text)}`);
  return text;
}

/** Where an emptyDir lives, relative to the root directory; the layout is the kubelet's. */
export function emptyDirFolder(uid: string, volume: string): string {
  return `${podFolder(uid)}/volumes/kubernetes.io~empty-dir/${pathPart(volume, "the name of a volume")}`;
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
