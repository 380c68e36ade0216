import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ClaimedVolume } from "../../translate/volumes/claimed-volume.ts";
import type { VolumeDeps } from "./volume-deps.ts";

/** A persistent volume, and the pod that uses it. */
export interface PersistentVolumeInput {
  readonly deps: VolumeDeps;
  readonly pod: Pod;
  readonly claimed: ClaimedVolume;
  readonly signal: AbortSignal;
}
