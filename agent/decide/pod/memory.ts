import type { ContainerId } from "../../../proto/ids.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { environmentReferences, pullSecretReferences, referenceKey } from "../../../proto/kubernetes/references.ts";
import { type Action, subjectOf } from "./action.ts";
import { type Backoff, delayOf, dueAfter } from "./backoff.ts";
import type { ObservedPod, ObservedSandbox } from "./observed.ts";

/**
 * What the agent knows of a pod that neither the runtime nor the disk could tell again. Small, explicit, and harmless to
 * lose: a new agent begins with `emptyMemory` and comes to the same decisions, only a failed try may be made once more.
 */
export interface PodMemory {
  readonly volumesPrepared: boolean;
  /** Failed actions by subject (see `subjectOf`), until they succeed. */
  readonly failures: ReadonlyMap<string, Failure>;
  /** Pulls by image: asked for, under way, or done by this agent. */
  readonly pulls: ReadonlyMap<string, Pull>;
  /** The containers whose `postStart` hook this agent is running. */
  readonly hooks: ReadonlySet<ContainerId>;
  /** The containers that this agent is stopping, or whose `preStop` hook it is running. */
  readonly stopping: ReadonlySet<ContainerId>;
  /** Those whose `preStop` hook this agent has run, ahead of their stop. */
  readonly preStopped: ReadonlySet<ContainerId>;
  /** Since when each condition has had its status. */
  readonly conditions: ReadonlyMap<string, { readonly status: string; readonly since: number }>;
  /** The highest attempt started of each container, should the runtime lose all its instances. */
  readonly attempts: ReadonlyMap<string, number>;
  /** Sandboxes that were stopped, so that their network is given back, whatever their state says. */
  readonly stoppedSandboxes: ReadonlySet<string>;
  /** Since when what is left in a sandbox that will not do is being stopped: it has one grace. */
  readonly replacedSince: number | undefined;
  /** Set when the pod ended by itself (all containers done, or its deadline passed): it never starts anything again. */
  readonly outcome: Outcome | undefined;
  /** The last word on a pod that ends, from when nothing of it ran any more: removing the rest changes it no more. */
  readonly lastStatus: PodStatus | undefined;
  /** When it was first seen that nobody asks for the pod; epoch milliseconds. */
  readonly orphanedAt: number | undefined;
  /** The revision of the pod that all this was learnt of; undefined before the first decision. */
  readonly revision: number | undefined;
}

/** A failed action, as it becomes `waiting.reason` and a due time. */
export interface Failure {
  /** Kubernetes' reason, such as `ErrImagePull`. */
  readonly reason: string;
  readonly message: string;
  /** What the status says instead. */
  readonly told?: string;
  readonly at: number;
  /** How many times in a row. */
  readonly count: number;
  /** The runtime was away: nobody's fault, and forgiven when it is back. */
  readonly isOutage: boolean;
}

export type Pull =
  /** `queued` waits for other pulls to end. */
  | { readonly state: "queued" | "pulling"; readonly since: number }
  | {
      readonly state: "pulled";
      readonly ref: string;
      /** The containers of which an instance was created since: with `imagePullPolicy: Always` the next one needs a pull of its own. */
      readonly usedBy: ReadonlySet<string>;
    };

/** How a pod ended, for good. */
export interface Outcome {
  readonly phase: "Succeeded" | "Failed";
  readonly reason?: string;
  readonly message?: string;
  /** A clause for the log, where the API has no words for it. */
  readonly why?: string;
  /** The node has not taken it: nothing of it was ever begun. */
  readonly isRejection?: boolean;
  /** When that was decided. */
  readonly at: number;
}

export const emptyMemory: PodMemory = {
  volumesPrepared: false,
  failures: new Map(),
  pulls: new Map(),
  hooks: new Set(),
  stopping: new Set(),
  preStopped: new Set(),
  conditions: new Map(),
  attempts: new Map(),
  stoppedSandboxes: new Set(),
  replacedSince: undefined,
  outcome: undefined,
  lastStatus: undefined,
  orphanedAt: undefined,
  revision: undefined,
};

/** How an action ended. A pull tells the reference it resolved to. */
export type ActionResult =
  | {
      readonly ok: true;
      readonly imageRef?: string;
      /** The `preStop` hook of a container that was stopped. */
      readonly hookFailure?: string;
      /** The server of an HTTPS hook that was asked in plain HTTP, `host:port`. */
      readonly askedInPlainText?: string;
    }
  | {
      readonly ok: false;
      readonly reason: string;
      readonly message: string;
      /** What the status says instead, where that may have in it what nobody should find in a log. */
      readonly told?: string;
      readonly isOutage: boolean;
    };

/** The memory after an action was asked for. Only what runs beside the turns leaves a trace: everything else ends before the next look. */
export function rememberStart(memory: PodMemory, action: Action, now: number): PodMemory {
  if (action.kind === "runHook") return { ...memory, hooks: new Set([...memory.hooks, action.id]) };
  if (action.kind === "runPreStop" || action.kind === "stopContainer")
    return { ...memory, stopping: new Set([...memory.stopping, action.id]) };
  if (action.kind !== "pullImage") return memory;
  return { ...memory, pulls: withEntry(memory.pulls, action.image, { state: "queued", since: now }) };
}

/** The memory after a pull that was asked for has begun. */
export function rememberPulling(memory: PodMemory, action: Action, now: number): PodMemory {
  if (action.kind !== "pullImage" || memory.pulls.get(action.image)?.state !== "queued") return memory;
  return { ...memory, pulls: withEntry(memory.pulls, action.image, { state: "pulling", since: now }) };
}

/** How often in a row what this action is about has failed. */
export function failureCount({ failures }: PodMemory, action: Action): number {
  return failures.get(subjectOf(action))?.count ?? 0;
}

/** The memory after an action ended. `failedBefore`: how often in a row it had failed, where a success has hidden that since. */
export function remember(
  memory: PodMemory,
  action: Action,
  result: ActionResult,
  now: number,
  failedBefore = 0,
): PodMemory {
  const subject = subjectOf(action);
  if (!result.ok) {
    const count = Math.max(failureCount(memory, action), failedBefore) + 1;
    const { ok: _, ...why } = result;
    const failure: Failure = { ...why, at: now, count };
    return forgetUnderWay({ ...memory, failures: withEntry(memory.failures, subject, failure) }, action);
  }
  const failures = withoutEntry(memory.failures, subject);
  switch (action.kind) {
    case "prepareVolumes":
      return { ...memory, failures, volumesPrepared: true };
    case "pullImage": {
      const pulled: Pull = { state: "pulled", ref: result.imageRef ?? action.image, usedBy: new Set() };
      return { ...memory, failures, pulls: withEntry(memory.pulls, action.image, pulled) };
    }
    case "createContainer":
      // The failures of a start outlive the creation of the next try; only a start that works forgives them.
      return usePull(memory, action.image, action.name);
    case "startContainer":
      return { ...memory, failures, attempts: withEntry(memory.attempts, action.name, action.attempt) };
    case "runPreStop": {
      const preStopped = new Set([...memory.preStopped, action.id]);
      return forgetUnderWay({ ...memory, failures, preStopped }, action);
    }
    case "runHook":
    case "stopContainer":
      return forgetUnderWay({ ...memory, failures }, action);
    case "removeVolumes":
    case "removePodFiles":
      return { ...memory, failures, volumesPrepared: false };
    case "stopSandbox":
      return { ...memory, failures, stoppedSandboxes: new Set([...memory.stoppedSandboxes, action.id]) };
    case "runSandbox":
    case "removeContainer":
    case "removeSandbox":
    case "releaseIds":
      return failures === memory.failures ? memory : { ...memory, failures };
  }
}

function usePull(memory: PodMemory, image: string, container: string): PodMemory {
  const pull = memory.pulls.get(image);
  if (pull?.state !== "pulled") return memory;
  const used: Pull = { ...pull, usedBy: new Set([...pull.usedBy, container]) };
  return { ...memory, pulls: withEntry(memory.pulls, image, used) };
}

/** The runtime is back: what it missed is tried at once. */
export function forgiveOutages(memory: PodMemory): PodMemory {
  const failures = new Map([...memory.failures].filter(([, { isOutage }]) => !isOutage));
  return failures.size === memory.failures.size ? memory : { ...memory, failures };
}

/** An object that the pod refers to was read, or is another one now: what may have failed for want of it is tried at once. */
export function forgiveReference(memory: PodMemory, pod: Pod, key: string): PodMemory {
  const isTold = (container: Container) =>
    environmentReferences(pod, container).some((each) => referenceKey(each) === key);
  const told = new Set(
    allContainers(pod.spec)
      .filter(isTold)
      .map(({ name }) => `container ${name}`),
  );
  const isForPulls = pullSecretReferences(pod).some((each) => referenceKey(each) === key);
  const failures = [...memory.failures].filter(
    ([subject, { reason }]) =>
      !(told.has(subject) && reason === "CreateContainerConfigError") && !(isForPulls && subject.startsWith("image ")),
  );
  return failures.length === memory.failures.size ? memory : { ...memory, failures: new Map(failures) };
}

/**
 * A pod that became another one under its uid begins anew with its volumes, its failures and its outcome. Hooks and pulls that are under way
 * stay: they are not begun a second time.
 */
export function ofThisRevision(memory: PodMemory, revision: number): PodMemory {
  if (memory.revision === revision) return memory;
  if (memory.revision === undefined) return { ...memory, revision };
  const { attempts, stoppedSandboxes, replacedSince, conditions, hooks, stopping, preStopped } = memory;
  const pulls = new Map([...memory.pulls].filter(([, { state }]) => state !== "pulled"));
  const kept = { attempts, stoppedSandboxes, replacedSince, conditions, hooks, stopping, preStopped };
  return { ...emptyMemory, ...kept, pulls, revision };
}

/** Drops what is known of sandboxes and containers that are gone: a crash loop must not grow the memory. */
export function withoutVanished(memory: PodMemory, observed: ObservedPod): PodMemory {
  const present = new Set<string>([...observed.sandboxes, ...observed.containers].map(({ id }) => id));
  const stopped = [...memory.stoppedSandboxes].filter((id) => present.has(id));
  const failures = [...memory.failures].filter(([subject]) => {
    const id = /^(?:end|hook) of \w+ (.*)$/.exec(subject)?.[1];
    return id === undefined || present.has(id);
  });
  const hooked = [...memory.preStopped].filter((id) => present.has(id));
  const isWhole =
    stopped.length === memory.stoppedSandboxes.size &&
    hooked.length === memory.preStopped.size &&
    failures.length === memory.failures.size;
  if (isWhole) return memory;
  return { ...memory, stoppedSandboxes: new Set(stopped), preStopped: new Set(hooked), failures: new Map(failures) };
}

/** An action that was given up before its end (the pod has to end, or the agent stops) counts neither way. */
export function forgetUnderWay(memory: PodMemory, action: Action): PodMemory {
  if (action.kind === "runHook")
    return { ...memory, hooks: new Set([...memory.hooks].filter((id) => id !== action.id)) };
  if (action.kind === "runPreStop" || action.kind === "stopContainer")
    return { ...memory, stopping: new Set([...memory.stopping].filter((id) => id !== action.id)) };
  if (action.kind !== "pullImage") return memory;
  return { ...memory, pulls: withoutEntry(memory.pulls, action.image) };
}

function withEntry<V>(map: ReadonlyMap<string, V>, key: string, value: V): ReadonlyMap<string, V> {
  return new Map(map).set(key, value);
}

function withoutEntry<V>(map: ReadonlyMap<string, V>, key: string): ReadonlyMap<string, V> {
  if (!map.has(key)) return map;
  const copy = new Map(map);
  copy.delete(key);
  return copy;
}

const RETRY: Backoff = { firstMs: 1_000, longestMs: 15_000 };
const PULL: Backoff = { firstMs: 10_000, longestMs: 300_000 };

/**
 * When a failed action may be tried again. The kubelet tries again after 10 to 15 s, whatever failed; a second is long enough
 * for what heals by itself, and the same 15 s are reached by doubling.
 */
export function retryAt(failure: Failure, now: number): number {
  return dueAfter(failure.at, delayOf(RETRY, failure.count), now);
}

/** When a failed pull may be tried again: 10 s, doubling, at most 5 min, as the kubelet does. */
export function pullAgainAt(failure: Failure, now: number): number {
  return dueAfter(failure.at, delayOf(PULL, failure.count), now);
}

/** Until when a failed pull is shown as the error that it was; for the rest of its delay it is shown as a back-off. */
export function pullNewsUntil(failure: Failure, now: number): number {
  return failure.at + (pullAgainAt(failure, now) - failure.at) / 2;
}

/** Why the `postStart` hook of an instance has failed, for which it was stopped; undefined where this agent has seen nothing of that. */
export function hookFailureOf({ failures }: PodMemory, id: ContainerId): Failure | undefined {
  return failures.get(`hook of container ${id}`);
}

/** The sandboxes that may still hold a network: those that are ready, and those that were never asked to stop. */
export function openSandboxes({ sandboxes }: ObservedPod, { stoppedSandboxes }: PodMemory): readonly ObservedSandbox[] {
  return sandboxes.filter(({ id, ready }) => ready || !stoppedSandboxes.has(id));
}
