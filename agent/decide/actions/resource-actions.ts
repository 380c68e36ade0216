import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import { describeLimits } from "../cgroups/limit-differences.ts";
import { type PodEvent, warning } from "../events/pod-event.ts";
import type { PodMemory } from "../pod/memory.ts";
import { mountFailure, type PodResource, resourceRecordOf, withoutResource, withResource } from "../pod/resources.ts";
import type { ActionRecord, ActionRecords, FailureInput } from "./action-record.ts";

/** What the agent does to the resources of a pod. Each resource has its own record in `pod/resources.ts`. */
export type ResourceAction = MakeResource | MountVolume | UpdateVolume | WritePodCgroup | RemoveResource;

interface MakeResource {
  readonly kind: "makeResource";
  readonly resource: PodResource;
  /** The version of a volume's content, if the agent writes its files: see `volumes/volume-content.ts`. */
  readonly content?: string;
}

/**
 * Makes a volume that may take as long as a server or a disk lets it: of an NFS server, behind a claim, or a hostPath that
 * is checked. The pod's syncs and the starts of others do not wait for it.
 */
interface MountVolume {
  readonly kind: "mountVolume";
  readonly name: string;
}

/** Writes the files of a volume that is set up. If that fails, containers keep the old files. */
interface UpdateVolume {
  readonly kind: "updateVolume";
  readonly name: string;
  readonly content: string;
  readonly why: string;
}

/** Writes some of the limits of the pod's cgroup. If that fails, its containers run on with the old ones. */
interface WritePodCgroup {
  readonly kind: "writePodCgroup";
  readonly limits: CgroupLimits;
  readonly why: string;
}

interface RemoveResource {
  readonly kind: "removeResource";
  readonly resource: PodResource;
  readonly why: string;
}

function failureEventsOf(resource: PodResource, { reason, message }: FailureInput): readonly PodEvent[] {
  const { failureEvent, ownFailureEvents = [] } = resourceRecordOf(resource);
  return [warning(ownFailureEvents.includes(reason) ? reason : failureEvent, message)];
}

const makeResource: ActionRecord<MakeResource> = {
  describe: ({ resource }) => resourceRecordOf(resource).describeMake(resource),
  failureKey: ({ resource }) => ({ of: "resource", resource }),
  actionClass: "start",
  failure: ({ resource }) => resourceRecordOf(resource).failure,
  timingStep: ({ resource: { of }, resource }) =>
    resourceRecordOf(resource).isTimed ? { what: "volumes", isFirst: of === "podDirs" } : undefined,
  eventsAtFailure: ({ resource }, input) => failureEventsOf(resource, input),
  memoryWhenSucceeded: (memory, { resource, content }) => ({
    ...memory,
    madeResources: withResource(memory.madeResources, resource),
    ...(resource.of === "volume" && content !== undefined && withContent(memory, resource.name, content)),
  }),
};

const volumeResource = (name: string) => ({ of: "volume", name }) as const;

const mountVolume: ActionRecord<MountVolume> = {
  describe: ({ name }) => makeResource.describe({ kind: "makeResource", resource: volumeResource(name) }),
  failureKey: ({ name }) => ({ of: "resource", resource: volumeResource(name) }),
  actionClass: "background",
  failure: () => mountFailure,
  timingStep: () => ({ what: "volumes", isFirst: false }),
  eventsAtFailure: ({ name }, input) => failureEventsOf(volumeResource(name), input),
  isInProgress: ({ mountingVolumes }, { name }) => mountingVolumes.has(name),
  memoryWhenStarted: (memory, { name }) => withMounting(memory, [...memory.mountingVolumes, name]),
  memoryWhenEnded: (memory, { name }) =>
    withMounting(
      memory,
      [...memory.mountingVolumes].filter((mounting) => mounting !== name),
    ),
  memoryWhenSucceeded: (memory, { name }) => ({
    ...memory,
    madeResources: withResource(memory.madeResources, volumeResource(name)),
  }),
};

function withMounting(memory: PodMemory, mounting: readonly string[]): PodMemory {
  return { ...memory, mountingVolumes: new Set(mounting) };
}

const updateVolume: ActionRecord<UpdateVolume> = {
  describe: ({ name, why }) => `update volume ${name}: ${why}`,
  failureKey: ({ name }) => ({ of: "volumeUpdate", name }),
  actionClass: "update",
  failure: () => ({ ...mountFailure, backoff: "volume" }),
  eventsAtFailure: (_action, { message }) => [warning("FailedMount", message)],
  memoryWhenSucceeded: (memory, { name, content }) => ({ ...memory, ...withContent(memory, name, content) }),
};

const withContent = (
  { volumeContents }: PodMemory,
  name: string,
  content: string,
): Pick<PodMemory, "volumeContents"> => ({
  volumeContents: new Map(volumeContents).set(name, content),
});

const writePodCgroup: ActionRecord<WritePodCgroup> = {
  describe: ({ limits, why }) => `write ${describeLimits(limits)} to the pod's cgroup: ${why}`,
  failureKey: () => ({ of: "podCgroupWrite" }),
  actionClass: "update",
  failure: () => ({ ...resourceRecordOf({ of: "cgroup" }).failure, backoff: "volume" }),
  eventsAtFailure: (_action, { reason, message }) => [warning(reason, message)],
};

const removeResource: ActionRecord<RemoveResource> = {
  describe: ({ resource, why }) => `${resourceRecordOf(resource).describeRemove(resource)}: ${why}`,
  failureKey: ({ resource }) => ({ of: "endOfResource", resource }),
  actionClass: "end",
  failure: () => ({ reason: "FailedCleanup", runtimeText: "rpc error" }),
  memoryWhenSucceeded: (memory, { resource }) => ({
    ...memory,
    madeResources: withoutResource(memory.madeResources, resource),
    volumeContents: new Map(
      [...memory.volumeContents].filter(([name]) => resource.of !== "volume" || name !== resource.name),
    ),
  }),
};

export const resourceActions: ActionRecords<ResourceAction> = {
  makeResource,
  mountVolume,
  updateVolume,
  writePodCgroup,
  removeResource,
};
