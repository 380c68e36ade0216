import type {
  ClusterTrustBundleProjection,
  Condition,
  ObjectMeta,
  Pod,
  PodCertificateProjection,
  Volume,
} from "./gen/types.ts";

/*
 * The objects of `certificates.k8s.io/v1beta1` that projected volumes show, which servers do not serve by default, and
 * what the agent knows of them.
 */

/** https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#cluster-trust-bundles */
export interface ClusterTrustBundle {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
  readonly spec: {
    /** Left out for a bundle of no signer. */
    readonly signerName?: string;
    /** PEM blocks. */
    readonly trustBundle: string;
  };
}

/** The kubelet's words while the first list of ClusterTrustBundles is missing. */
export const TRUST_BUNDLES_UNREAD = "ClusterTrustBundle informer has not yet synced";

/** What the agent knows of the trust anchors in the content of a volume. */
export type KnownTrustAnchors =
  | ReadTrustAnchors
  | {
      /** Why there are none, in the kubelet's words. */
      readonly failure: string;
      /** The API server has not answered. */
      readonly isOutage?: true;
    };

export interface ReadTrustAnchors {
  readonly pem: string;
  /** Equal for equal content, also across restarts of the agent. */
  readonly version: string;
}

/** Equal for two projections of the same trust anchors, and never a key of another reference. */
export function trustAnchorKey({ name, signerName, labelSelector, optional }: ClusterTrustBundleProjection): string {
  return `trust anchors ${JSON.stringify([name, signerName, labelSelector, optional === true])}`;
}

/** The `clusterTrustBundle` sources of one volume, in their order. */
function volumeTrustAnchors({ projected }: Volume): readonly ClusterTrustBundleProjection[] {
  return (projected?.sources ?? []).flatMap(({ clusterTrustBundle }) => clusterTrustBundle ?? []);
}

/** The `clusterTrustBundle` sources of all volumes of the pod by {@link trustAnchorKey}, each once. */
export function trustAnchorsOfPod({ spec }: Pod): ReadonlyMap<string, ClusterTrustBundleProjection> {
  return new Map((spec.volumes ?? []).flatMap(volumeTrustAnchors).map((each) => [trustAnchorKey(each), each]));
}

/** A `podCertificate` source of a pod's volume. */
export interface PodCertificateReference {
  readonly namespace: string;
  readonly podName: string;
  readonly podUid: string;
  readonly serviceAccount: string;
  readonly volume: string;
  /** Its place among the sources of the volume. */
  readonly sourceIndex: number;
  readonly projection: PodCertificateProjection;
}

/** What the agent knows of a pod certificate. The private key never reaches a log, an error, a record or a file that is kept. */
export type KnownPodCertificate =
  | {
      /** PKCS#8 in PEM. */
      readonly privateKey: string;
      /** PEM blocks, the pod's certificate first. */
      readonly certificateChain: string;
      /** Changes with each new certificate. */
      readonly version: string;
    }
  | {
      /** Why there is none, in the kubelet's words. */
      readonly failure: string;
    };

/** The kubelet's words while a pod certificate has not been requested. */
export const noPodCertificate = ({
  namespace,
  podName,
  podUid,
  volume,
  sourceIndex,
}: Omit<PodCertificateReference, "projection" | "serviceAccount">) =>
  `no credentials yet for key={${namespace} ${podName} ${podUid} ${volume} ${sourceIndex}}`;

/** The kubelet's words while a pod certificate has been requested and not been issued. */
export const POD_CERTIFICATE_NOT_ISSUED = "credential bundle is not issued yet";

/** Never a key of another reference. */
export function podCertificateKey({
  podUid,
  volume,
  sourceIndex,
}: Pick<PodCertificateReference, "podUid" | "volume" | "sourceIndex">): string {
  return `pod certificate ${volume}/${sourceIndex} for ${podUid}`;
}

/** The `podCertificate` sources of one volume, in their order. */
export function volumePodCertificates(
  { metadata, spec }: Pod,
  { name: volume, projected }: Volume,
): readonly PodCertificateReference[] {
  const { namespace = "default", name: podName = "", uid: podUid = "" } = metadata;
  const serviceAccount = spec.serviceAccountName || "default";
  return (projected?.sources ?? []).flatMap(({ podCertificate: projection }, sourceIndex) =>
    projection === undefined ? [] : [{ namespace, podName, podUid, serviceAccount, volume, sourceIndex, projection }],
  );
}

/** The `podCertificate` sources of all volumes of the pod by {@link podCertificateKey}. */
export function podCertificatesOfPod(pod: Pod): ReadonlyMap<string, PodCertificateReference> {
  const all = (pod.spec.volumes ?? []).flatMap((volume) => volumePodCertificates(pod, volume));
  return new Map(all.map((each) => [podCertificateKey(each), each]));
}

/** The keys of the trust anchors and of the pod certificates in the content of a volume. */
export function volumeCertificateKeys(pod: Pod, volume: Volume): readonly string[] {
  return [
    ...volumeTrustAnchors(volume).map(trustAnchorKey),
    ...volumePodCertificates(pod, volume).map(podCertificateKey),
  ];
}

/** The kubelet's words on a node whose feature gate `PodCertificateRequest` is off. */
export const POD_CERTIFICATES_OFF = "unimplemented";

/** https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/#pod-certificate-requests */
export interface PodCertificateRequest {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
  readonly spec: {
    readonly signerName: string;
    readonly podName: string;
    readonly podUID: string;
    readonly serviceAccountName: string;
    readonly serviceAccountUID: string;
    readonly nodeName: string;
    readonly nodeUID: string;
    readonly maxExpirationSeconds?: number;
    /** PKCS#10 in base64: it carries the public key, and proves that the node has the private key. */
    readonly stubPKCS10Request: string;
    readonly unverifiedUserAnnotations?: Readonly<Record<string, string>>;
  };
  readonly status?: {
    readonly conditions?: readonly Pick<Condition, "type" | "reason" | "message">[];
    /** PEM blocks, the pod's certificate first. */
    readonly certificateChain?: string;
    readonly beginRefreshAt?: string;
    readonly notAfter?: string;
  };
}
