import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { parseImageReference } from "../../../proto/kubernetes/image-reference.ts";
import type { Failure, PodMemory } from "../pod/memory.ts";
import type { ObservedPod } from "../pod/observed.ts";

/** What stands between a container and its image. */
export type ImageNeed =
  | { readonly kind: "ready"; readonly ref: string }
  | { readonly kind: "pull"; readonly why: string }
  | { readonly kind: "pulling" }
  /** `imagePullPolicy: Never`, and the image is not there, or not for this pod, which has no need to know: only somebody else can change that. */
  | { readonly kind: "missing" }
  /** No registry can have an image of that name. */
  | { readonly kind: "invalid" }
  /** The runtime could not say whether it has the image. */
  | { readonly kind: "uninspectable"; readonly message: string }
  /** Nobody has asked yet: the pod has just become another one. */
  | { readonly kind: "unasked" };

/**
 * Whether a container that has to be created may use its image now.
 *
 * `Always` asks the registry once for every instance of the container: a pull counts until an instance is created of it. The
 * other policies ask the runtime whether the image is present; where the pod has shown no right to it, `IfNotPresent` asks the registry too.
 */
export function imageNeed(container: Container, observed: ObservedPod, memory: PodMemory): ImageNeed {
  const image = imageOf(container);
  if (parseImageReference(image) === undefined) return { kind: "invalid" };
  const pull = memory.pulls.get(image);
  if (pull?.state === "queued" || pull?.state === "pulling") return { kind: "pulling" };
  const presence = observed.images.get(image);
  if (presence === undefined) return { kind: "unasked" };
  if (presence.present === "unknown") return { kind: "uninspectable", message: presence.message };
  const isHere = presence.present;
  const isFree = presence.present && presence.isUnverified !== true;
  const own = isHere && pull?.state === "pulled" && !pull.usedBy.has(container.name) ? pull : undefined;
  switch (container.imagePullPolicy) {
    case "Never":
      return isFree ? { kind: "ready", ref: presence.ref } : { kind: "missing" };
    case "Always":
      return own ? { kind: "ready", ref: own.ref } : { kind: "pull", why: "its pull policy is Always" };
    // What a newer API calls by a name that is not known here counts as IfNotPresent.
    default:
      if (isFree) return { kind: "ready", ref: presence.ref };
      if (own) return { kind: "ready", ref: own.ref };
      return { kind: "pull", why: isHere ? "the registry has to let this pod have it too" : "it is not on this node" };
  }
}

/** The image a container asks for, with the tag that stands for none. */
export function imageOf({ image }: Pick<Container, "image">): string {
  const name = image ?? "";
  const parts = parseImageReference(name);
  return parts === undefined || parts.tag !== undefined || parts.digest !== undefined ? name : `${name}:latest`;
}

/** What a runtime that knows better why a pull has failed may say, and what it means. */
export const PULL_REASONS: Readonly<Record<string, string>> = {
  RegistryUnavailable: "the registry is unavailable",
  SignatureValidationFailed: "the signature validation failed",
};

/** Why there is no image, to the container that names it so: two that share a pull may write its name differently. */
export function wordsOfPullFailure(image: string, { reason, message }: Pick<Failure, "reason" | "message">): string {
  const because = PULL_REASONS[reason];
  if (because === undefined) return message;
  return `image pull failed for ${image} because ${because}${message.slice(reason.length)}`;
}
