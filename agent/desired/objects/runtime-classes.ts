import type { Log } from "../../../host/log.ts";
import type { Kube } from "../../../kube/client.ts";
import { runtimeClasses } from "../../../kube/resource.ts";
import type { RuntimeClass } from "../../../proto/kubernetes/gen/types.ts";
import { createCollection } from "./informer.ts";

/** The RuntimeClasses of the cluster. */
export interface RuntimeClasses {
  /** Some pod names one: they are followed from now on. */
  want(): void;
  /** Handlers by the names of their classes; undefined until they were read. */
  handlers(): ReadonlyMap<string, string> | undefined;
  /** Resolves when the signal has aborted; never rejects. */
  follow(signal: AbortSignal): Promise<void>;
}

export interface RuntimeClassesSettings {
  readonly kube: Pick<Kube, "follow">;
  readonly log: Log;
  /** They were read for the first time. */
  readonly read: () => void;
}

/** Most nodes never run a pod that names a class, and have no need of a watch that stays open. */
export function createRuntimeClasses({ kube, log, read }: RuntimeClassesSettings): RuntimeClasses {
  const wanted = Promise.withResolvers<void>();
  let handlers: ReadonlyMap<string, string> | undefined;
  const classes = createCollection({ kube, log, resource: runtimeClasses, selector: {}, kept, changed });

  function changed(): void {
    const isFirst = handlers === undefined;
    handlers = new Map((classes.latest() ?? []).map(({ metadata, handler }) => [metadata.name ?? "", handler]));
    if (isFirst) read();
  }

  return {
    want: wanted.resolve,
    handlers: () => handlers,
    async follow(signal) {
      signal.addEventListener("abort", () => wanted.resolve(), { once: true });
      if (!signal.aborted) await wanted.promise;
      if (!signal.aborted) await classes.follow(signal);
    },
  };
}

function kept({ metadata: { name }, handler }: RuntimeClass): RuntimeClass | undefined {
  if (name === undefined || typeof handler !== "string") return undefined;
  return { metadata: { name }, handler };
}
