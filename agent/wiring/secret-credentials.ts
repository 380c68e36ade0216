import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import {
  pullSecretReferences,
  type Reference,
  type ReferencedObjects,
  referenceKey,
} from "../../proto/kubernetes/references.ts";
import { credentialHash } from "../act/images/credential-hash.ts";
import type { PodCredentials } from "../decide/admission/image-verification.ts";
import { pullSecretCredentialsFor } from "../translate/registry-credentials.ts";
import { TranslateError } from "../translate/translate-error.ts";
import type { ClusterObjects } from "./cluster/cluster-objects.ts";

/** The pod's pull Secrets as credentials for an image, and those that cannot be read now. */
export function secretCredentialsOf(
  pod: Pod,
  image: string,
  objects: Pick<ClusterObjects, "settings" | "facts"> | undefined,
): Pick<PodCredentials, "secrets" | "unreadableSecrets"> {
  const referents = objects?.facts().referencedObjects;
  const settledKeys = objects?.settings().settledReferences;
  const isUnread = (reference: Reference) =>
    settledKeys?.has(referenceKey(reference)) === true && referents?.has(referenceKey(reference)) !== true;
  return {
    secrets: secretCredentials(pod, image, referents),
    unreadableSecrets: pullSecretReferences(pod).filter(isUnread),
  };
}

function secretCredentials(
  pod: Pod,
  image: string,
  referents: ReferencedObjects | undefined,
): PodCredentials["secrets"] {
  try {
    return pullSecretCredentialsFor(pod, image, referents).flatMap(({ owner, ...login }) => {
      if (owner?.kind !== "secret") return [];
      const { uid, namespace, name } = owner;
      return [{ uid, namespace, name, credentialHash: credentialHash(login) }];
    });
  } catch (error) {
    if (!(error instanceof TranslateError)) throw error;
    // An invalid Secret proves nothing; the pull that follows reports what is wrong with it.
    return [];
  }
}
