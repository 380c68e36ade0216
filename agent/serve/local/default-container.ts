import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { defaultContainerAnnotation } from "../../../proto/kubernetes/well-known-names.ts";

/** The header of a log whose container the request did not name: which it is, `"a" out of: a, b`. */
export const DEFAULT_CONTAINER = "berth-default-container";

/** The container that kubectl takes if none is named: that of the annotation if there is such a one, else the first. */
export function defaultContainerOf({ metadata, spec }: Pod): string {
  const annotated = metadata.annotations?.[defaultContainerAnnotation];
  const found = allContainers(spec).find(({ name }) => name === annotated) ?? spec.containers[0];
  return found?.name ?? "";
}
