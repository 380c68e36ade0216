import type { ContainerId } from "../../../proto/ids.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { environmentReferences, pullSecretReferences, referenceKey } from "../../../proto/kubernetes/references.ts";
import type { FailureKey } from "../actions/failure-key.ts";
import { createKeyMap, type KeyMap } from "../actions/key-map.ts";
import type { ResizeStep } from "../resize/resize-steps.ts";
import { dependsOn } from "../volumes/volume-content.ts";
import type { Disruption } from "./desired.ts";
import { type ExitedContainer, instanceKey, type ObservedPod, type ObservedSandbox } from "./observed.ts";
import type { PodResource } from "./resources.ts";

/**
 * What the agent knows of a pod that neither the runtime nor the disk can show. Small, explicit, and harmless to lose:
 * a new agent starts with `emptyMemory` and comes to the same decisions; at most it retries a failed action earlier.
 */
export interface PodMemory {
  /** The resources that this agent has made; what is present on the node need not be ready. */
  readonly madeResources: readonly PodResource[];
  /** The volumes that this agent is mounting beside the syncs. */
  readonly mountingVolumes: ReadonlySet<string>;
  /** By volume: the version of what it showed when this agent last wrote its files. */
  readonly volumeContents: ReadonlyMap<string, string>;
  /** Failed actions by failure key, until they succeed. */
  readonly failures: KeyMap<FailureKey, FailureRecord>;
  /** Image pulls by image: queued, in progress, or finished by this agent. */
  readonly pulls: ReadonlyMap<string, Pull>;
  /** The containers whose `postStart` hook this agent is running. */
  readonly runningPostStartHooks: ReadonlySet<ContainerId>;
  /** The containers that this agent is stopping, or whose `preStop` hook it is running. */
  readonly stopping: ReadonlySet<ContainerId>;
  /** The containers whose `preStop` hook this agent has run ahead of their stop. */
  readonly preStopDone: ReadonlySet<ContainerId>;
  /** Since when each condition has had its status. */
  readonly conditions: ReadonlyMap<string, { readonly status: string; readonly since: number }>;
  /** The highest started attempt of each container, in case the runtime loses all its instances. */
  readonly startedAttempts: ReadonlyMap<string, number>;
  /**
   * The exit of each container's last instance that this agent has removed: the API server may not show it yet. An agent that dies in that
   * moment loses it.
   */
  readonly removedExits: ReadonlyMap<string, ExitedContainer>;
  /** The sandboxes that were stopped, so that their network is released whatever their state says. */
  readonly stoppedSandboxes: ReadonlySet<string>;
  /** Since when the containers of an unusable sandbox are being stopped: they share one grace period. */
  readonly sandboxReplacedSince: number | undefined;
  /** The steps of a resize that have succeeded. The next decision adds them to the pod's record. */
  readonly resizeSteps: readonly ResizeStep[];
  /** Set when the pod completed (all containers done, or its deadline passed): it never starts anything again. */
  readonly outcome: PodOutcome | undefined;
  /** The final status of a pod whose containers have all stopped: removing the rest does not change it. */
  readonly finalStatus: PodStatus | undefined;
  /** When the pod was first observed without a source; epoch milliseconds. */
  readonly orphanedAt: number | undefined;
  /** The revision of the pod that this memory belongs to; undefined before the first decision. */
  readonly revision: number | undefined;
}

/** A failed action; it becomes `waiting.reason` and a retry time. */
export interface FailureRecord {
  /** Kubernetes' reason, such as `ErrImagePull`. */
  readonly reason: string;
  readonly message: string;
  /** What the status says instead of the message. */
  readonly statusMessage?: string;
  readonly at: number;
  /** How many times in a row. */
  readonly count: number;
  /** The runtime or another service was unavailable. The failure is cleared when it is back. */
  readonly isOutage: boolean;
}

export type Pull =
  /** `queued`: waits for other pulls to finish. */
  | { readonly state: "queued" | "pulling"; readonly since: number }
  | {
      readonly state: "pulled";
      readonly ref: string;
      /**
       * Containers that used this pull for an instance: with `imagePullPolicy: Always` their next instance needs
       * another pull.
       */
      readonly usedBy: ReadonlySet<string>;
    };

/** How a pod completed. It is final. */
export interface PodOutcome {
  readonly phase: "Succeeded" | "Failed";
  readonly reason?: string;
  readonly message?: string;
  /** A clause for the log, where the API has no reason. */
  readonly why?: string;
  /** The node rejected the pod: nothing of it was ever started. */
  readonly isRejection?: boolean;
  /** The condition `DisruptionTarget` of a pod that the node itself has ended. */
  readonly disruption?: Disruption;
  /** When this was decided. */
  readonly at: number;
}

export const emptyMemory: PodMemory = {
  madeResources: [],
  mountingVolumes: new Set(),
  volumeContents: new Map(),
  failures: createKeyMap(),
  pulls: new Map(),
  runningPostStartHooks: new Set(),
  stopping: new Set(),
  preStopDone: new Set(),
  conditions: new Map(),
  startedAttempts: new Map(),
  removedExits: new Map(),
  stoppedSandboxes: new Set(),
  sandboxReplacedSince: undefined,
  resizeSteps: [],
  outcome: undefined,
  finalStatus: undefined,
  orphanedAt: undefined,
  revision: undefined,
};

/** The result of an action. `imageRef` is the reference that a pull resolved to. */
export type ActionResult =
  | {
      readonly ok: true;
      readonly imageRef?: string;
      /** Why the `preStop` hook of a stopped container failed. */
      readonly preStopFailure?: string;
      /** `host:port` of an HTTPS hook that the server answered over plain HTTP. */
      readonly plainHttpHost?: string;
    }
  | {
      readonly ok: false;
      readonly reason: string;
      readonly message: string;
      /** What the status says instead, where that must not appear in a log. */
      readonly statusMessage?: string;
      readonly isOutage: boolean;
    };

/** The runtime is back: clears the back-off of the actions that failed because of its outage. */
export function clearOutageFailures(memory: PodMemory): PodMemory {
  return withFailures(
    memory,
    memory.failures.filter((_key, { isOutage }) => !isOutage),
  );
}

function withFailures(memory: PodMemory, failures: PodMemory["failures"]): PodMemory {
  return failures === memory.failures ? memory : { ...memory, failures };
}

/**
 * A Secret, a ConfigMap or a token of this pod was read or has changed: clears the back-off of the actions that may have
 * failed because of it.
 */
export function clearReferenceFailures(memory: PodMemory, pod: Pod, key: string): PodMemory {
  const usesReference = (container: Container) =>
    environmentReferences(pod, container).some((each) => referenceKey(each) === key);
  const users = new Set(
    allContainers(pod.spec)
      .filter(usesReference)
      .map(({ name }) => name),
  );
  const isForPulls = pullSecretReferences(pod).some((each) => referenceKey(each) === key);
  const volumes = new Set(
    (pod.spec.volumes ?? []).filter((volume) => dependsOn(pod, volume, key)).map(({ name }) => name),
  );
  const mayBeBecauseOfIt = (failureKey: FailureKey, { reason }: FailureRecord) => {
    switch (failureKey.of) {
      case "container":
        return users.has(failureKey.name) && reason === "CreateContainerConfigError";
      case "image":
        return isForPulls;
      case "resource":
        return failureKey.resource.of === "volume" && volumes.has(failureKey.resource.name);
      case "volumeUpdate":
        return volumes.has(failureKey.name);
      case "sandbox":
      case "podCgroupWrite":
      case "postStart":
      case "containerResources":
      case "sandboxResources":
      case "endOfContainer":
      case "endOfSandbox":
      case "endOfResource":
        return false;
    }
  };
  return withFailures(
    memory,
    memory.failures.filter((...failure) => !mayBeBecauseOfIt(...failure)),
  );
}

/**
 * When a manifest has changed under its uid, volumes, failures and the outcome start afresh. Hooks and pulls in
 * progress stay, so that they are not started twice.
 */
export function memoryOfRevision(memory: PodMemory, revision: number): PodMemory {
  if (memory.revision === revision) return memory;
  if (memory.revision === undefined) return { ...memory, revision };
  const { madeResources, volumeContents, failures, outcome, finalStatus, orphanedAt } = emptyMemory;
  const pulls = new Map([...memory.pulls].filter(([, { state }]) => state !== "pulled"));
  return { ...memory, madeResources, volumeContents, failures, outcome, finalStatus, orphanedAt, pulls, revision };
}

/**
 * Drops the entries of removed sandboxes and containers, so that a crash loop does not grow the memory. Adds the `preStop`
 * hooks that an earlier agent has run, as their marks on disk show.
 */
export function withObserved(memory: PodMemory, observed: ObservedPod): PodMemory {
  const { sandboxes, containers, endedPreStopHooks } = observed;
  const present = new Set<string>([...sandboxes, ...containers].map(({ id }) => id));
  const stopped = [...memory.stoppedSandboxes].filter((id) => present.has(id));
  // A key with an id is about one sandbox or container.
  const failures = memory.failures.filter((key) => !("id" in key) || present.has(key.id));
  const marked = containers.filter((each) => endedPreStopHooks.has(instanceKey(each))).map(({ id }) => id);
  const preStopDone = new Set([...[...memory.preStopDone].filter((id) => present.has(id)), ...marked]);
  const isUnchanged =
    stopped.length === memory.stoppedSandboxes.size &&
    preStopDone.size === memory.preStopDone.size &&
    marked.every((id) => memory.preStopDone.has(id)) &&
    failures === memory.failures;
  return isUnchanged ? memory : { ...memory, stoppedSandboxes: new Set(stopped), preStopDone, failures };
}

/**
 * Why the `postStart` hook of an instance failed, for which the instance was stopped; undefined if this agent did not
 * see it.
 */
export function postStartFailureOf({ failures }: PodMemory, id: ContainerId): FailureRecord | undefined {
  return failures.get({ of: "postStart", id });
}

/** The sandboxes that may still hold a network: the ready ones, and those that were never stopped. */
export function unstoppedSandboxes(
  { sandboxes }: ObservedPod,
  { stoppedSandboxes }: PodMemory,
): readonly ObservedSandbox[] {
  return sandboxes.filter(({ id, ready }) => ready || !stoppedSandboxes.has(id));
}
