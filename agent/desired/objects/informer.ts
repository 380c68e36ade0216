import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { isLoggedBySessionPool, type KubeError } from "../../../kube/error.ts";
import type { KubeObject, Resource, Selector } from "../../../kube/resource.ts";
import type { ReflectorListener } from "../../../kube/watch/reflector.ts";
import { createOutageLog } from "../outage-log.ts";

/** A list of API objects that a watch keeps up to date, each reduced to the fields in use. */
export interface Informer<T> {
  /** Undefined until the first list; the same array until something changes. */
  latest(): readonly T[] | undefined;
  /** Runs the watch until the signal aborts; never rejects. During an outage the objects stay as they are. */
  run(signal: AbortSignal): Promise<void>;
}

export interface InformerOptions<T extends KubeObject> {
  readonly kube: Pick<KubeClient, "listAndWatch">;
  readonly log: Log;
  readonly resource: Resource<T>;
  readonly selector: Selector;
  /** Reduces an object to the fields in use; undefined to leave it out. The object may be malformed. */
  readonly transform: (object: T) => T | undefined;
  /** Called after the first list and after every change. May not throw. */
  readonly onChange: () => void;
}

export function createInformer<T extends KubeObject>(options: InformerOptions<T>): Informer<T> {
  const { kube, log, resource, selector, transform, onChange } = options;
  const { plural } = resource;
  const byName = new Map<string, T>();
  const outageLog = createOutageLog(log, {}, `${plural} are read from the API server`);
  let hasSynced = false;
  let latest: readonly T[] | undefined;

  function put(received: T): void {
    const object = transform(received);
    if (object === undefined) byName.delete(keyOf(received));
    else byName.set(keyOf(received), object);
  }

  function notify(): void {
    latest = undefined;
    onChange();
  }

  const listener: ReflectorListener<T> = {
    onReplaced(objects) {
      byName.clear();
      for (const object of objects) put(object);
      hasSynced = true;
      outageLog.clear();
      notify();
    },
    onChanged(kind, object) {
      if (kind === "deleted") byName.delete(keyOf(object));
      else put(object);
      notify();
    },
    onOutage(error: KubeError) {
      // After the first list the objects suffice, and the watch of pods logs outages.
      if (!hasSynced && !isLoggedBySessionPool(error))
        outageLog.report(`${plural} cannot be read from the API server: ${error.message}`);
    },
    onRecovered() {
      // The watch delivers missed changes, or a new list.
    },
  };
  return {
    latest() {
      if (hasSynced) latest ??= [...byName.values()];
      return latest;
    },
    run: (signal) => kube.listAndWatch(resource, selector, listener, signal),
  };
}

function keyOf({ metadata: { namespace = "", name = "" } }: KubeObject): string {
  return `${namespace}/${name}`;
}
