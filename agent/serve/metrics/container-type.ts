import { containerNamed, isEphemeral, isInitContainer } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";

/** The label `container_type`. */
export function containerTypeOf(pod: Pod | undefined, name: string): string {
  if (pod === undefined || containerNamed(pod, name) === undefined) return "container";
  if (isInitContainer(pod, name)) return "init_container";
  return isEphemeral(pod, name) ? "ephemeral_container" : "container";
}
