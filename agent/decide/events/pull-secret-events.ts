import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { pullSecretReferences, type ReferencedObjects, referenceKey } from "../../../proto/kubernetes/references.ts";
import { recordOf } from "../pod/action.ts";
import type { ActionStarted } from "../pod/action-call.ts";
import type { PodEvent } from "./pod-event.ts";

/** The event for image pull Secrets that are missing or could not be read, before an image is pulled or used. */
export function pullSecretEvents(
  { action }: ActionStarted,
  pod: Pod | undefined,
  referents: ReferencedObjects,
): readonly PodEvent[] {
  if (pod === undefined || !recordOf(action).uses?.includes("pullSecrets")) return [];
  const missing = pullSecretReferences(pod).filter(
    (each) => (referents.get(referenceKey(each)) ?? "absent") === "absent",
  );
  if (missing.length === 0) return [];
  const names = missing.map(({ name }) => name).join(", ");
  const message = `Unable to retrieve some image pull secrets (${names}); attempting to pull the image may not succeed.`;
  return [{ type: "Warning", reason: "FailedToRetrieveImagePullSecret", message }];
}
