import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { FailureTraits } from "../actions/failure-traits.ts";
import { areKeysEqual } from "../actions/key-map.ts";

/**
 * What a pod holds on the node besides its sandboxes and containers. `act/performers/resource-performers.ts` makes and
 * removes each of them with one outside call, and `observed/pods/pod-dirs.ts` says which are present.
 */
export type PodResource =
  /** The pod's directories below the root directory. */
  | { readonly of: "podDirs" }
  /** The pod's directory below `podLogsDir`. */
  | { readonly of: "logDir" }
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
  /** It is made when those are ready, and removed before them. */
  readonly after: readonly ResourceKind[];
  /** A completed pod keeps it, as with the kubelet: its logs can be read until the pod is removed. */
  readonly isKeptByCompletedPod?: true;
  /** Making it counts for the step `volumes` of the pod's start. */
  readonly isTimed?: true;
}

const mountFailure: FailureTraits = {
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
    needed: ({ spec }) => (spec.volumes ?? []).map(({ name }) => ({ of: "volume", name })),
    describeMake: ({ name }) => `set up volume ${name}`,
    describeRemove: ({ name }) => `remove volume ${name}`,
    failure: mountFailure,
    failureEvent: "FailedMount",
    // The ids are released last, so that no other pod gets them while a volume has files of them.
    after: ["podDirs", "userIds"],
    isTimed: true,
  },
} satisfies { readonly [K in ResourceKind]: ResourceRecord<Extract<PodResource, { readonly of: K }>> };

const resourceKinds = Object.keys(resourceRecords) as readonly ResourceKind[];

export function resourceRecordOf({ of }: PodResource): ResourceRecord<PodResource> {
  return resourceRecords[of];
}

const isIn = (all: readonly PodResource[], resource: PodResource) => all.some((each) => areKeysEqual(each, resource));

export function neededResources(pod: Pod): readonly PodResource[] {
  return resourceKinds.flatMap((of): readonly PodResource[] => resourceRecords[of].needed(pod));
}

/** What to make now: all that is not ready, except what comes after something that is not ready itself. */
export function resourcesToMake(
  pod: Pod,
  present: readonly PodResource[],
  made: readonly PodResource[],
): readonly PodResource[] {
  const missing = neededResources(pod).filter(
    (each) => !isIn(resourceRecordOf(each).isReadyWhenPresent ? present : made, each),
  );
  return missing.filter((each) => !missing.some(({ of }) => resourceRecordOf(each).after.includes(of)));
}

/** What to remove now, of all that a pod that has completed, or is being removed, may not keep. */
export function resourcesToRemove(present: readonly PodResource[], isCompleted: boolean): readonly PodResource[] {
  const unwanted = present.filter((each) => !(isCompleted && resourceRecordOf(each).isKeptByCompletedPod === true));
  return unwanted.filter(({ of }) => !present.some((each) => resourceRecordOf(each).after.includes(of)));
}

export function withoutResource(all: readonly PodResource[], removed: PodResource): readonly PodResource[] {
  return all.filter((each) => !areKeysEqual(each, removed));
}

export function withResource(all: readonly PodResource[], added: PodResource): readonly PodResource[] {
  return isIn(all, added) ? all : [...all, added];
}
