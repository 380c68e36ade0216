import type { Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { isContentVolume } from "../../../proto/kubernetes/volumes.ts";
import type { NodeFacts } from "../node-facts.ts";
import { claimedVolumeOf } from "./claimed-volume.ts";
import { localVolumeDir, nfsVolumeDir, volumeHostPath } from "./paths.ts";

/** Where a volume that is set up is on the node. */
export interface VolumeLocation {
  readonly hostPath: string;
  /** Containers can only read it, whatever their `volumeMounts` say. */
  readonly isReadOnly: boolean;
  /** The runtime gives it the SELinux label of the containers. A path of the node or of a server keeps its label. */
  readonly isRelabelled: boolean;
  /** A server has its files, and may not answer. */
  readonly isRemote?: true;
  /** It is a path of the node, where a file system of a server may be mounted. */
  readonly isNodePath?: true;
}

/** Undefined for a volume that this node has no driver for: its pod waits. Throws `TranslateError` for an unbound claim. */
export function volumeLocation(
  pod: Pod,
  volume: Volume,
  facts: Pick<NodeFacts, "rootDir" | "cluster">,
): VolumeLocation | undefined {
  const claimed = claimedVolumeOf({ pod, facts }, volume);
  if (claimed === undefined) {
    const hostPath = volumeHostPath(pod, volume, facts);
    if (hostPath === undefined) return undefined;
    const isReadOnly = isContentVolume(volume) || volume.nfs?.readOnly === true;
    if (volume.nfs !== undefined) return { hostPath, isReadOnly, isRelabelled: false, isRemote: true };
    if (volume.hostPath !== undefined) return { hostPath, isReadOnly, isRelabelled: false, isNodePath: true };
    return { hostPath, isReadOnly, isRelabelled: true };
  }
  const { names, spec, isReadOnly } = claimed;
  if (spec.hostPath !== undefined)
    return { hostPath: spec.hostPath.path, isReadOnly, isRelabelled: false, isNodePath: true };
  const { uid = "" } = pod.metadata;
  if (spec.nfs !== undefined) {
    const hostPath = `${facts.rootDir}/${nfsVolumeDir(uid, names.specName)}`;
    return { hostPath, isReadOnly, isRelabelled: false, isRemote: true };
  }
  if (spec.local === undefined) return undefined;
  const hostPath = `${facts.rootDir}/${localVolumeDir(uid, names.specName)}`;
  return { hostPath, isReadOnly, isRelabelled: !isReadOnly, isNodePath: true };
}
