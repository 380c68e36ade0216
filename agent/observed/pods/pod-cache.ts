import { CriError } from "../../../cri/error.ts";
import type { RuntimeContainerEvent } from "../../../cri/runtime.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { Container, PodSandbox } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, PodUid } from "../../../proto/ids.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import { isOutdated } from "../../decide/container/container-hash.ts";
import { imageOf, imageUses } from "../../decide/container/image.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { MutationEffect } from "../../decide/pod/mutation-effect.ts";
import type { ImagePresence, ObservedPod } from "../../decide/pod/observed.ts";
import { withResource } from "../../decide/pod/resources.ts";
import type { ObservedImages } from "../image-presence.ts";
import { recheckForOomReason, recheckUnconfirmedExits } from "./exit-rechecks.ts";
import { type Owner, ownerOf } from "./from-cri.ts";
import {
  applyEvents,
  type CriId,
  createPodCacheEntry,
  isRelevant,
  markStale,
  newestFirst,
  type PodCacheEntry,
  toObservedPod,
} from "./pod-cache-entry.ts";
import type { PodCgroupReader } from "./pod-cgroups.ts";
import { isFoundByLists, type PodDirReader } from "./pod-dirs.ts";
import { applyLists, type RefreshDeps, refreshEntry } from "./refresh.ts";
import { listOf } from "./relist-log.ts";
import { recheckUnanswered } from "./unanswered-calls.ts";

/**
 * The cache of the node's pods, with marks for what is out of date. An observation reads only that: an idle pod costs
 * nothing, and a start costs one status call for each call that changed something.
 */
export interface PodCache {
  /** Reads what is out of date and returns the pod. Rejects with `CriError` or `FilesError` if that fails. */
  observe(uid: PodUid, desired: DesiredPod | undefined): Promise<ObservedPod>;
  /** Whether a sandbox or container of the pod is on the node; `unknown` until the runtime is listed. */
  isOnNode(uid: PodUid): boolean | "unknown";
  /** Lists everything and wakes the pods that differ from the cache. Rejects with `CriError` or `FilesError`. */
  relist(): Promise<void>;
  /**
   * The connection is lost, or there was none: changes are missed from now on, so observations fail until the next
   * relist. They fail with the reason of `outage`, or with the previous reason if `outage` is undefined.
   */
  markDisconnected(outage?: RuntimeOutage): void;
  /**
   * Applies an event and wakes its pod. Returns `new` for a pod that is not cached, `unknown` if the id belongs to no
   * known pod yet.
   */
  handleEvent(event: RuntimeContainerEvent): "known" | "new" | "unknown";
  /**
   * Our call that changes the pod starts. `stopping`: the caller wakes the pod when this container's stop has finished.
   */
  beginMutation(uid: PodUid, stopping?: ContainerId): void;
  /** The call has finished. What it changed is read again before the next decision. */
  endMutation(uid: PodUid, effect: MutationEffect, stopping?: ContainerId): void;
  /** Nothing is left of the pod. */
  forget(uid: PodUid): void;
  wakeAll(): void;
}

/** Why the runtime cannot be read, and the socket that the agent reconnects to. */
export interface RuntimeOutage {
  readonly error: CriError;
  readonly socket: string;
}

export interface PodCacheOptions extends RefreshDeps {
  readonly images: ObservedImages;
  readonly podDirs: PodDirReader;
  /** Undefined where pods have no cgroups of their own. */
  readonly podCgroups: PodCgroupReader | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly wake: (uid: PodUid) => void;
}

interface PodCacheState extends PodCacheOptions {
  readonly entries: Map<PodUid, PodCacheEntry>;
  /** The pod of each sandbox and container: events contain only these ids. */
  readonly owners: Map<string, PodUid>;
  /**
   * Pods of which the last relist found only a directory without a name. They are cached when they are first observed.
   */
  readonly podsWithoutName: Set<PodUid>;
  /** Sandboxes and containers that no kubelet created; each is logged once. */
  readonly unmanagedIds: Set<string>;
  /** True once everything was listed: from then on, what is not cached does not exist. */
  hasListed: boolean;
  /** When the limits of all cgroups were compared last. */
  limitsReadAt: number;
  /** Why nothing was listed yet. */
  notListedReason: string;
}

export function createPodCache(options: PodCacheOptions): PodCache {
  const cache: PodCacheState = {
    ...options,
    entries: new Map(),
    owners: new Map(),
    podsWithoutName: new Set(),
    unmanagedIds: new Set(),
    hasListed: false,
    limitsReadAt: Number.NEGATIVE_INFINITY,
    notListedReason: "the container runtime has not been listed yet",
  };
  const { entries, owners } = cache;
  return {
    observe: (uid, desired) => observe(cache, uid, desired),
    relist: () => relist(cache),
    isOnNode(uid) {
      const { sandboxes, containers, staleIds } = entries.get(uid) ?? {};
      // A sandbox or container that was listed but not read yet is in `staleIds` only.
      return cache.hasListed ? Boolean(sandboxes?.size || containers?.size || staleIds?.size) : "unknown";
    },
    markDisconnected(outage) {
      cache.hasListed = false;
      if (outage === undefined) return;
      cache.notListedReason = `the container runtime is away (reconnecting to ${outage.socket}): ${outage.error.message}`;
    },
    handleEvent(event) {
      const uid = (event.podUid || owners.get(event.containerId)) ?? owners.get(event.podSandboxId ?? "");
      const entry = uid === undefined ? undefined : entries.get(uid);
      if (uid === undefined) return cache.unmanagedIds.has(event.containerId) ? "known" : "unknown";
      if (entry === undefined) return "new";
      if (!isRelevant(entry, event)) return "known";
      entry.pendingEvents.push(event);
      if (!entry.stopping.has(event.containerId)) options.wake(uid);
      return "known";
    },
    beginMutation(uid, stopping) {
      const entry = entries.get(uid);
      if (entry === undefined) return;
      entry.mutations++;
      if (stopping !== undefined) entry.stopping.add(stopping);
    },
    endMutation(uid, effect, stopping) {
      if (stopping !== undefined) entries.get(uid)?.stopping.delete(stopping);
      applyEffect(cache, uid, effect);
    },
    wakeAll() {
      for (const uid of new Set([...entries.keys(), ...cache.podsWithoutName])) options.wake(uid);
    },
    forget(uid) {
      entries.delete(uid);
      cache.podsWithoutName.delete(uid);
      for (const [id, owner] of owners) if (owner === uid) owners.delete(id);
    },
  };
}

async function observe(cache: PodCacheState, uid: PodUid, desired: DesiredPod | undefined): Promise<ObservedPod> {
  if (!cache.hasListed) throw notListedError(cache);
  const { namespace = "default", name = "" } = desired?.pod.metadata ?? {};
  const known = cache.entries.get(uid);
  // A pod that is known only by its directory gets its name, which its log directory contains, when it is desired
  // again.
  const lacksName = known?.name === "" && name !== "";
  const entry = known === undefined || lacksName ? createPodCacheEntry(uid, namespace, name, lacksName) : known;
  // The last list of the node has not shown the pod, and this agent has made nothing for it since.
  if (known === undefined && !cache.podsWithoutName.has(uid) && isFoundByLists(uid))
    entry.areFilesStale = entry.isCgroupStale = false;
  cache.entries.set(uid, entry);
  // A pod without a container needs all its images. The runtime looks for them while its files are read.
  const imagesOfNewPod = known === undefined ? imagesOf(cache, entry, desired) : undefined;
  // It is awaited below, unless one of the other reads rejects first.
  imagesOfNewPod?.catch(() => undefined);
  while (entry.areFilesStale) await readDirs(cache.podDirs, entry);
  if (entry.isCgroupStale) await readCgroup(cache, entry);
  applyEvents(entry);
  await refreshEntry(cache, entry);
  indexIds(cache, entry);
  if (recheckUnconfirmedExits(cache, entry)) await refreshEntry(cache, entry);
  recheckNewExits(cache, entry);
  return toObservedPod(entry, await (imagesOfNewPod ?? imagesOf(cache, entry, desired)));
}

/**
 * Reads the pod's directories. Repeated if one of our calls (a hook in the background) has changed the pod meanwhile.
 */
async function readDirs(podDirs: PodDirReader, entry: PodCacheEntry): Promise<void> {
  const { mutations } = entry;
  entry.areFilesStale = false;
  try {
    Object.assign(entry, await podDirs.read(entry));
    if (entry.mutations !== mutations) entry.areFilesStale = true;
  } catch (error) {
    entry.areFilesStale = true;
    throw error;
  }
}

/** Reads the limits of the pod's cgroup. Returns whether they differ from those that were read before. */
async function readCgroup({ podCgroups }: PodCacheState, entry: PodCacheEntry): Promise<boolean> {
  const before = entry.cgroup;
  // Clear the mark before the read: a call that changes the cgroup meanwhile sets it again.
  entry.isCgroupStale = false;
  try {
    entry.cgroup = await podCgroups?.read(entry.uid);
  } catch (error) {
    entry.isCgroupStale = true;
    throw error;
  }
  return JSON.stringify(entry.cgroup) !== JSON.stringify(before);
}

/** The error of an observation before the first list. No call was made, so the message does not start with its name. */
function notListedError({ notListedReason: message }: PodCacheState): CriError {
  return Object.assign(new CriError("UNAVAILABLE", "ListPodSandbox", message), { message });
}

/** Updates the index from sandbox and container ids to pods, by which events find their pod. */
function indexIds({ owners }: PodCacheState, entry: PodCacheEntry): void {
  const ids = new Set<string>([...entry.sandboxes.keys(), ...entry.containers.keys()]);
  for (const id of entry.ids) if (!ids.has(id)) owners.delete(id);
  for (const id of ids) owners.set(id, entry.uid);
  entry.ids = ids;
}

/**
 * The images of the containers that may have to be created next, and of their volumes: no instance is created or runs,
 * or it has another image.
 */
async function imagesOf(
  { images }: PodCacheState,
  entry: PodCacheEntry,
  desired: DesiredPod | undefined,
): Promise<ObservedPod["images"]> {
  const containers = newestFirst(entry.containers.values());
  const isThere = (container: Parameters<typeof isOutdated>[0]) => {
    const newest = containers.find(({ name }) => name === container.name);
    return (newest?.state === "created" || newest?.state === "running") && !isOutdated(container, newest);
  };
  const neededImages = (desired === undefined ? [] : allContainers(desired.pod.spec))
    .filter((container) => !isThere(container))
    .flatMap((container) => (desired === undefined ? [] : imageUses(desired.pod, container)))
    .map(imageOf);
  const found = [...new Set(neededImages)].map(async (image) => [image, await images.presence(image)] as const);
  return new Map<string, ImagePresence>(await Promise.all(found));
}

/** The runtime may complete the reason of an exit later. */
function recheckNewExits(cache: PodCacheState, entry: PodCacheEntry): void {
  const exited = [...entry.containers.values()].filter(({ state }) => state === "exited").map(({ id }) => id);
  for (const id of exited) if (!entry.knownExits.has(id)) recheckForOomReason(cache, entry, id);
  entry.knownExits = new Set(exited);
}

function applyEffect(cache: PodCacheState, uid: PodUid, effect: MutationEffect): void {
  const entry = cache.entries.get(uid);
  if (entry === undefined) return;
  entry.mutations++;
  switch (effect.kind) {
    case "nothing":
      return;
    case "resourceMade":
      entry.resources = withResource(entry.resources, effect.resource);
      return;
    case "cgroup":
      entry.isCgroupStale = true;
      return;
    case "files":
      entry.areFilesStale = true;
      return;
    case "everything":
      markEverything(entry);
      return;
    case "unanswered":
      markEverything(entry);
      recheckUnanswered(cache, entry);
      return;
    case "created":
      cache.owners.set(effect.container.id, uid);
      entry.parents.set(effect.container.id, effect.container.sandboxId);
      entry.containers.set(effect.container.id, effect.container);
      return;
    case "hook": {
      const others = [...entry.pendingPostStartHooks].filter((instance) => instance !== effect.instance);
      entry.pendingPostStartHooks = new Set(effect.isPending ? [...others, effect.instance] : others);
      markChanged(cache, entry, effect.id);
      return;
    }
    case "containerAndFiles":
      entry.areFilesStale = true;
      markChanged(cache, entry, effect.id);
      return;
    case "sandbox":
    case "container":
      markChanged(cache, entry, effect.id);
      return;
  }
}

function markEverything(entry: PodCacheEntry): void {
  entry.isStale = true;
  // A failed volume set-up may have left directories.
  entry.areFilesStale = true;
  entry.isCgroupStale = true;
  for (const id of [...entry.sandboxes.keys(), ...entry.containers.keys()]) markStale(entry, id);
}

function markChanged({ owners }: PodCacheState, entry: PodCacheEntry, id: CriId): void {
  owners.set(id, entry.uid);
  markStale(entry, id);
}

/*
 * A list and our own calls can cross:
 *
 *   1. the relist requests all containers       3. our call creates a container, and its sync reads it
 *   2. the runtime builds the list              4. the list arrives, without the container
 *
 * By this list the container would be gone, and the next sync would create a second one. So a list is ignored for a pod
 * that we changed after the request; that pod lists itself in its next sync.
 */
async function relist(cache: PodCacheState): Promise<void> {
  const { runtime, entries, podDirs, podCgroups, wake } = cache;
  // Keyed by entry, not by uid: a pod may have been added meanwhile, or removed and added again.
  const before = new Map([...entries.values()].map((entry) => [entry, entry.mutations]));
  const [sandboxes, containers, withFiles, withCgroup = []] = await Promise.all([
    runtime.listPodSandbox({}),
    runtime.listContainers({}),
    podDirs.list(),
    podCgroups?.list(),
  ]).catch((error: Error) => {
    cache.notListedReason = `cannot list ${listOf(error)}: ${error.message}`;
    throw error;
  });
  logUnmanaged(cache, [...sandboxes, ...containers]);
  for (const owner of [...sandboxes, ...containers].map(ownerOf)) addOwner(cache, owner);
  const withoutFiles = withCgroup.filter((uid) => !withFiles.some((owner) => owner.uid === uid));
  const onDisk = [...withFiles, ...withoutFiles.map((uid) => ({ uid, namespace: "", name: "" }))];
  const onDiskOnly = onDisk.filter(({ uid }) => !entries.has(uid));
  cache.podsWithoutName.clear();
  for (const owner of onDiskOnly) addOwner(cache, owner);
  for (const { uid } of onDiskOnly) if (!entries.has(uid)) cache.podsWithoutName.add(uid);
  const isFirst = !cache.hasListed;
  cache.hasListed = true;
  const sandboxesOf = Map.groupBy(sandboxes, (each) => ownerOf(each)?.uid);
  const containersOf = Map.groupBy(containers, (each) => ownerOf(each)?.uid);
  for (const [uid, entry] of entries) {
    const wasChangedByUs = (before.get(entry) ?? 0) !== entry.mutations;
    if (wasChangedByUs) entry.isStale = true;
    const hasChanged = !wasChangedByUs && applyLists(entry, sandboxesOf.get(uid) ?? [], containersOf.get(uid) ?? []);
    if (hasChanged || wasChangedByUs || isFirst) wake(uid);
  }
  for (const { uid } of onDiskOnly) wake(uid);
  await readChangedLimits(cache, before);
}

/** No relist reads the limits sooner after the last: without events of the runtime there is one every second. */
const MIN_LIMITS_INTERVAL_MS = 60_000;

/** Wakes the pods whose cgroups another program has changed, which no event reports; not those that our own calls change. */
async function readChangedLimits(
  cache: PodCacheState,
  mutationsBefore: ReadonlyMap<PodCacheEntry, number>,
): Promise<void> {
  const { entries, podCgroups, clock, wake } = cache;
  if (podCgroups === undefined || clock.now() < cache.limitsReadAt + MIN_LIMITS_INTERVAL_MS) return;
  cache.limitsReadAt = clock.now();
  for (const [uid, entry] of entries)
    if (mutationsBefore.get(entry) === entry.mutations && (await hasChangedLimits(cache, entry))) wake(uid);
}

/** Whether another program has changed the pod's cgroup. Then the pod has to be observed. */
async function hasChangedLimits(cache: PodCacheState, entry: PodCacheEntry): Promise<boolean> {
  try {
    return await readCgroup(cache, entry);
  } catch {
    // The mark is set again, so that the observation of the pod reports why.
    return true;
  }
}

/** Adds a pod to the cache. A pod without a name is added when it is observed: its desired pod has the name. */
function addOwner({ entries }: PodCacheState, owner: Owner | undefined): void {
  if (owner === undefined || owner.name === "" || entries.has(owner.uid)) return;
  entries.set(owner.uid, createPodCacheEntry(owner.uid, owner.namespace, owner.name, false));
}

function logUnmanaged({ unmanagedIds, log }: PodCacheState, found: readonly (PodSandbox | Container)[]): void {
  const present = new Set(found.map(({ id }) => id));
  for (const id of unmanagedIds) if (!present.has(id)) unmanagedIds.delete(id);
  for (const each of found) {
    if (ownerOf(each) !== undefined || unmanagedIds.has(each.id)) continue;
    unmanagedIds.add(each.id);
    log.info({ id: each.id }, "ignoring a sandbox or container that belongs to no pod");
  }
}
