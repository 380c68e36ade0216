import { fnv128a } from "../fnv.ts";
import { defaultPod } from "./defaults/pod.ts";
import type { Pod, Toleration } from "./gen/types.ts";
import { staticPodUid } from "./internal/uid.ts";
import { hashedOrigin, type StaticPodOrigin } from "./static-pod-origin.ts";
import { hashAnnotation, sourceAnnotation } from "./well-known-names.ts";

export interface StaticPodOptions extends StaticPodOrigin {
  /** Whether the node has a static pod of this uid that does not terminate. */
  readonly isUidInUse?: (uid: string) => boolean;
}

/** The NoExecute toleration with which static pods from files stay on an unhealthy node. */
const noExecuteToleration: Toleration = { operator: "Exists", effect: "NoExecute" };

/**
 * Converts a manifest to the pod of this node: with defaults, with a UID derived from content and source, with the
 * node's name as suffix, bound to the node. The manifest must have been decoded (decodeStrict); validate the result
 * with validatePod. The caller, which knows the time, adds the annotation `kubernetes.io/config.seen`.
 *
 * The UID is the kubelet's, so that a change of agents restarts no pod. A pod that an earlier release of Berth started
 * keeps the UID of that release until its manifest changes, so that an upgrade restarts none either. Rule: the
 * kubelet's pkg/kubelet/config/common.go.
 */
export function staticPod(manifest: Pod, { isUidInUse, ...origin }: StaticPodOptions): Pod {
  const { nodeName, source } = origin;
  const uid = manifest.metadata.uid || formerUidInUse(manifest, origin, isUidInUse) || staticPodUid(manifest, origin);
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

/**
 * The UID by the rule of earlier releases, a hash of the manifest as written, whatever the order of its keys; undefined if
 * no pod of the node has it.
 */
function formerUidInUse(
  { metadata, spec }: Pod,
  origin: StaticPodOrigin,
  isUidInUse: StaticPodOptions["isUidInUse"],
): string | undefined {
  if (isUidInUse === undefined) return undefined;
  const uid = fnv128a(`${stableJson({ metadata, spec })}${hashedOrigin(origin)}`);
  return isUidInUse(uid) ? uid : undefined;
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
