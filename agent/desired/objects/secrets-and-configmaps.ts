import { aborted } from "../../../host/async/abort.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { ChangeDetectionStrategy } from "../../../proto/kubelet/config.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import {
  type Reference,
  type ReferencedObject,
  type ReferencedObjects,
  referenceKey,
  referencesOf,
  volumeReferences,
} from "../../../proto/kubernetes/references.ts";
import { createObjectRead } from "./object-read.ts";
import type { ObjectSource, ObjectSourceOptions } from "./object-source.ts";
import { createObjectWatch } from "./object-watch.ts";

/** Caches the Secrets and ConfigMaps that pods of this node refer to. */
export interface ReferencedObjectCache {
  /** The objects as last read, also during an outage of the API server. */
  latest(): ReferencedObjects;
  /**
   * Why the objects cannot be read that were never read, by key, in the API server's words: with `Cache` and `Get` alone, as
   * with the kubelet.
   */
  failures(): ReadonlyMap<string, string>;
  /** The resourceVersion of each object as last read; `absent` if there is none. */
  versions(): ReadonlyMap<string, string>;
  /**
   * The keys of the objects that were read, or whose read has timed out so that pods do not wait for them. With `Cache` and
   * `Get` an object is missing here while what was read is too old for a container that starts now.
   */
  settledKeys(): ReadonlySet<string>;
  /** Follows what the pod refers to from now on. */
  retain(uid: PodUid, pod: Pod): void;
  /** The pod starts no more containers: drops the objects that no other pod refers to. */
  release(uid: PodUid): void;
  /** The pod was synced: what it refers to is read again if it is too old. */
  onPodSynced(uid: PodUid): void;
  /** Runs the watches or the reads until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
}

export interface ReferencedObjectCacheOptions extends Pick<ObjectSourceOptions, "kube" | "clock" | "log"> {
  readonly changeDetection: ChangeDetection;
  /** An object that the pod refers to was read, has changed, or has timed out. May not throw. */
  readonly onChange: (uid: PodUid, key: string) => void;
  /** An object for which the pod may have waited was read again and has not changed. May not throw. */
  readonly onUnchanged: (uid: PodUid) => void;
}

/** How changes of the objects are found. */
export interface ChangeDetection {
  readonly strategy: ChangeDetectionStrategy;
  /** How long `Cache` uses an object that was read. */
  readonly ttlMs: () => number;
  /** How often at most `Cache` and `Get` read what running pods show in their volumes. */
  readonly syncFrequencyMs: number;
  /** Returns a number in [0, 1), for jitter. */
  readonly random: () => number;
}

interface PodReferences {
  readonly pod: Pod;
  readonly references: ReadonlyMap<string, Reference>;
  /** The keys of what its volumes show. */
  readonly shownKeys: ReadonlySet<string>;
}

interface FollowedObject {
  readonly source: ObjectSource;
  readonly users: Set<PodUid>;
}

export function createReferencedObjectCache(options: ReferencedObjectCacheOptions): ReferencedObjectCache {
  const pods = new Map<PodUid, PodReferences>();
  const isShown = (uid: PodUid, key: string) => pods.get(uid)?.shownKeys.has(key) === true;
  const { latest, failures, versions, settledKeys, run, ...objects } = createFollowedObjects(options, isShown);
  return {
    latest,
    failures,
    versions,
    settledKeys,
    run,
    retain(uid, pod) {
      const before = pods.get(uid);
      if (before?.pod === pod) return;
      const references = referencesOf(pod);
      pods.set(uid, { pod, references, shownKeys: shownKeysOf(pod) });
      for (const [key, reference] of references)
        if (before?.references.has(key) !== true) objects.addUser(uid, key, reference);
      for (const key of before?.references.keys() ?? []) if (!references.has(key)) objects.removeUser(uid, key);
    },
    release(uid) {
      for (const key of pods.get(uid)?.references.keys() ?? []) objects.removeUser(uid, key);
      pods.delete(uid);
    },
    onPodSynced(uid) {
      for (const key of pods.get(uid)?.references.keys() ?? []) objects.refresh(key);
    },
  };
}

const shownKeysOf = (pod: Pod): ReadonlySet<string> =>
  new Set((pod.spec.volumes ?? []).flatMap((volume) => volumeReferences(pod, volume).map(referenceKey)));

/** The objects by their `referenceKey`, each with the pods that refer to it. */
function createFollowedObjects(
  { onChange, onUnchanged, changeDetection, ...adapters }: ReferencedObjectCacheOptions,
  isShown: (uid: PodUid, key: string) => boolean,
) {
  const followed = new Map<string, FollowedObject>();
  const latest = new Map<string, ReferencedObject | "absent">();
  const [failures, versions] = [new Map<string, string>(), new Map<string, string>()];
  const settledKeys = new Set<string>();
  const running = new Set<Promise<void>>();
  let isRunning = false;

  function follow(key: string, reference: Reference): FollowedObject {
    const notifyUsers = () => {
      settledKeys.add(key);
      for (const uid of entry.users) onChange(uid, key);
    };
    const onObject = (object: ReferencedObject | "absent") => {
      latest.set(key, object);
      failures.delete(key);
      versions.set(key, object === "absent" ? object : object.version);
      notifyUsers();
    };
    const source = createSource(changeDetection, {
      ...adapters,
      reference,
      onObject,
      onTimeout(failure) {
        setOrDelete(failures, key, failure);
        notifyUsers();
      },
      isShown: () => [...entry.users].some((uid) => isShown(uid, key)),
      onUnchanged: () => entry.users.forEach(onUnchanged),
    });
    const entry = { source, users: new Set<PodUid>() };
    followed.set(key, entry);
    if (isRunning) runSource(source);
    return entry;
  }

  function runSource(source: ObjectSource): void {
    const sourceRun = source.run().finally(() => running.delete(sourceRun));
    running.add(sourceRun);
  }

  const sources = () => [...followed.values()].map(({ source }) => source);
  return {
    latest: () => latest,
    failures: () => failures,
    versions: () => versions,
    settledKeys() {
      if (changeDetection.strategy === "Watch") return settledKeys;
      return new Set([...settledKeys].filter((key) => followed.get(key)?.source.isRecent()));
    },
    addUser(uid: PodUid, key: string, reference: Reference): void {
      const present = followed.get(key);
      present?.source.invalidate();
      (present ?? follow(key, reference)).users.add(uid);
    },
    removeUser(uid: PodUid, key: string): void {
      const entry = followed.get(key);
      entry?.users.delete(uid);
      if (entry === undefined || entry.users.size > 0) return;
      entry.source.stop();
      for (const each of [followed, latest, failures, versions, settledKeys]) each.delete(key);
    },
    refresh: (key: string) => followed.get(key)?.source.refresh(),
    async run(signal: AbortSignal): Promise<void> {
      isRunning = true;
      const retryAll = () => {
        for (const each of sources()) each.retryAfterOutage();
      };
      adapters.kube.subscribeToRecovery(retryAll, signal);
      sources().forEach(runSource);
      await aborted(signal);
      isRunning = false;
      for (const each of sources()) each.stop();
      await Promise.all(running);
    },
  };
}

function setOrDelete<K, V>(map: Map<K, V>, key: K, value: V | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}

interface SourceOptions extends ObjectSourceOptions {
  readonly isShown: () => boolean;
  readonly onUnchanged: () => void;
}

function createSource({ strategy, ttlMs, ...reads }: ChangeDetection, options: SourceOptions): ObjectSource {
  switch (strategy) {
    case "Watch":
      return createObjectWatch(options);
    case "Cache":
      return createObjectRead({ ...options, ...reads, ttlMs, mayBeCached: true });
    case "Get":
      return createObjectRead({ ...options, ...reads, ttlMs: () => 0, mayBeCached: false });
  }
}
