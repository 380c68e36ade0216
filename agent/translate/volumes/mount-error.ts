import type { Volume } from "../../../proto/kubernetes/gen/types.ts";
import { TranslateError } from "../translate-error.ts";

/** Returns the error of a volume that cannot be set up, in the words of the kubelet's event. */
export function mountError({ name }: Pick<Volume, "name">, message: string): TranslateError {
  return new TranslateError("FailedMount", `MountVolume.SetUp failed for volume "${name}" : ${message}`);
}
