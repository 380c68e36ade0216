import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type Reference, type Referent, type Referents, referencesOf } from "../../../proto/kubernetes/references.ts";
import { createFollowedObject, type FollowedObject, type FollowedObjectSettings } from "./object-watch.ts";

/** The Secrets and ConfigMaps that pods of this node refer to, as the kubelet's strategy `Watch` has them. */
export interface References {
  /** As they were read last, also while the API server is away. */
  latest(): Referents;
  /** The keys of what was read, and of what could not be read for so long that nobody is to wait for it. */
  answered(): ReadonlySet<string>;
  /** The pod is to run here: what it refers to is followed from now on. */
  wanted(uid: PodUid, pod: Pod): void;
  /** The pod starts nothing any more: what no other one refers to is forgotten. */
  released(uid: PodUid): void;
  /** Until the signal aborts; never rejects. */
  follow(signal: AbortSignal): Promise<void>;
}

export interface ReferencesSettings extends Pick<FollowedObjectSettings, "kube" | "clock" | "log"> {
  /** An object that the pod refers to was read, is another one now, or is not waited for any more. May not throw. */
  readonly news: (uid: PodUid, key: string) => void;
}

interface User {
  readonly pod: Pod;
  readonly references: ReadonlyMap<string, Reference>;
}

interface Used {
  readonly object: FollowedObject;
  readonly users: Set<PodUid>;
}

export function createReferences({ news, ...adapters }: ReferencesSettings): References {
  const users = new Map<PodUid, User>();
  const used = new Map<string, Used>();
  const latest = new Map<string, Referent | "absent">();
  const answered = new Set<string>();
  const following = new Set<Promise<void>>();
  let isFollowing = false;

  function begin(key: string, reference: Reference): Used {
    const tellUsers = () => {
      answered.add(key);
      for (const uid of own.users) news(uid, key);
    };
    const told = (object: Referent | "absent") => {
      latest.set(key, object);
      tellUsers();
    };
    const object = createFollowedObject({ ...adapters, reference, told, late: tellUsers });
    const own = { object, users: new Set<PodUid>() };
    used.set(key, own);
    if (isFollowing) follow(own);
    return own;
  }

  function follow({ object }: Used): void {
    const followed = object.follow().finally(() => following.delete(followed));
    following.add(followed);
  }

  function leave(uid: PodUid, key: string): void {
    const own = used.get(key);
    own?.users.delete(uid);
    if (own === undefined || own.users.size > 0) return;
    own.object.end();
    used.delete(key);
    latest.delete(key);
    answered.delete(key);
  }

  return {
    latest: () => latest,
    answered: () => answered,
    wanted(uid, pod) {
      const before = users.get(uid);
      if (before?.pod === pod) return;
      const references = referencesOf(pod);
      users.set(uid, { pod, references });
      for (const [key, reference] of references) (used.get(key) ?? begin(key, reference)).users.add(uid);
      for (const key of before?.references.keys() ?? []) if (!references.has(key)) leave(uid, key);
    },
    released(uid) {
      for (const key of users.get(uid)?.references.keys() ?? []) leave(uid, key);
      users.delete(uid);
    },
    async follow(signal) {
      isFollowing = true;
      for (const own of used.values()) follow(own);
      await aborted(signal);
      isFollowing = false;
      for (const { object } of used.values()) object.end();
      await Promise.all(following);
    },
  };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
