import { aborted } from "../../../host/async/abort.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import {
  type Reference,
  type ReferencedObject,
  type ReferencedObjects,
  referencesOf,
} from "../../../proto/kubernetes/references.ts";
import { createObjectWatch, type ObjectWatch, type ObjectWatchOptions } from "./object-watch.ts";

/** Caches the Secrets and ConfigMaps that pods of this node refer to, like the kubelet's strategy `Watch`. */
export interface ReferencedObjectCache {
  /** The objects as last read, also during an outage of the API server. */
  latest(): ReferencedObjects;
  /** The keys of the objects that were read, or whose first read has timed out so that pods do not wait for them. */
  settledKeys(): ReadonlySet<string>;
  /** Watches what the pod refers to from now on. */
  retain(uid: PodUid, pod: Pod): void;
  /** The pod starts no more containers: drops the objects that no other pod refers to. */
  release(uid: PodUid): void;
  /** Runs the watches until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
}

export interface ReferencedObjectCacheOptions extends Pick<ObjectWatchOptions, "kube" | "clock" | "log"> {
  /** An object that the pod refers to was read, has changed, or has timed out. May not throw. */
  readonly onChange: (uid: PodUid, key: string) => void;
}

interface PodReferences {
  readonly pod: Pod;
  readonly references: ReadonlyMap<string, Reference>;
}

interface WatchedObject {
  readonly object: ObjectWatch;
  readonly users: Set<PodUid>;
}

export function createReferencedObjectCache({
  onChange,
  ...adapters
}: ReferencedObjectCacheOptions): ReferencedObjectCache {
  const users = new Map<PodUid, PodReferences>();
  const watched = new Map<string, WatchedObject>();
  const latest = new Map<string, ReferencedObject | "absent">();
  const settledKeys = new Set<string>();
  const running = new Set<Promise<void>>();
  let isRunning = false;

  function startWatch(key: string, reference: Reference): WatchedObject {
    const notifyUsers = () => {
      settledKeys.add(key);
      for (const uid of entry.users) onChange(uid, key);
    };
    const onObject = (object: ReferencedObject | "absent") => {
      latest.set(key, object);
      notifyUsers();
    };
    const object = createObjectWatch({ ...adapters, reference, onObject, onTimeout: notifyUsers });
    const entry = { object, users: new Set<PodUid>() };
    watched.set(key, entry);
    if (isRunning) runWatch(entry);
    return entry;
  }

  function runWatch({ object }: WatchedObject): void {
    const watchRun = object.run().finally(() => running.delete(watchRun));
    running.add(watchRun);
  }

  function releaseKey(uid: PodUid, key: string): void {
    const entry = watched.get(key);
    entry?.users.delete(uid);
    if (entry === undefined || entry.users.size > 0) return;
    entry.object.stop();
    watched.delete(key);
    latest.delete(key);
    settledKeys.delete(key);
  }

  return {
    latest: () => latest,
    settledKeys: () => settledKeys,
    retain(uid, pod) {
      const before = users.get(uid);
      if (before?.pod === pod) return;
      const references = referencesOf(pod);
      users.set(uid, { pod, references });
      for (const [key, reference] of references) (watched.get(key) ?? startWatch(key, reference)).users.add(uid);
      for (const key of before?.references.keys() ?? []) if (!references.has(key)) releaseKey(uid, key);
    },
    release(uid) {
      for (const key of users.get(uid)?.references.keys() ?? []) releaseKey(uid, key);
      users.delete(uid);
    },
    async run(signal) {
      isRunning = true;
      for (const entry of watched.values()) runWatch(entry);
      await aborted(signal);
      isRunning = false;
      for (const { object } of watched.values()) object.stop();
      await Promise.all(running);
    },
  };
}
