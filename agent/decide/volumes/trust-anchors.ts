import { encodeBase64 } from "../../../proto/base64.ts";
import type { ClusterTrustBundle } from "../../../proto/kubernetes/certificates.ts";
import type {
  ClusterTrustBundleProjection,
  LabelSelector,
  LabelSelectorRequirement,
} from "../../../proto/kubernetes/gen/types.ts";
import { formatPemBlock, parsePemBlocks } from "../../../proto/pem.ts";

/** The kubelet's words for a server that does not serve ClusterTrustBundles, or a node with the feature gate off. */
export const TRUST_BUNDLES_UNSUPPORTED = "ClusterTrustBundle projection is not supported in static kubelet mode";

export type TrustAnchors = { readonly pem: string } | { readonly failure: string };

/**
 * The trust anchors of a `clusterTrustBundle` source, from all bundles of the cluster: each certificate once, as a PEM
 * block without headers and comments. The kubelet shuffles them whenever it reads them again; here they are in the order
 * of their content, so that a restart of the agent rewrites no file. The failures are in the kubelet's words.
 */
export function trustAnchorsOf(
  bundles: readonly ClusterTrustBundle[],
  { name, signerName, labelSelector, optional = false }: ClusterTrustBundleProjection,
): TrustAnchors {
  if (name !== undefined) {
    const bundle = bundles.find(({ metadata }) => metadata.name === name);
    if (bundle !== undefined) return { pem: pemOf([bundle]) };
    const failure = `while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io ${JSON.stringify(name)} not found`;
    return optional ? { pem: "" } : { failure };
  }
  if (signerName === undefined)
    return { failure: "ClusterTrustBundle projection requires either name or signerName to be set" };
  const selected = bundles.filter(
    ({ metadata, spec }) => spec.signerName === signerName && matchesLabels(labelSelector, metadata.labels ?? {}),
  );
  if (selected.length > 0 || optional) return { pem: pemOf(selected) };
  return { failure: "combination of signerName and labelSelector matched zero ClusterTrustBundles" };
}

function pemOf(bundles: readonly ClusterTrustBundle[]): string {
  const blocks = bundles.flatMap(({ spec }) => parsePemBlocks(spec.trustBundle));
  const unique = new Map(blocks.map((bytes) => [encodeBase64(bytes), bytes]));
  return [...unique]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([, bytes]) => formatPemBlock("CERTIFICATE", bytes))
    .join("");
}

/** Without a selector nothing matches; with an empty one everything does. */
function matchesLabels(selector: LabelSelector | undefined, labels: Readonly<Record<string, string>>): boolean {
  if (selector === undefined) return false;
  const labelOf = (key: string) => (Object.hasOwn(labels, key) ? labels[key] : undefined);
  return (
    Object.entries(selector.matchLabels ?? {}).every(([key, value]) => labelOf(key) === value) &&
    (selector.matchExpressions ?? []).every((each) => matchesExpression(each, labelOf(each.key)))
  );
}

function matchesExpression({ operator, values = [] }: LabelSelectorRequirement, label: string | undefined): boolean {
  switch (operator) {
    case "In":
      return label !== undefined && values.includes(label);
    case "NotIn":
      return label === undefined || !values.includes(label);
    case "Exists":
      return label !== undefined;
    case "DoesNotExist":
      return label === undefined;
  }
}
