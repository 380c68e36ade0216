import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { createBackoffCounter } from "../../../host/async/backoff.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/error.ts";
import type { KubeObject, Resource, Selector } from "../../../kube/resource.ts";
import { createInformer } from "./informer.ts";

/** The objects of a resource that not every API server serves. */
export type ServedObjects<T> =
  | { readonly kind: "unread" }
  /** Nothing was read for ten seconds: pods do not wait for it any longer. */
  | { readonly kind: "late" }
  | { readonly kind: "unserved" }
  /** It is unknown whether the server serves them. */
  | { readonly kind: "failed"; readonly message: string }
  /** As last read, also during an outage of the API server. */
  | { readonly kind: "read"; readonly objects: readonly T[] };

/** Watches a resource that not every API server serves. */
export interface ServedInformer<T> {
  latest(): ServedObjects<T>;
  /** Runs until `stop`; never rejects. Called once. */
  run(): Promise<void>;
  /** Ends the watch; `onChange` is not called afterwards. */
  stop(): void;
}

export interface ServedInformerOptions<T extends KubeObject> {
  readonly kube: Pick<KubeClient, "isServed" | "listAndWatch" | "subscribeToRecovery">;
  readonly clock: Clock;
  readonly log: Log;
  /** The versions of the resource, the preferred one first. */
  readonly versions: readonly Resource<T>[];
  readonly selector: Selector;
  /** Reduces an object to the fields in use; undefined to leave it out. The object may be malformed. */
  readonly transform: (object: T) => T | undefined;
  /** The result of `latest` has changed. May not throw. */
  readonly onChange: () => void;
}

/** The time for which the kubelet waits for its informer of ClusterTrustBundles. */
const WAIT_FOR_FIRST_LIST_MS = 10_000;
const RETRY = { initialMs: 500, maxMs: 122_000 };

/**
 * Asks once what the server serves. A server that does not serve the resource is asked again only after an outage: with
 * other flags it has to start again.
 */
export function createServedInformer<T extends KubeObject>(options: ServedInformerOptions<T>): ServedInformer<T> {
  const { kube, clock, versions, onChange } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const recovery = createAutoResetEvent(clock);
  const backoff = createBackoffCounter(RETRY);
  let latest: ServedObjects<T> = { kind: "unread" };

  function update(next: ServedObjects<T>): void {
    latest = next;
    if (!signal.aborted) onChange();
  }

  async function follow(resource: Resource<T>): Promise<void> {
    latest = { kind: "unread" };
    const cancelTimeout = clock.wakeAt(clock.now() + WAIT_FOR_FIRST_LIST_MS, () => update({ kind: "late" }));
    const informer = createInformer({
      ...options,
      resource,
      onChange() {
        cancelTimeout();
        update({ kind: "read", objects: informer.latest() ?? [] });
      },
    });
    await informer.run(signal);
    cancelTimeout();
  }

  return {
    latest: () => latest,
    async run() {
      kube.subscribeToRecovery(recovery.set, signal);
      while (!signal.aborted) {
        const found = await findServed(kube, versions, signal);
        if (signal.aborted) return;
        if ("plural" in found) return await follow(found);
        update(found);
        await recovery.wait(
          found.kind === "unserved" ? Number.POSITIVE_INFINITY : clock.now() + backoff.next(),
          signal,
        );
      }
    },
    stop: () => stopping.abort(),
  };
}

async function findServed<T extends KubeObject>(
  kube: Pick<KubeClient, "isServed">,
  versions: readonly Resource<T>[],
  signal: AbortSignal,
): Promise<Resource<T> | Extract<ServedObjects<T>, { readonly kind: "unserved" | "failed" }>> {
  try {
    for (const each of versions) if (await kube.isServed(each, { signal })) return each;
    return { kind: "unserved" };
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    return { kind: "failed", message: error.serverMessage ?? error.message };
  }
}
