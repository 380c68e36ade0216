import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { parseImageReference } from "../../../proto/kubernetes/values/image-reference.ts";
import { volumeNamed } from "../../../proto/kubernetes/volumes.ts";
import type { FailureRecord, PodMemory } from "../pod/memory.ts";
import type { ObservedPod } from "../pod/observed.ts";

/** An image that a container needs: its own, or that of a volume that it mounts. A container is the use of its own image. */
export interface ImageUse extends Pick<Container, "name" | "image" | "imagePullPolicy"> {
  /** The volume of the pod that shows the image; undefined for the container's own image. */
  readonly volume?: string;
}

/** The images that a container needs, in the order in which the kubelet pulls them: those of its volumes, then its own. */
export function imageUses(pod: Pick<Pod, "spec">, container: Container): readonly ImageUse[] {
  // Hardly a pod has one, and a pod may have hundreds of other volumes.
  if (pod.spec.volumes?.some(({ image }) => image !== undefined) !== true) return [container];
  const volumes = new Set((container.volumeMounts ?? []).map((mount) => volumeNamed(pod, mount.name)));
  const ofVolumes = [...volumes].flatMap((volume) => {
    if (volume?.image === undefined) return [];
    const { reference = "", pullPolicy } = volume.image;
    const policy = pullPolicy === undefined ? {} : { imagePullPolicy: pullPolicy };
    return [{ name: container.name, image: reference, ...policy, volume: volume.name }];
  });
  return [...ofVolumes, container];
}

/** What a container needs before it can use an image. */
export type ImageNeed =
  | { readonly kind: "ready"; readonly ref: string }
  | { readonly kind: "pull"; readonly why: string }
  | { readonly kind: "pulling" }
  /**
   * imagePullPolicy is Never and the image is missing, or the pod may not use it. The message must not reveal which.
   */
  | { readonly kind: "missing" }
  /** The image name is invalid. */
  | { readonly kind: "invalid" }
  /** The runtime could not say whether it has the image. */
  | { readonly kind: "uninspectable"; readonly message: string }
  /** The image was not inspected yet: the pod has just changed. */
  | { readonly kind: "uninspected" }
  /** Whether the pod may use the image is being looked up; the result wakes the pod. */
  | { readonly kind: "access pending" };

/**
 * Whether a container that has to be created may use one of its images now.
 *
 * With `Always` each instance of the container needs a pull: one pull counts for one instance. The other policies ask
 * the runtime whether the image is present; if the pod has not proved its access, `IfNotPresent` pulls too.
 */
export function imageNeed(use: ImageUse, observed: ObservedPod, memory: PodMemory): ImageNeed {
  const image = imageOf(use);
  if (parseImageReference(image) === undefined) return { kind: "invalid" };
  const pull = memory.pulls.get(image);
  if (pull?.state === "queued" || pull?.state === "pulling") return { kind: "pulling" };
  const presence = observed.images.get(image);
  if (presence === undefined) return { kind: "uninspected" };
  if (presence.present === "unknown") return { kind: "uninspectable", message: presence.message };
  const isPresent = presence.present;
  const isUsable = presence.present && presence.access === undefined;
  const isPending = presence.present && presence.access === "pending";
  const unusedPull = isPresent && pull?.state === "pulled" && !pull.usedBy.has(use.name) ? pull : undefined;
  switch (use.imagePullPolicy) {
    case "Never":
      if (isUsable) return { kind: "ready", ref: presence.ref };
      return { kind: isPending ? "access pending" : "missing" };
    case "Always":
      return unusedPull ? { kind: "ready", ref: unusedPull.ref } : { kind: "pull", why: "its pull policy is Always" };
    // A policy of a newer API that this release does not know counts as IfNotPresent.
    default:
      if (isUsable) return { kind: "ready", ref: presence.ref };
      if (unusedPull) return { kind: "ready", ref: unusedPull.ref };
      if (isPending) return { kind: "access pending" };
      return { kind: "pull", why: isPresent ? "the registry must authorise this pod too" : "it is not on this node" };
  }
}

/** The image of a container or a volume, with the default tag if it has neither tag nor digest. */
export function imageOf({ image }: Pick<Container, "image">): string {
  const name = image ?? "";
  const parts = parseImageReference(name);
  return parts === undefined || parts.tag !== undefined || parts.digest !== undefined ? name : `${name}:latest`;
}

/** The first use of this image in the pod: all uses of one image share one pull. */
export function imageUseOf(pod: Pod | undefined, image: string): ImageUse | undefined {
  const uses = pod && allContainers(pod.spec).flatMap((container) => imageUses(pod, container));
  return uses?.find((use) => imageOf(use) === image);
}

/** The container that an Event about an image is about; the kubelet's Events about the image of a volume are about the pod. */
export function eventContainerOf(use: ImageUse | undefined): string | undefined {
  return use?.volume === undefined ? use?.name : undefined;
}

/** The reasons by which a runtime explains a failed pull, and their meaning. */
export const PULL_REASONS: Readonly<Record<string, string>> = {
  RegistryUnavailable: "the registry is unavailable",
  SignatureValidationFailed: "the signature validation failed",
};

/**
 * The message of a failed pull for this container: containers that share the pull may write the image name differently.
 */
export function pullFailureMessage(
  image: string,
  { reason, message }: Pick<FailureRecord, "reason" | "message">,
): string {
  const meaning = PULL_REASONS[reason];
  if (meaning === undefined) return message;
  return `image pull failed for ${image} because ${meaning}${message.slice(reason.length)}`;
}
