import type { Log } from "../../../host/log.ts";
import type { Kube } from "../../../kube/client.ts";
import { isToldByConnection, type KubeError } from "../../../kube/error.ts";
import type { KubeObject, Resource, Selector } from "../../../kube/resource.ts";
import type { FollowListener } from "../../../kube/watch/reflector.ts";
import { createTrouble } from "../outage-log.ts";

/** Objects of the cluster as they were heard last, each cut down to what is used of it. */
export interface Collection<T> {
  /** Undefined until all of them were read once; the same array until something changes. */
  latest(): readonly T[] | undefined;
  /** Follows them until the signal aborts; never rejects. An outage changes nothing of what was heard. */
  follow(signal: AbortSignal): Promise<void>;
}

export interface CollectionSettings<T extends KubeObject> {
  readonly kube: Pick<Kube, "follow">;
  readonly log: Log;
  readonly resource: Resource<T>;
  readonly selector: Selector;
  /** What is used of an object; undefined for one that is of no use. Whatever a server may send comes here. */
  readonly kept: (object: T) => T | undefined;
  /** They were read, or are others now. May not throw. */
  readonly changed: () => void;
}

export function createCollection<T extends KubeObject>(settings: CollectionSettings<T>): Collection<T> {
  const { kube, log, resource, selector, kept, changed } = settings;
  const { plural } = resource;
  const byName = new Map<string, T>();
  const trouble = createTrouble(log, {}, `${plural} are read from the API server`);
  let isRead = false;
  let latest: readonly T[] | undefined;

  function put(told: T): void {
    const object = kept(told);
    if (object === undefined) byName.delete(keyOf(told));
    else byName.set(keyOf(told), object);
  }

  function settle(): void {
    latest = undefined;
    changed();
  }

  const listener: FollowListener<T> = {
    replaced(objects) {
      byName.clear();
      for (const object of objects) put(object);
      isRead = true;
      trouble.over();
      settle();
    },
    changed(kind, object) {
      if (kind === "deleted") byName.delete(keyOf(object));
      else put(object);
      settle();
    },
    away(error: KubeError) {
      // Later on what was read is good enough, and whoever follows the pods tells of what is wrong.
      if (!isRead && !isToldByConnection(error))
        trouble.met(`${plural} cannot be read from the API server: ${error.message}`);
    },
    back() {
      // What was missed is told as changes, or anew.
    },
  };
  return {
    latest() {
      if (isRead) latest ??= [...byName.values()];
      return latest;
    },
    follow: (signal) => kube.follow(resource, selector, listener, signal),
  };
}

function keyOf({ metadata: { namespace = "", name = "" } }: KubeObject): string {
  return `${namespace}/${name}`;
}
