import type { Container } from "../../proto/kubernetes/gen/types.ts";
import { parseImageReference } from "../../proto/kubernetes/image-reference.ts";
import type { PodMemory } from "./memory.ts";
import type { ObservedContainer, ObservedPod } from "./observed.ts";

/** What stands between a container and its image. */
export type ImageNeed =
  | { readonly kind: "ready"; readonly ref: string }
  | { readonly kind: "pull"; readonly why: string }
  | { readonly kind: "pulling" }
  /** `imagePullPolicy: Never`, and the image is not there: only somebody else can change that. */
  | { readonly kind: "missing" }
  /** No registry can have an image of that name. */
  | { readonly kind: "invalid" };

/**
 * Whether a container that has to be created may use its image now.
 *
 * `Always` asks the registry once for every instance of the container, so a pull counts only if it is newer than the end
 * of the instance before. The other policies ask the runtime whether the image is present.
 */
export function imageNeed(
  container: Container,
  previous: ObservedContainer | undefined,
  observed: ObservedPod,
  memory: PodMemory,
): ImageNeed {
  const image = imageOf(container);
  if (parseImageReference(image) === undefined) return { kind: "invalid" };
  const pull = memory.pulls.get(image);
  if (pull?.state === "pulling") return { kind: "pulling" };
  const presence = observed.images.get(image);
  const isPresent = presence?.present === true;
  switch (container.imagePullPolicy) {
    case "Never":
      return isPresent ? { kind: "ready", ref: presence.ref } : { kind: "missing" };
    case "Always": {
      const endedAt = previous?.state === "exited" ? previous.finishedAt : 0;
      if (pull?.state === "pulled" && pull.at >= endedAt && isPresent) return { kind: "ready", ref: pull.ref };
      return { kind: "pull", why: "its pull policy is Always" };
    }
    default:
      return isPresent ? { kind: "ready", ref: presence.ref } : { kind: "pull", why: "it is not on this node" };
  }
}

/** The image a container asks for, with the tag that stands for none. */
export function imageOf({ image }: Pick<Container, "image">): string {
  const name = image ?? "";
  const parts = parseImageReference(name);
  return parts === undefined || parts.tag !== undefined || parts.digest !== undefined ? name : `${name}:latest`;
}
