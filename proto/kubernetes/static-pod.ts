import { fnv128a } from "../fnv.ts";
import { defaultPod } from "./defaults/pod.ts";
import type { Pod, Toleration } from "./gen/types.ts";
import { hashAnnotation, sourceAnnotation } from "./well-known-names.ts";

/** Where a static pod was read from. */
export type StaticPodSource =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "http"; readonly url: string };

export interface StaticPodOrigin {
  readonly nodeName: string;
  readonly source: StaticPodSource;
}

/** The NoExecute toleration with which static pods from files stay on an unhealthy node. */
const noExecuteToleration: Toleration = { operator: "Exists", effect: "NoExecute" };

/**
 * Converts a manifest to the pod of this node: with defaults, with a UID derived from content and source, with the
 * node's name as suffix, bound to the node. The manifest must have been decoded (decodeStrict); validate the result
 * with validatePod. The caller, which knows the time, adds the annotation `kubernetes.io/config.seen`.
 *
 * The UID is that of the manifest before defaulting, so that an agent release with other defaults does not replace
 * every static pod of the node. Rule: the kubelet's pkg/kubelet/config/common.go.
 */
export function staticPod(manifest: Pod, { nodeName, source }: StaticPodOrigin): Pod {
  const uid = manifest.metadata.uid || hashStaticPod(manifest, { nodeName, source });
  const { metadata, spec } = defaultPod(manifest);
  return {
    ...manifest,
    metadata: {
      ...metadata,
      name: `${metadata.name ?? ""}-${nodeName.toLowerCase()}`,
      namespace: metadata.namespace || "default",
      uid,
      annotations: { ...metadata.annotations, [hashAnnotation]: uid, [sourceAnnotation]: source.kind },
    },
    spec: {
      ...spec,
      nodeName,
      ...(source.kind === "file" && { tolerations: withNoExecute(spec.tolerations ?? []) }),
    },
    status: { phase: "Pending" },
  };
}

/** Independent of restarts and of the key order of the manifest; a different file or node gives a different UID. */
function hashStaticPod({ metadata, spec }: Pod, { nodeName, source }: StaticPodOrigin): string {
  const origin = source.kind === "file" ? `host:${nodeName}file:${source.path}` : `url:${source.url}`;
  return fnv128a(`${stableJson({ metadata, spec })}${origin}`);
}

/** JSON with sorted keys, so that equal objects give equal text. */
function stableJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(stableJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, field]) => `${JSON.stringify(key)}:${stableJson(field)}`);
  return `{${fields.join(",")}}`;
}

/** Replaces an equal toleration with any duration, or adds one. */
function withNoExecute(tolerations: readonly Toleration[]): readonly Toleration[] {
  const isEqual = ({ key, operator, value, effect }: Toleration) =>
    !key && !value && operator === noExecuteToleration.operator && effect === noExecuteToleration.effect;
  if (!tolerations.some(isEqual)) return [...tolerations, noExecuteToleration];
  return tolerations.map((toleration) => (isEqual(toleration) ? noExecuteToleration : toleration));
}
