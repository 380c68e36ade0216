import type { DesiredPod } from "./pod/desired.ts";

/** Which generation of the pod a status tells of; a static pod has none. */
export function generationOf({ pod: { metadata }, source }: DesiredPod): { readonly observedGeneration?: number } {
  const { generation } = metadata;
  return source.kind !== "api" || generation === undefined ? {} : { observedGeneration: generation };
}
