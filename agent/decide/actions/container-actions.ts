import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import { containerNamed } from "../../../proto/kubernetes/containers.ts";
import { eventContainerOf, imageOf, imageUses } from "../container/image.ts";
import { normal, warning } from "../events/pod-event.ts";
import type { PodMemory, Pull } from "../pod/memory.ts";
import type { ExitedContainer } from "../pod/observed.ts";
import type { ActionRecord, ActionRecords } from "./action-record.ts";

/** What the agent does to containers, except for their hooks and their stop. */
export type ContainerAction = CreateContainer | StartContainer | RemoveContainer;

interface CreateContainer {
  readonly kind: "createContainer";
  readonly name: string;
  readonly attempt: number;
  readonly sandboxId: SandboxId;
  readonly podIPs: readonly string[];
  readonly image: string;
  readonly imageRef: string;
  /** The images of the volumes that it mounts; undefined for none. */
  readonly imageVolumes?: readonly MountedImage[];
  /** Stored in the container's annotations, so that the back-off survives a restart of the agent. */
  readonly crashes: number;
  readonly why: string;
}

/** The image of a volume, as the runtime finds it. */
export interface MountedImage {
  readonly volume: string;
  readonly image: string;
  readonly imageRef: string;
}

interface StartContainer {
  readonly kind: "startContainer";
  readonly name: string;
  readonly id: ContainerId;
  readonly attempt: number;
}

interface RemoveContainer {
  readonly kind: "removeContainer";
  readonly name: string;
  readonly id: ContainerId;
  readonly why: string;
  /** How the instance ended, if a newer one has ended too: the status shows it as the last state. */
  readonly exit?: ExitedContainer;
  /** Removed by `RestartAllContainers`: a marker file records it, so that the container does not count as missing. */
  readonly isForRestartAll?: true;
}

const createContainer: ActionRecord<CreateContainer> = {
  describe: ({ name, attempt, why }) => `create container ${name} (attempt ${attempt}): ${why}`,
  failureKey: ({ name }) => ({ of: "container", name }),
  actionClass: "start",
  // A creation does not clear the failures of the start: only a successful start does.
  failure: () => ({ reason: "CreateContainerError", runtimeText: "details", isKeptBySuccess: true }),
  uses: ["services", "pullSecrets"],
  timingStep: ({ name }) => ({ what: "create", container: name }),
  eventsAtStart({ name, image }, { pod, pulledImages, isImageAccessVerified }) {
    const container = pod && containerNamed(pod, name);
    const uses = pod && container ? imageUses(pod, container) : [{ name, image }];
    const access = isImageAccessVerified ? " and can be accessed by the pod" : "";
    return uses
      .filter((use) => use.imagePullPolicy !== "Always" && !pulledImages.has(imageOf(use)))
      .map((use) => {
        const what = `Container image "${use.image ?? ""}" already present on machine${access}`;
        return normal("Pulled", what, eventContainerOf(use));
      });
  },
  eventsAtSuccess: ({ name }) => [normal("Created", "Container created", name)],
  eventsAtFailure: ({ name }, { message }) => [warning("Failed", `Error: ${message}`, name)],
  memoryWhenSucceeded: withPullUse,
};

const startContainer: ActionRecord<StartContainer> = {
  describe: ({ name, attempt }) => `start container ${name} (attempt ${attempt})`,
  failureKey: ({ name }) => ({ of: "container", name }),
  actionClass: "start",
  failure: () => ({ reason: "RunContainerError", runtimeText: "details" }),
  timingStep: ({ name }) => ({ what: "start", container: name }),
  eventsAtSuccess: ({ name }) => [normal("Started", "Container started", name)],
  // Users know the container by its name. An id in the message would make each failure a new event.
  eventsAtFailure: ({ name, id }, { message }) => [warning("Failed", `Error: ${message.replaceAll(id, name)}`, name)],
  memoryWhenSucceeded: (memory, { name, attempt }) => ({
    ...memory,
    startedAttempts: new Map(memory.startedAttempts).set(name, attempt),
  }),
};

const removeContainer: ActionRecord<RemoveContainer> = {
  describe: ({ name, why }) => `remove container ${name}: ${why}`,
  failureKey: ({ id }) => ({ of: "endOfContainer", id }),
  actionClass: "end",
  failure: () => ({ reason: "RemoveContainerError", runtimeText: "rpc error" }),
  memoryWhenSucceeded(memory, { name, exit }) {
    // Removals end in any order.
    const isLast = exit !== undefined && exit.attempt > (memory.removedExits.get(name)?.attempt ?? -1);
    return isLast ? { ...memory, removedExits: new Map(memory.removedExits).set(name, exit) } : memory;
  },
};

export const containerActions: ActionRecords<ContainerAction> = { createContainer, startContainer, removeContainer };

/** The images that the container is created from: its own, and those of its volumes. */
export function imagesOfCreation({ image, imageVolumes = [] }: CreateContainer): readonly string[] {
  return [image, ...imageVolumes.map((each) => each.image)];
}

/** Records that the container has used the pulls of its images. */
function withPullUse(memory: PodMemory, action: CreateContainer): PodMemory {
  const pulls = new Map(memory.pulls);
  for (const image of imagesOfCreation(action)) {
    const pull = pulls.get(image);
    if (pull?.state !== "pulled") continue;
    const used: Pull = { ...pull, usedBy: new Set([...pull.usedBy, action.name]) };
    pulls.set(image, used);
  }
  return { ...memory, pulls };
}
