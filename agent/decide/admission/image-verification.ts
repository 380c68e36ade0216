import type { ImagePullCredentialsVerificationPolicy } from "../../../proto/kubelet/config.ts";
import type {
  ImagePullCredentials,
  ImagePulledRecord,
  ImagePullSecret,
  ImagePullServiceAccount,
} from "../../../proto/kubelet/image-records.ts";
import { parseImageReference } from "../../../proto/kubernetes/image-reference.ts";

/** Which images that are here already a pod has to show a right to. */
export interface ImageVerification {
  readonly policy: ImagePullCredentialsVerificationPolicy;
  /** Names without tag and digest, and prefixes that end in `/*`. */
  readonly allowlist: readonly string[];
}

/** What is written down of an image that is on the node. */
export interface RecordedImage {
  /** An agent of this node has pulled it, or may have; otherwise somebody has put it there. */
  readonly isPulledHere: boolean;
  readonly record: ImagePulledRecord | undefined;
}

/** What a pod could pull an image by, beside what all pods of the node have. */
export interface PodCredentials {
  readonly secrets: readonly ImagePullSecret[];
  /** Those that the pod names and that nobody can read now: the API server is away. */
  readonly unread: readonly Pick<ImagePullSecret, "namespace" | "name">[];
  readonly serviceAccount: ImagePullServiceAccount | undefined;
}

export type ImageAccess =
  | {
      readonly kind: "granted";
      /** A Secret by which the image is to be had too: written down, it is known the next time, whatever becomes of the other one. */
      readonly learnt?: ImagePullSecret;
    }
  /** The registry has to be asked, by the pod's own credentials. */
  | { readonly kind: "unverified" };

/** So many Secrets are learnt of one image; where namespaces come and go, its record must not grow with them. */
const MOST_LEARNT = 100;

/**
 * Whether a pod may use an image that is on the node: it was not for nothing that a registry asked for a login. The rule is the kubelet's
 * (KEP-2535): where the policy asks for it, the pod needs a Secret by which it was pulled (the same login, or the same object), or the
 * service account, unless the image was to be had without. While the API server is away the name of the Secret is enough: pods that have
 * run by it start again, as they do with all else that was known before.
 */
export function imageAccess(
  { policy, allowlist }: ImageVerification,
  image: string,
  { isPulledHere, record }: RecordedImage,
  { secrets, unread, serviceAccount }: PodCredentials,
): ImageAccess {
  const name = nameOf(image);
  if (!mustVerify(policy, isPulledHere, () => isListed(allowlist, name))) return { kind: "granted" };
  const {
    nodePodsAccessible = false,
    kubernetesSecrets = [],
    kubernetesServiceAccounts = [],
  } = credentialsIn(record, name) ?? {};
  if (nodePodsAccessible) return { kind: "granted" };
  const mayLearn = kubernetesSecrets.length < MOST_LEARNT;
  for (const own of secrets)
    for (const known of kubernetesSecrets) {
      const isSameLogin = known.credentialHash !== "" && known.credentialHash === own.credentialHash;
      const isSameObject = isSame(known, own);
      if (isSameLogin) return { kind: "granted", ...(!isSameObject && mayLearn && { learnt: own }) };
      // Whoever may change the Secret had the right when it was used.
      if (isSameObject && mayLearn) return { kind: "granted", learnt: own };
    }
  const isNamed = unread.some((own) =>
    kubernetesSecrets.some(({ namespace, name }) => namespace === own.namespace && name === own.name),
  );
  const isKnownAccount =
    serviceAccount !== undefined && kubernetesServiceAccounts.some((one) => isSame(one, serviceAccount));
  return { kind: isNamed || isKnownAccount ? "granted" : "unverified" };
}

function mustVerify(policy: ImageVerification["policy"], isPulledHere: boolean, isListed: () => boolean): boolean {
  switch (policy) {
    case "NeverVerify":
      return false;
    case "NeverVerifyPreloadedImages":
      return isPulledHere;
    case "NeverVerifyAllowlistedImages":
      return !isListed();
    case "AlwaysVerify":
      return true;
  }
}

function isListed(allowlist: readonly string[], name: string): boolean {
  return allowlist.some((one) => (one.endsWith("/*") ? name.startsWith(one.slice(0, -1)) : name === one));
}

/** The service accounts by which an image was pulled. */
export function recordedAccounts({ record }: RecordedImage, image: string): readonly ImagePullServiceAccount[] {
  return credentialsIn(record, nameOf(image))?.kubernetesServiceAccounts ?? [];
}

function credentialsIn(record: ImagePulledRecord | undefined, name: string): ImagePullCredentials | undefined {
  const mapping = record?.credentialMapping ?? {};
  return Object.hasOwn(mapping, name) ? mapping[name] : undefined;
}

/** The record with more credentials in it; undefined where it says them already. None at all make a record of an image, and nothing of it. */
export function withCredentials(
  record: ImagePulledRecord | undefined,
  {
    image,
    imageRef,
    lastUpdatedTime,
  }: { readonly image: string; readonly imageRef: string; readonly lastUpdatedTime: string },
  more: ImagePullCredentials | undefined,
): ImagePulledRecord | undefined {
  const name = nameOf(image);
  const mapping = record?.credentialMapping ?? {};
  const before = credentialsIn(record, name);
  const after = more === undefined ? before : merged(before, more);
  if (record !== undefined && after === before) return undefined;
  return { lastUpdatedTime, imageRef, credentialMapping: { ...mapping, ...(after && { [name]: after }) } };
}

function merged(before: ImagePullCredentials | undefined, more: ImagePullCredentials): ImagePullCredentials {
  if (before === undefined) return more;
  if (before.nodePodsAccessible === true) return before;
  if (more.nodePodsAccessible === true) return { nodePodsAccessible: true };
  const { kubernetesSecrets: secrets = [], kubernetesServiceAccounts: accounts = [] } = before;
  const newSecrets = (more.kubernetesSecrets ?? []).filter(
    (one) => !secrets.some((known) => isSame(known, one) && known.credentialHash === one.credentialHash),
  );
  const newAccounts = (more.kubernetesServiceAccounts ?? []).filter(
    (one) => !accounts.some((known) => isSame(known, one)),
  );
  if (newSecrets.length + newAccounts.length === 0) return before;
  const kept = secrets.filter((known) => !newSecrets.some((one) => isSame(known, one)));
  return {
    kubernetesSecrets: [...kept, ...newSecrets].toSorted(byNames),
    kubernetesServiceAccounts: [...accounts, ...newAccounts].toSorted(byNames),
  };
}

function isSame(one: ImagePullServiceAccount, other: ImagePullServiceAccount): boolean {
  return one.uid === other.uid && one.namespace === other.namespace && one.name === other.name;
}

function byNames(one: ImagePullServiceAccount, other: ImagePullServiceAccount): number {
  const key = ({ namespace, name, uid }: ImagePullServiceAccount) => [namespace, name, uid].join("\0");
  return key(one) < key(other) ? -1 : 1;
}

/** As a pod has it, without tag and digest. */
function nameOf(image: string): string {
  return parseImageReference(image)?.name ?? image;
}
