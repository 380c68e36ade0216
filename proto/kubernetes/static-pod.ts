import { fnv128a } from "../fnv.ts";
import { defaultPod } from "./defaults/pod.ts";
import type { Pod, Toleration } from "./gen/types.ts";

/** Where a static pod was read from. */
export type StaticPodSource =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "http"; readonly url: string };

export interface StaticPodPlace {
  readonly nodeName: string;
  readonly source: StaticPodSource;
}

const hashAnnotation = "kubernetes.io/config.hash";
const sourceAnnotation = "kubernetes.io/config.source";

/** Pods from files stay when the node is not well. */
const toleratesNoExecute: Toleration = { operator: "Exists", effect: "NoExecute" };

/**
 * The pod that a manifest asks for on this node: defaults filled in, UID made of content and place, the node's name behind
 * its own, bound to the node. The manifest's shape has been checked (checkPodShape); validatePod comes after this. The
 * annotation `kubernetes.io/config.seen` is for the caller, who knows the time.
 *
 * The UID is that of the manifest as it was written, not of the pod with its defaults: a release of the agent with other
 * defaults must not replace every static pod of the node. Rule: the kubelet's pkg/kubelet/config/common.go.
 */
export function staticPod(manifest: Pod, { nodeName, source }: StaticPodPlace): Pod {
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

/** Stable over restarts and over the order of the manifest's keys; another file or node is another pod. */
function hashStaticPod({ metadata, spec }: Pod, { nodeName, source }: StaticPodPlace): string {
  const place = source.kind === "file" ? `host:${nodeName}file:${source.path}` : `url:${source.url}`;
  return fnv128a(`${stableJson({ metadata, spec })}${place}`);
}

/** JSON with sorted keys, so that equal objects have equal texts. */
function stableJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(stableJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = Object.entries(value)
    .filter(([, field]) => field !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, field]) => `${JSON.stringify(key)}:${stableJson(field)}`);
  return `{${fields.join(",")}}`;
}

/** Replaces the toleration that says the same but for its duration, or adds one. */
function withNoExecute(tolerations: readonly Toleration[]): readonly Toleration[] {
  const isSame = ({ key, operator, value, effect }: Toleration) =>
    !key && !value && operator === toleratesNoExecute.operator && effect === toleratesNoExecute.effect;
  if (!tolerations.some(isSame)) return [...tolerations, toleratesNoExecute];
  return tolerations.map((toleration) => (isSame(toleration) ? toleratesNoExecute : toleration));
}
