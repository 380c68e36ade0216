import type { ImagePullCredentialsVerificationPolicy } from "../../../proto/kubelet/config.ts";
import type {
  ImagePullCredentials,
  ImagePulledRecord,
  ImagePullSecret,
  ImagePullServiceAccount,
} from "../../../proto/kubelet/image-records.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { parseImageReference } from "../../../proto/kubernetes/values/image-reference.ts";
import type { DesiredPod } from "../pod/desired.ts";
import type { ImagePresence, ObservedPod } from "../pod/observed.ts";

/** For which images on the node a pod has to prove its access (`imagePullCredentialsVerificationPolicy`). */
export interface ImageVerificationSettings {
  readonly policy: ImagePullCredentialsVerificationPolicy;
  /** Names without tag and digest, and prefixes that end in `/*`. */
  readonly allowlist: readonly string[];
}

/** The records about an image on the node. */
export interface RecordedImage {
  /** An agent of this node has pulled it, or may have; otherwise the image was preloaded. */
  readonly isPulledByAgent: boolean;
  readonly record: ImagePulledRecord | undefined;
}

/** The pod's own pull credentials, without those of the node. */
export interface PodCredentials {
  readonly secrets: readonly ImagePullSecret[];
  /** The pod's pull secrets that cannot be read now because the API server is unavailable. */
  readonly unreadableSecrets: readonly Pick<ImagePullSecret, "namespace" | "name">[];
  readonly serviceAccount: ServiceAccountLookup;
}

/** What is known about the pod's service account. */
export type ServiceAccountLookup =
  /** It need not be looked up, or it proves nothing: it is deleted, forbidden, or no credential provider uses it. */
  | { readonly kind: "none" }
  | { readonly kind: "found"; readonly account: ImagePullServiceAccount }
  /** The API server is unavailable, or has not answered in time. */
  | ({ readonly kind: "unreadable" } & Pick<ImagePullServiceAccount, "namespace" | "name">)
  /** It was not looked up yet, or the API server has not answered yet. */
  | { readonly kind: "pending" };

type PresentImage = Extract<ImagePresence, { readonly present: true }>;

export type ImageAccess =
  | {
      readonly kind: "granted";
      /**
       * A Secret that proves access too and should be added to the record, so that it counts even if the other one
       * goes.
       */
      readonly secretToRecord?: ImagePullSecret;
    }
  /** No record proves the pod's access: the agent pulls with the pod's own credentials, and the registry decides. */
  | { readonly kind: "unverified" }
  /** The pod's service account, which may prove its access, is being looked up. */
  | { readonly kind: "pending" };

/** The maximum of Secrets that are recorded for one image, so that records do not grow as namespaces come and go. */
const MAX_RECORDED_SECRETS = 100;

/**
 * Whether a pod may use an image on the node that may have been pulled with credentials of others. The rule is the
 * kubelet's (KEP-2535): if the policy requires verification, the pod needs a Secret that the image was pulled with (the
 * same credentials, or the same object), or the same service account, unless the image was pulled without credentials.
 * While the API server is unavailable, the name of the Secret or of the account is enough, so that pods that ran with it start again, as
 * with all other cached objects.
 */
export function verifyImageAccess(
  { policy, allowlist }: ImageVerificationSettings,
  image: string,
  { isPulledByAgent, record }: RecordedImage,
  { secrets, unreadableSecrets, serviceAccount }: PodCredentials,
): ImageAccess {
  const name = repositoryOf(image);
  if (!mustVerify(policy, isPulledByAgent, () => isListed(allowlist, name))) return { kind: "granted" };
  const {
    nodePodsAccessible = false,
    kubernetesSecrets = [],
    kubernetesServiceAccounts = [],
  } = credentialsIn(record, name) ?? {};
  if (nodePodsAccessible) return { kind: "granted" };
  const mayRecord = kubernetesSecrets.length < MAX_RECORDED_SECRETS;
  for (const podSecret of secrets)
    for (const recorded of kubernetesSecrets) {
      const areSameCredentials = recorded.credentialHash !== "" && recorded.credentialHash === podSecret.credentialHash;
      const isSameObject = isSameIdentity(recorded, podSecret);
      if (areSameCredentials)
        return { kind: "granted", ...(!isSameObject && mayRecord && { secretToRecord: podSecret }) };
      // A user who may change the Secret had access when it was used.
      if (isSameObject && mayRecord) return { kind: "granted", secretToRecord: podSecret };
    }
  if (unreadableSecrets.some((podSecret) => isOneNamed(kubernetesSecrets, podSecret))) return { kind: "granted" };
  return accessByServiceAccount(kubernetesServiceAccounts, serviceAccount);
}

function accessByServiceAccount(
  recorded: readonly ImagePullServiceAccount[],
  lookup: ServiceAccountLookup,
): ImageAccess {
  switch (lookup.kind) {
    case "none":
      return { kind: "unverified" };
    case "found":
      return { kind: recorded.some((one) => isSameIdentity(one, lookup.account)) ? "granted" : "unverified" };
    case "unreadable":
      return { kind: isOneNamed(recorded, lookup) ? "granted" : "unverified" };
    case "pending":
      return { kind: "pending" };
  }
}

/** A terminating pod creates no containers, so nothing needs to wait for the API server to verify its images. */
export function mayUseImages({
  termination,
  terminationRequest,
}: Pick<DesiredPod, "termination" | "terminationRequest">): boolean {
  return termination === undefined && terminationRequest === undefined;
}

/** A present image together with the pod's access to it. */
export function withImageAccess(presence: PresentImage, access: ImageAccess): PresentImage {
  if (access.kind !== "granted") return { ...presence, access: access.kind };
  return access.secretToRecord === undefined ? presence : { ...presence, secretToRecord: access.secretToRecord };
}

/** A Secret to add to the pull record of an image. */
interface CredentialToRecord {
  readonly image: string;
  readonly ref: string;
  readonly secret: ImagePullSecret;
}

/** The Secrets that have proved access and are missing in the pull records. */
export function credentialsToRecord({ images }: Pick<ObservedPod, "images">): readonly CredentialToRecord[] {
  return [...images].flatMap(([image, presence]) =>
    presence.present === true && presence.secretToRecord !== undefined
      ? [{ image, ref: presence.ref, secret: presence.secretToRecord }]
      : [],
  );
}

type ObjectName = Pick<ImagePullServiceAccount, "namespace" | "name">;

function isOneNamed(recorded: readonly ObjectName[], { namespace, name }: ObjectName): boolean {
  return recorded.some((one) => one.namespace === namespace && one.name === name);
}

function mustVerify(
  policy: ImageVerificationSettings["policy"],
  isPulledByAgent: boolean,
  isListed: () => boolean,
): boolean {
  switch (policy) {
    case "NeverVerify":
      return false;
    case "NeverVerifyPreloadedImages":
      return isPulledByAgent;
    case "NeverVerifyAllowlistedImages":
      return !isListed();
    case "AlwaysVerify":
      return true;
  }
}

function isListed(allowlist: readonly string[], name: string): boolean {
  return allowlist.some((one) => (one.endsWith("/*") ? name.startsWith(one.slice(0, -1)) : name === one));
}

/**
 * Whether the pod's service account could prove its access: the image was pulled with an account of that name. Only then
 * does the agent ask the API server.
 */
export function mayServiceAccountProveAccess(
  { metadata, spec }: Pod,
  image: string,
  { record }: RecordedImage,
): boolean {
  const { namespace = "default" } = metadata;
  const recorded = credentialsIn(record, repositoryOf(image))?.kubernetesServiceAccounts ?? [];
  return isOneNamed(recorded, { namespace, name: spec.serviceAccountName ?? "" });
}

/** The images that wait until the pod's service account is looked up. */
export function imagesToLookUp({ images }: Pick<ObservedPod, "images">): readonly string[] {
  return [...images].flatMap(([image, presence]) =>
    presence.present === true && presence.access === "pending" ? [image] : [],
  );
}

function credentialsIn(record: ImagePulledRecord | undefined, name: string): ImagePullCredentials | undefined {
  const mapping = record?.credentialMapping ?? {};
  return Object.hasOwn(mapping, name) ? mapping[name] : undefined;
}

/**
 * The record with more credentials added; undefined if it has them already. `more: undefined` makes a record without
 * credentials.
 */
export function withAddedCredentials(
  record: ImagePulledRecord | undefined,
  {
    image,
    imageRef,
    lastUpdatedTime,
  }: { readonly image: string; readonly imageRef: string; readonly lastUpdatedTime: string },
  added: ImagePullCredentials | undefined,
): ImagePulledRecord | undefined {
  const name = repositoryOf(image);
  const mapping = record?.credentialMapping ?? {};
  const before = credentialsIn(record, name);
  const after = added === undefined ? before : merged(before, added);
  if (record !== undefined && after === before) return undefined;
  return { lastUpdatedTime, imageRef, credentialMapping: { ...mapping, ...(after && { [name]: after }) } };
}

function merged(before: ImagePullCredentials | undefined, added: ImagePullCredentials): ImagePullCredentials {
  if (before === undefined) return added;
  if (before.nodePodsAccessible === true) return before;
  if (added.nodePodsAccessible === true) return { nodePodsAccessible: true };
  const { kubernetesSecrets: secrets = [], kubernetesServiceAccounts: accounts = [] } = before;
  const newSecrets = (added.kubernetesSecrets ?? []).filter(
    (one) =>
      !secrets.some((recorded) => isSameIdentity(recorded, one) && recorded.credentialHash === one.credentialHash),
  );
  const newAccounts = (added.kubernetesServiceAccounts ?? []).filter(
    (one) => !accounts.some((recorded) => isSameIdentity(recorded, one)),
  );
  if (newSecrets.length + newAccounts.length === 0) return before;
  const unchanged = secrets.filter((recorded) => !newSecrets.some((one) => isSameIdentity(recorded, one)));
  return {
    kubernetesSecrets: [...unchanged, ...newSecrets].toSorted(byNames),
    kubernetesServiceAccounts: [...accounts, ...newAccounts].toSorted(byNames),
  };
}

function isSameIdentity(one: ImagePullServiceAccount, other: ImagePullServiceAccount): boolean {
  return one.uid === other.uid && one.namespace === other.namespace && one.name === other.name;
}

function byNames(one: ImagePullServiceAccount, other: ImagePullServiceAccount): number {
  const key = ({ namespace, name, uid }: ImagePullServiceAccount) => [namespace, name, uid].join("\0");
  return key(one) < key(other) ? -1 : 1;
}

/** The name without tag and digest. */
function repositoryOf(image: string): string {
  return parseImageReference(image)?.name ?? image;
}
