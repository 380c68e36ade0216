import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { mirrorAnnotation } from "../../../proto/kubernetes/well-known-names.ts";

/** The uid of the static pod that a mirror pod represents; undefined for all other pods of the API. */
export function mirroredUid({ metadata }: Pod): string | undefined {
  return metadata.annotations?.[mirrorAnnotation];
}

/** True for a pod with a terminal phase: the API server never accepts another phase afterwards. */
export function isTerminal(status: Pick<PodStatus, "phase"> | undefined): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}
