import type { PersistentVolumeSpec } from "../../../proto/kubernetes/gen/types.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import type { VolumeNames } from "../../translate/volumes/missing-drivers.ts";

/** The kubelet's name of the set-up of a persistent volume. */
export const operationOn = ({ volumeMode }: PersistentVolumeSpec): "MapVolume" | "MountVolume" =>
  volumeMode === "Block" ? "MapVolume" : "MountVolume";

/** The failure of a step before the set-up; the kubelet words it so in its event. */
export function stepError(
  step: string,
  { specName }: VolumeNames,
  why: string,
  operation: ReturnType<typeof operationOn> = "MountVolume",
): TranslateError {
  return new TranslateError("FailedMount", `${operation}.${step} for volume "${specName}" : ${why}`);
}
