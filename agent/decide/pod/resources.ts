import { nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { usedVolumes, volumeNamed } from "../../../proto/kubernetes/volumes.ts";
import type { FailureTraits } from "../actions/failure-traits.ts";
import type { PodSettings } from "../settings.ts";

/**
 * What a pod holds on the node besides its sandboxes and containers. `act/performers/resource-performers.ts` makes and
 * removes each of them with one outside call, and `observed/pods/pod-dirs.ts` and `pod-cgroups.ts` find those that are
 * present.
 */
export type PodResource =
  /** The cgroup that limits all containers of the pod together. */
  | { readonly of: "cgroup" }
  /** The pod's directories below the root directory. */
  | { readonly of: "podDirs" }
  /** The pod's directory below `podLogsDir`. */
  | { readonly of: "logDir" }
  /** The host user and group IDs of a pod with its own user namespace. */
  | { readonly of: "userIds" }
  | { readonly of: "volume"; readonly name: string }
  /** The mounts of `subPath` in its volumes. Each is made before the container that it is for. */
  | { readonly of: "subPaths" };

export type ResourceKind = PodResource["of"];

/** The settings that a pod's resources depend on. */
export type ResourceSettings = Pick<PodSettings, "podCgroups">;

interface ResourceRecord<R extends PodResource> {
  /** Those that the pod needs before its first container. */
  needed(pod: Pod, settings: ResourceSettings): readonly R[];
  /** The sentences of its actions. */
  describeMake(resource: R): string;
  describeRemove(resource: R): string;
  /** How a failure to make it is reported, and the reason of its Event. */
  readonly failure: FailureTraits;
  readonly failureEvent: string;
  /** Reasons of failures that are the reason of their Event, too. */
  readonly ownFailureEvents?: readonly string[];
  /**
   * Its presence shows that it is ready. Otherwise this agent remembers what it has made: a check of a hostPath leaves
   * no trace, and a directory does not show whether its set-up has ended.
   */
  readonly isReadyWhenPresent?: true;
  /** It is made when those are ready, and removed before them. */
  readonly after: readonly ResourceKind[];
  /** It is removed after those, whenever it was made. */
  readonly removedAfter?: readonly ResourceKind[];
  /** A completed pod keeps it, as with the kubelet: its logs can be read until the pod is removed. */
  readonly isKeptByCompletedPod?: true;
  /** Making it counts for the step `volumes` of the pod's start. */
  readonly isTimed?: true;
}

export const mountFailure: FailureTraits = {
  reason: "FailedMount",
  runtimeText: "rpc error",
  messagePrefix: "Unable to attach or mount volumes: ",
  omitsPrefixForTranslateErrors: true,
};

const sandboxFailure: FailureTraits = {
  reason: "CreatePodSandboxError",
  runtimeText: "rpc error",
  messagePrefix: "Failed to create pod sandbox: ",
};

/** All kinds. They are removed when no container and no network uses them any more. */
const resourceRecords = {
  cgroup: {
    needed: (_pod, { podCgroups }) => (podCgroups === undefined ? [] : [{ of: "cgroup" }]),
    describeMake: () => "create the pod's cgroup",
    describeRemove: () => "remove the pod's cgroup",
    failure: {
      reason: "FailedCreatePodContainer",
      runtimeText: "rpc error",
      messagePrefix: "unable to ensure pod container exists: ",
    },
    failureEvent: "FailedCreatePodContainer",
    // What its files lack is written by an action of its own, in the order that a resize needs.
    isReadyWhenPresent: true,
    after: [],
    // What a volume in memory uses counts for it, and else for the cgroup above. Rule: the kubelet's cleanupOrphanedPodCgroups.
    removedAfter: ["volume", "subPaths"],
  },
  podDirs: {
    needed: () => [{ of: "podDirs" }],
    after: [],
    describeMake: () => "create the pod's directories",
    describeRemove: () => "remove the pod's files",
    failure: mountFailure,
    failureEvent: "FailedMount",
    isKeptByCompletedPod: true,
    isTimed: true,
  },
  logDir: {
    needed: () => [{ of: "logDir" }],
    describeMake: () => "create the pod's log directory",
    describeRemove: () => "remove the pod's logs",
    failure: sandboxFailure,
    failureEvent: "FailedCreatePodSandBox",
    after: [],
    isKeptByCompletedPod: true,
  },
  userIds: {
    needed: ({ spec }) => (spec.hostUsers === false ? [{ of: "userIds" }] : []),
    describeMake: () => "allocate the pod's user ids",
    describeRemove: () => "release the pod's user ids",
    failure: sandboxFailure,
    failureEvent: "FailedCreatePodSandBox",
    isReadyWhenPresent: true,
    after: ["podDirs"],
  },
  volume: {
    // The runtime mounts the images of image volumes itself.
    needed: ({ spec }) =>
      usedVolumes(spec).flatMap(({ name, image }) => (image === undefined ? [{ of: "volume", name }] : [])),
    describeMake: ({ name }) => `set up volume ${name}`,
    describeRemove: ({ name }) => `remove volume ${name}`,
    failure: mountFailure,
    failureEvent: "FailedMount",
    ownFailureEvents: ["FailedMapVolume"],
    // The ids are released last, so that no other pod gets them while a volume has files of them.
    after: ["podDirs", "userIds"],
    isTimed: true,
  },
  subPaths: {
    needed: ({ spec }) => (hasSubPaths(spec) ? [{ of: "subPaths" }] : []),
    describeMake: () => "create the directory of the pod's subPaths",
    describeRemove: () => "unmount the pod's subPaths",
    failure: mountFailure,
    failureEvent: "FailedMount",
    isReadyWhenPresent: true,
    // They are mounts of what is in the volumes.
    after: ["podDirs", "userIds", "volume"],
    isTimed: true,
  },
} satisfies { readonly [K in ResourceKind]: ResourceRecord<Extract<PodResource, { readonly of: K }>> };

function hasSubPaths(spec: Pod["spec"]): boolean {
  const isImage = (name: string) => volumeNamed({ spec }, name)?.image !== undefined;
  const mounts = nonEphemeralContainers(spec).flatMap(({ volumeMounts = [] }) => volumeMounts);
  return mounts.some(({ name, subPath = "", subPathExpr = "" }) => subPath + subPathExpr !== "" && !isImage(name));
}

const resourceKinds = Object.keys(resourceRecords) as readonly ResourceKind[];

export function resourceRecordOf({ of }: PodResource): ResourceRecord<PodResource> {
  return resourceRecords[of];
}

const nameOf = (resource: PodResource) => ("name" in resource ? resource.name : undefined);

const isSame = (one: PodResource, other: PodResource) => one.of === other.of && nameOf(one) === nameOf(other);

const isIn = (all: readonly PodResource[], resource: PodResource) => all.some((each) => isSame(each, resource));

/** Returns a function that finds a resource among these at once: a pod may have hundreds of volumes. */
function finderOf(all: readonly PodResource[]): (resource: PodResource) => boolean {
  const byKind = Map.groupBy(all, ({ of }) => of);
  const names = new Map([...byKind].map(([of, resources]) => [of, new Set(resources.map(nameOf))]));
  return (resource) => names.get(resource.of)?.has(nameOf(resource)) ?? false;
}

export function neededResources(pod: Pod, settings: ResourceSettings): readonly PodResource[] {
  return resourceKinds.flatMap((of): readonly PodResource[] =>
    resourceRecordOf({ of } as PodResource).needed(pod, settings),
  );
}

/** What the pod needs before its first container and is not ready. */
export function missingResources(
  pod: Pod,
  present: readonly PodResource[],
  made: readonly PodResource[],
  settings: ResourceSettings,
): readonly PodResource[] {
  const [isPresent, isMade] = [finderOf(present), finderOf(made)];
  const isReady = (each: PodResource) => (resourceRecordOf(each).isReadyWhenPresent ? isPresent : isMade)(each);
  return neededResources(pod, settings).filter((each) => !isReady(each));
}

/** What to make now of all that is missing: not what comes after something that is missing itself. */
export function resourcesToMake(missing: readonly PodResource[]): readonly PodResource[] {
  const missingKinds = new Set(missing.map(({ of }) => of));
  return missing.filter((each) => !resourceRecordOf(each).after.some((of) => missingKinds.has(of)));
}

/** What to remove now, of all that a pod that has completed, or is being removed, may not keep. */
export function resourcesToRemove(present: readonly PodResource[], isCompleted: boolean): readonly PodResource[] {
  const unwanted = present.filter((each) => !(isCompleted && resourceRecordOf(each).isKeptByCompletedPod === true));
  const presentKinds = new Set(present.map(({ of }) => of));
  const users = [...presentKinds].flatMap((of) => resourceRecords[of].after as readonly ResourceKind[]);
  const isFirst = (resource: PodResource) =>
    !users.includes(resource.of) &&
    !(resourceRecordOf(resource).removedAfter ?? []).some((kind) => presentKinds.has(kind));
  return unwanted.filter(isFirst);
}

export function withoutResource(all: readonly PodResource[], removed: PodResource): readonly PodResource[] {
  return all.filter((each) => !isSame(each, removed));
}

export function withResource(all: readonly PodResource[], added: PodResource): readonly PodResource[] {
  return isIn(all, added) ? all : [...all, added];
}
