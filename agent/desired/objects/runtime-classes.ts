import { onAbort } from "../../../host/async/abort.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { runtimeClasses } from "../../../kube/resource.ts";
import type { RuntimeClass } from "../../../proto/kubernetes/gen/types.ts";
import { createInformer } from "./informer.ts";

/** The RuntimeClasses of the cluster. */
export interface RuntimeClasses {
  /** A pod names a RuntimeClass: starts the watch. */
  startWatch(): void;
  /** The runtime handlers by class name; undefined until the first list. */
  handlers(): ReadonlyMap<string, string> | undefined;
  /** Resolves when the signal has aborted; never rejects. */
  run(signal: AbortSignal): Promise<void>;
}

export interface RuntimeClassesOptions {
  readonly kube: Pick<KubeClient, "listAndWatch">;
  readonly log: Log;
  /** Called after the first list. */
  readonly onSynced: () => void;
}

/** Most nodes never run a pod with a RuntimeClass, so the watch starts with the first such pod. */
export function createRuntimeClasses({ kube, log, onSynced }: RuntimeClassesOptions): RuntimeClasses {
  const requested = Promise.withResolvers<void>();
  let handlers: ReadonlyMap<string, string> | undefined;
  const informer = createInformer({ kube, log, resource: runtimeClasses, selector: {}, transform, onChange });

  function onChange(): void {
    const isFirst = handlers === undefined;
    handlers = new Map((informer.latest() ?? []).map(({ metadata, handler }) => [metadata.name ?? "", handler]));
    if (isFirst) onSynced();
  }

  return {
    startWatch: requested.resolve,
    handlers: () => handlers,
    async run(signal) {
      onAbort(signal, requested.resolve);
      await requested.promise;
      if (!signal.aborted) await informer.run(signal);
    },
  };
}

function transform({ metadata: { name }, handler }: RuntimeClass): RuntimeClass | undefined {
  if (name === undefined || typeof handler !== "string") return undefined;
  return { metadata: { name }, handler };
}
