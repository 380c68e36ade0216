import type { MeasurableVolume } from "../../../proto/kubelet/volume-stats.ts";
import { claimReferenceOf } from "../../../proto/kubernetes/claims.ts";
import type { Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { parseQuantity, QuantityError, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import { usedVolumes } from "../../../proto/kubernetes/volumes.ts";
import type { NodeFacts } from "../node-facts.ts";
import { TranslateError } from "../translate-error.ts";
import { memoryVolumeBytes } from "./memory-limit.ts";
import { volumeDirSource } from "./paths.ts";
import { volumeLocation } from "./volume-location.ts";

type MeasuredFacts = Pick<NodeFacts, "rootDir" | "cluster" | "allocatable">;

/**
 * The volumes that the pod's containers use, and how each is measured: those whose files the agent writes, and emptyDirs,
 * by `du`; those with a file system of their own, also of a server, by `statfs`; a path of the node not at all.
 */
export function measurableVolumes(pod: Pod, facts: MeasuredFacts): readonly MeasurableVolume[] {
  return usedVolumes(pod.spec).map((volume) => {
    const claim = claimReferenceOf(pod, volume)?.name;
    const limitBytes = limitOf(pod, volume, facts);
    const folder = folderOf(pod, volume, facts);
    return {
      name: volume.name,
      kind: Object.keys(volume).find((key) => key !== "name") ?? "",
      ...(claim !== undefined && { claim }),
      ...(limitBytes !== undefined && { limitBytes }),
      ...(folder !== undefined && { folder, measurement: isFilledByAgent(volume) ? "du" : "statfs" }),
    };
  });
}

/** A walk through the files of a server that does not answer would last until it is back. */
function isFilledByAgent(volume: Volume): boolean {
  return volume.nfs === undefined && volumeDirSource(volume) !== undefined;
}

/** Undefined for a path of the node, and while the volume cannot be set up. */
function folderOf(pod: Pod, volume: Volume, facts: MeasuredFacts): string | undefined {
  try {
    const { hostPath = "" } = volumeLocation(pod, volume, facts) ?? {};
    const prefix = `${facts.rootDir}/pods/${pod.metadata.uid}/volumes/`;
    return hostPath.startsWith(prefix) ? hostPath.slice(facts.rootDir.length + 1) : undefined;
  } catch (error) {
    // A claim that is not bound: the pod's events say so.
    if (error instanceof TranslateError) return undefined;
    throw error;
  }
}

function limitOf(pod: Pod, volume: Volume, facts: MeasuredFacts): number | undefined {
  const { emptyDir } = volume;
  try {
    if (emptyDir?.medium === "Memory") return memoryVolumeBytes(pod, volume, facts);
    return emptyDir?.sizeLimit === undefined ? undefined : toNumber(parseQuantity(emptyDir.sizeLimit));
  } catch (error) {
    // The pod does not start with such a limit, and its events say so. The figures of other pods do not depend on it.
    if (error instanceof QuantityError) return undefined;
    throw error;
  }
}
