import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { FailureTraits } from "../actions/failure-traits.ts";
import { areKeysEqual } from "../actions/key-map.ts";

/**
 * What a pod holds on the node besides its sandboxes and containers. `act/performers/resource-performers.ts` makes and
 * removes each of them with one outside call, and `observed/pods/pod-dirs.ts` says which are present.
 */
export type PodResource =
  /** The pod's directories, and its log directory. */
  | { readonly of: "podDirs" }
  /** The host user and group IDs of a pod with its own user namespace. */
  | { readonly of: "userIds" }
  | { readonly of: "volume"; readonly name: string };

export type ResourceKind = PodResource["of"];

interface ResourceRecord<R extends PodResource> {
  /** Those that the pod needs before its sandbox. */
  needed(pod: Pod): readonly R[];
  /** The sentences of its actions. */
  describeMake(resource: R): string;
  describeRemove(resource: R): string;
  /** How a failure to make it is reported, and the reason of its Event. */
  readonly failure: FailureTraits;
  readonly failureEvent: string;
  /**
   * Its presence shows that it is ready. Otherwise this agent remembers what it has made: a check of a hostPath leaves
   * no trace, and a directory does not show whether its set-up has ended.
   */
  readonly isReadyWhenPresent?: true;
  /** It lies in another resource: it is made after that one, and removed with it. */
  readonly inside?: ResourceKind;
  /** A completed pod keeps it, as with the kubelet: its logs can be read until the pod is removed. */
  readonly isKeptByCompletedPod?: true;
  /** Making it counts for the step `volumes` of the pod's start. */
  readonly isTimed?: true;
}

const mountFailure: FailureTraits = {
  reason: "FailedMount",
  runtimeText: "rpc error",
  messagePrefix: "Unable to attach or mount volumes: ",
  isPrefixForOtherErrors: true,
};

/**
 * All kinds, in the order in which they are made before the sandbox. They are removed in reverse, when no container and
 * no network uses them any more.
 */
const resourceRecords = {
  podDirs: {
    needed: () => [{ of: "podDirs" }],
    describeMake: () => "create the pod's directories",
    describeRemove: () => "remove the pod's files",
    failure: mountFailure,
    failureEvent: "FailedMount",
    isKeptByCompletedPod: true,
    isTimed: true,
  },
  userIds: {
    needed: ({ spec }) => (spec.hostUsers === false ? [{ of: "userIds" }] : []),
    describeMake: () => "allocate the pod's user ids",
    describeRemove: () => "release the pod's user ids",
    failure: {
      reason: "CreatePodSandboxError",
      runtimeText: "rpc error",
      messagePrefix: "Failed to create pod sandbox: ",
    },
    failureEvent: "FailedCreatePodSandBox",
    isReadyWhenPresent: true,
    inside: "podDirs",
  },
  volume: {
    needed: ({ spec }) => (spec.volumes ?? []).map(({ name }) => ({ of: "volume", name })),
    describeMake: ({ name }) => `set up volume ${name}`,
    describeRemove: ({ name }) => `remove volume ${name}`,
    failure: mountFailure,
    failureEvent: "FailedMount",
    inside: "podDirs",
    isTimed: true,
  },
} satisfies { readonly [K in ResourceKind]: ResourceRecord<Extract<PodResource, { readonly of: K }>> };

const resourceKinds = Object.keys(resourceRecords) as readonly ResourceKind[];

export function resourceRecordOf({ of }: PodResource): ResourceRecord<PodResource> {
  return resourceRecords[of];
}

const isIn = (all: readonly PodResource[], resource: PodResource) => all.some((each) => areKeysEqual(each, resource));

/** What a pod needs, in the order in which it is made. */
export function neededResources(pod: Pod): readonly PodResource[] {
  return resourceKinds.flatMap((of): readonly PodResource[] => resourceRecords[of].needed(pod));
}

/** What to make now: all that is not ready, except what lies in something that is not ready itself. */
export function resourcesToMake(
  pod: Pod,
  present: readonly PodResource[],
  made: readonly PodResource[],
): readonly PodResource[] {
  const missing = neededResources(pod).filter(
    (each) => !isIn(resourceRecordOf(each).isReadyWhenPresent ? present : made, each),
  );
  return missing.filter((each) => !missing.some(({ of }) => of === resourceRecordOf(each).inside));
}

/** What to remove now: the last kind of all that a pod that has completed, or is being removed, may not keep. */
export function resourcesToRemove(present: readonly PodResource[], isCompleted: boolean): readonly PodResource[] {
  const unwanted = present.filter((each) => {
    const { isKeptByCompletedPod, inside } = resourceRecordOf(each);
    return isCompleted ? isKeptByCompletedPod !== true : !present.some(({ of }) => of === inside);
  });
  const last = resourceKinds.findLast((kind) => unwanted.some(({ of }) => of === kind));
  return unwanted.filter(({ of }) => of === last);
}

/** The list without a removed resource, and without what lies in it. */
export function withoutResource(all: readonly PodResource[], removed: PodResource): readonly PodResource[] {
  return all.filter((each) => !areKeysEqual(each, removed) && resourceRecordOf(each).inside !== removed.of);
}

export function withResource(all: readonly PodResource[], added: PodResource): readonly PodResource[] {
  return isIn(all, added) ? all : [...all, added];
}
