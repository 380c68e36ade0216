import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { MountedImage } from "../actions/container-actions.ts";
import type { PodMemory } from "../pod/memory.ts";
import { newestInstanceOf, type ObservedPod } from "../pod/observed.ts";
import type { PlanBuilder } from "../pod/plan.ts";
import { isWaitingForPullSecrets } from "../pod/prerequisites.ts";
import type { PodSettings } from "../settings.ts";
import { type ImageNeed, type ImageUse, imageNeed, imageOf, imageUses } from "./image.ts";

export interface ImagesInput {
  readonly pod: Pod;
  readonly observed: ObservedPod;
  readonly memory: PodMemory;
  readonly settings: PodSettings;
  readonly now: number;
}

/** Whether a further container may be started in this decision: one start at a time, in the order of the spec. */
export type NextStart = "allowed" | "blocked";

/** What a container is created from. */
interface UsableImages {
  readonly image: string;
  readonly imageRef: string;
  readonly imageVolumes?: readonly MountedImage[];
}

const IMAGE_RECHECK_MS = 60_000;

/** Plans the pulls for containers that have never run, and for their volumes; they need no sandbox. */
export function planImagePulls(plan: PlanBuilder, { pod, observed, memory, settings }: Omit<ImagesInput, "now">): void {
  if (isWaitingForPullSecrets(pod, settings)) return;
  for (const container of allContainers(pod.spec)) {
    if (newestInstanceOf(observed, container.name) !== undefined) continue;
    for (const use of imageUses(pod, container)) {
      const need = imageNeed(use, observed, memory);
      if (need.kind === "pull") plan.propose({ kind: "pullImage", image: imageOf(use), why: need.why });
    }
  }
}

/**
 * Plans what a container that has to be created needs of its images. Returns the images if all are usable, otherwise
 * whether the containers behind it wait.
 */
export function planImages(plan: PlanBuilder, input: ImagesInput, container: Container): UsableImages | NextStart {
  const { pod, observed, memory } = input;
  const own = imageNeed(container, observed, memory);
  const waits: NextStart[] = [];
  const imageVolumes: MountedImage[] = [];
  for (const use of imageUses(pod, container)) {
    const need = imageNeed(use, observed, memory);
    if (need.kind !== "ready") waits.push(planImage(plan, input, use, need));
    else if (use.volume !== undefined)
      imageVolumes.push({ volume: use.volume, image: imageOf(use), imageRef: need.ref });
  }
  if (own.kind !== "ready" || waits.length > 0) return waits.includes("blocked") ? "blocked" : "allowed";
  return { image: imageOf(container), imageRef: own.ref, ...(imageVolumes.length > 0 && { imageVolumes }) };
}

/** Plans the next step for an image that is not usable yet. */
function planImage(
  plan: PlanBuilder,
  { pod, settings, now }: ImagesInput,
  use: ImageUse,
  need: Exclude<ImageNeed, { kind: "ready" }>,
): NextStart {
  switch (need.kind) {
    case "invalid":
      return "allowed";
    case "missing":
      // The pod's right to the image may depend on its pull secrets.
      if (isWaitingForPullSecrets(pod, settings)) return "blocked";
      plan.waitUntil(now + IMAGE_RECHECK_MS);
      return "allowed";
    case "uninspectable":
      // No event reports a new image: inspect it again as often as the kubelet syncs a pod.
      plan.waitUntil(now + IMAGE_RECHECK_MS);
      return "allowed";
    case "uninspected":
      plan.waitUntil(now);
      return "blocked";
    case "access pending":
    case "pulling":
      return "blocked";
    case "pull":
      if (isWaitingForPullSecrets(pod, settings)) return "blocked";
      return plan.propose({ kind: "pullImage", image: imageOf(use), why: need.why }) ? "blocked" : "allowed";
  }
}
