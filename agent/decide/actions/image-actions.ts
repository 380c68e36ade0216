import { formatElapsed } from "../../../proto/kubernetes/values/duration.ts";
import { eventContainerOf, imageUseOf, PULL_REASONS } from "../container/image.ts";
import { normal, type PodEvent, warning } from "../events/pod-event.ts";
import type { PodMemory, Pull } from "../pod/memory.ts";
import type { ActionRecord, ActionRecords, SuccessInput } from "./action-record.ts";

/** What the agent does to images. */
export type ImageAction = PullImage;

interface PullImage {
  readonly kind: "pullImage";
  readonly image: string;
  readonly why: string;
}

const pullImage: ActionRecord<PullImage> = {
  describe: ({ image, why }) => `pull image ${image}: ${why}`,
  failureKey: ({ image }) => ({ of: "image", image }),
  actionClass: "background",
  failure: () => ({
    reason: "ErrImagePull",
    runtimeReasons: Object.keys(PULL_REASONS),
    runtimeText: "details if UNKNOWN",
    backoff: "pull",
  }),
  uses: ["pullSecrets"],
  addsImage: true,
  timingStep: () => ({ what: "pull" }),
  eventsAtStart({ image }, { pod }) {
    const use = imageUseOf(pod, image);
    return [normal("Pulling", `Pulling image "${use?.image ?? image}"`, eventContainerOf(use))];
  },
  eventsAtSuccess: ({ image }, input) => [pulledEvent(image, input)],
  eventsAtFailure({ image }, { pod, reason, message }) {
    const use = imageUseOf(pod, image);
    return [
      warning("Failed", `Failed to pull image "${use?.image ?? image}": ${message}`, eventContainerOf(use)),
      warning("Failed", `Error: ${reason}`, use?.name),
    ];
  },
  memoryWhenStarted: (memory, { image }, since) => withPull(memory, image, { state: "queued", since }),
  memoryWhenDequeued: (memory, { image }, since) =>
    // A cancelled pull leaves no record.
    memory.pulls.get(image)?.state === "queued" ? withPull(memory, image, { state: "pulling", since }) : memory,
  memoryWhenEnded: (memory, { image }) => ({
    ...memory,
    pulls: new Map([...memory.pulls].filter(([pulled]) => pulled !== image)),
  }),
  memoryWhenSucceeded: (memory, { image }, { imageRef = image }) =>
    withPull(memory, image, { state: "pulled", ref: imageRef, usedBy: new Set() }),
};

export const imageActions: ActionRecords<ImageAction> = { pullImage };

function withPull(memory: PodMemory, image: string, pull: Pull): PodMemory {
  return { ...memory, pulls: new Map(memory.pulls).set(image, pull) };
}

function pulledEvent(
  image: string,
  { pod, startedAt, dequeuedAt = startedAt, endedAt, imageSizeBytes }: SuccessInput,
): PodEvent {
  const use = imageUseOf(pod, image);
  const pullTime = formatElapsed(endedAt - dequeuedAt);
  const totalTime = formatElapsed(endedAt - startedAt);
  const size = imageSizeBytes === undefined ? "" : ` Image size: ${imageSizeBytes} bytes.`;
  const what = `Successfully pulled image "${use?.image ?? image}"`;
  return normal("Pulled", `${what} in ${pullTime} (${totalTime} including waiting).${size}`, eventContainerOf(use));
}
