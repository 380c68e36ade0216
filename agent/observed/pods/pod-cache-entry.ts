import type { EventExit, RuntimeContainerEvent } from "../../../cri/runtime.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import { SIGKILL_EXIT_CODE } from "../../decide/container/oom-reason.ts";
import type { ObservedContainer, ObservedPod, ObservedSandbox } from "../../decide/pod/observed.ts";
import type { PodResource } from "../../decide/pod/resources.ts";
import { hasStopped, isNewChange } from "./event-is-new.ts";

export type CriId = SandboxId | ContainerId;

/**
 * Marks something as out of date. A read clears only the token that it started with: a newer token marks a newer
 * change.
 */
export type StaleToken = object;

/** The cached state of one pod, and which parts of it are out of date. */
export interface PodCacheEntry {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
  readonly sandboxes: Map<SandboxId, ObservedSandbox>;
  readonly containers: Map<ContainerId, ObservedContainer>;
  /** The sandbox of each container, which only the list contains, not the status. */
  readonly parents: Map<ContainerId, SandboxId>;
  loggedAttempts: ReadonlyMap<string, number>;
  removedAttempts: ReadonlyMap<string, number>;
  /** Those that its directories show. */
  resources: readonly PodResource[];
  /** The limits of its cgroup; undefined if it has none. */
  cgroup: CgroupLimits | undefined;
  pendingPostStartHooks: ReadonlySet<string>;
  endedPreStopHooks: ReadonlySet<string>;
  probeMarks: ObservedPod["probeMarks"];
  /** The sandbox and container ids by which events may refer to the pod. */
  ids: ReadonlySet<string>;
  /** The sandboxes and containers to read again, each with its latest token. */
  readonly staleIds: Map<CriId, StaleToken>;
  /** The sandboxes whose status the runtime cannot tell, each with its error. They are as the runtime lists them. */
  readonly sandboxReadErrors: Map<SandboxId, Error>;
  /** The same of containers, with how often in a row their status could not be read. */
  readonly containerReadErrors: Map<ContainerId, { readonly error: Error; readonly times: number }>;
  /** Everything must be listed again. */
  isStale: boolean;
  areFilesStale: boolean;
  isCgroupStale: boolean;
  /** Counts our calls that change the pod: a list that started before such a call is not valid after it. */
  mutations: number;
  /** Containers with a stop call under way: the end of the call wakes the pod, so the exit event need not. */
  readonly stopping: Set<string>;
  /** Events since the last observation. */
  readonly pendingEvents: RuntimeContainerEvent[];
  /** How often in a row the status was read again for a stop event that it did not show yet. */
  unconfirmedRetries: number;
  /** The exits that events reported, until the runtime's status shows them, too. */
  readonly eventExits: Map<ContainerId, EventExit>;
  /** The ids with a stop event, until a status that was read afterwards shows the stop. */
  readonly unconfirmedStops: Set<CriId>;
  /** Whether a timer is set to read these again. */
  isRecheckScheduled: boolean;
  /** The exited containers when all reads last succeeded: an exit that is not among them is a new one. */
  knownExits: ReadonlySet<ContainerId>;
}

export function createPodCacheEntry(uid: PodUid, namespace: string, name: string, isStale: boolean): PodCacheEntry {
  return {
    uid,
    namespace,
    name,
    sandboxes: new Map(),
    containers: new Map(),
    parents: new Map(),
    loggedAttempts: new Map(),
    removedAttempts: new Map(),
    resources: [],
    cgroup: undefined,
    pendingPostStartHooks: new Set(),
    endedPreStopHooks: new Set(),
    probeMarks: [],
    ids: new Set(),
    staleIds: new Map(),
    sandboxReadErrors: new Map(),
    containerReadErrors: new Map(),
    isStale,
    areFilesStale: true,
    isCgroupStale: true,
    mutations: 0,
    stopping: new Set(),
    pendingEvents: [],
    unconfirmedRetries: 0,
    eventExits: new Map(),
    unconfirmedStops: new Set(),
    isRecheckScheduled: false,
    knownExits: new Set(),
  };
}

function knownOf(entry: PodCacheEntry, id: string): ObservedSandbox | ObservedContainer | undefined {
  return entry.sandboxes.get(id as SandboxId) ?? entry.containers.get(id as ContainerId);
}

/** Whether an event needs a sync of its pod. It does if the container is still to be read. */
export function isRelevant(entry: PodCacheEntry, event: RuntimeContainerEvent): boolean {
  const id = event.containerId as CriId;
  return entry.staleIds.has(id) || hasEventExit(entry, id) || isNewChange(event, knownOf(entry, id));
}

const hasEventExit = ({ eventExits }: PodCacheEntry, id: CriId): boolean => eventExits.has(id as ContainerId);

/** The next observation reads the sandbox or container again. */
export function markStale(entry: PodCacheEntry, id: CriId): void {
  entry.staleIds.set(id, {});
}

/** Removes a sandbox or container that does not exist any more. */
export function removeFrom(entry: PodCacheEntry, id: CriId): void {
  entry.sandboxes.delete(id as SandboxId);
  entry.sandboxReadErrors.delete(id as SandboxId);
  entry.containers.delete(id as ContainerId);
  entry.containerReadErrors.delete(id as ContainerId);
  entry.parents.delete(id as ContainerId);
  entry.staleIds.delete(id);
  entry.eventExits.delete(id as ContainerId);
}

/** Applies the pending events: marks what they made stale, and the stops that a status has to confirm. */
export function applyEvents(entry: PodCacheEntry): void {
  for (const event of entry.pendingEvents.splice(0)) {
    const id = event.containerId as CriId;
    const known = knownOf(entry, id);
    if (!isNewChange(event, known) && !hasEventExit(entry, id)) continue;
    if (event.change === "stopped") {
      entry.unconfirmedStops.add(id);
      // With the last process of a pod, others can remove its cgroup.
      entry.isCgroupStale = true;
    }
    if (isExitTrusted(event) && known !== undefined && !("ready" in known)) entry.eventExits.set(known.id, event.exit);
    // The event of one of our own calls: what the call changed is to be read anyway.
    if (entry.staleIds.has(id)) continue;
    if (known === undefined) entry.isStale = true;
    else markStale(entry, id);
  }
}

function isExitTrusted(event: RuntimeContainerEvent): event is RuntimeContainerEvent & { readonly exit: EventExit } {
  return event.exit !== undefined && event.exit.exitCode !== SIGKILL_EXIT_CODE;
}

/** True if only an event says that it has stopped. */
export function isExitUnconfirmed(entry: PodCacheEntry, id: CriId): boolean {
  const known = knownOf(entry, id);
  return known !== undefined && (!hasStopped(known) || hasEventExit(entry, id));
}

/**
 * Discards exits that only events reported: the status has shown the containers running for too long. They are read
 * again.
 */
export function discardEventExits({ unconfirmedStops, eventExits, staleIds }: PodCacheEntry): void {
  unconfirmedStops.clear();
  for (const id of eventExits.keys()) staleIds.set(id, {});
  eventExits.clear();
}

/** Sorts instances for decisions: by attempt, then by creation, newest first. */
export function newestFirst<T extends { readonly attempt: number; readonly createdAt: number }>(
  all: Iterable<T>,
): readonly T[] {
  return [...all].toSorted((a, b) => b.attempt - a.attempt || b.createdAt - a.createdAt);
}

/** Converts the entry to the input of decisions. */
export function toObservedPod(entry: PodCacheEntry, images: ObservedPod["images"]): ObservedPod {
  const { uid, namespace, name, loggedAttempts, removedAttempts, resources, cgroup, eventExits } = entry;
  const { pendingPostStartHooks, endedPreStopHooks, probeMarks } = entry;
  const [sandboxReadError] = entry.sandboxReadErrors.values();
  const [containerRead] = entry.containerReadErrors.values();
  return {
    uid,
    namespace,
    name,
    sandboxes: newestFirst(entry.sandboxes.values()),
    containers: newestFirst(entry.containers.values()),
    images,
    loggedAttempts,
    removedAttempts,
    resources: cgroup === undefined ? resources : [...resources, { of: "cgroup" }],
    ...(cgroup && { cgroup }),
    pendingPostStartHooks,
    endedPreStopHooks,
    probeMarks,
    health: new Map(),
    ...(eventExits.size > 0 && ({ hasUnconfirmedExit: true } satisfies Partial<ObservedPod>)),
    ...(sandboxReadError && { sandboxReadError }),
    ...(containerRead && { containerReadError: containerRead.error }),
  };
}
