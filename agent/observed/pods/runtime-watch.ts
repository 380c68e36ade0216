import type { Runtime, RuntimeContainerEvent } from "../../../cri/runtime.ts";
import { onAbort } from "../../../host/async/abort.ts";
import { createCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { ObservedImages } from "../image-presence.ts";
import type { PodCache } from "./pod-cache.ts";
import { createRelistLog } from "./relist-log.ts";
import { createRuntimeConnectionLog } from "./runtime-connection-log.ts";

export interface WatchRuntimeOptions {
  readonly runtime: Pick<Runtime, "events">;
  readonly pods: PodCache;
  readonly images: ObservedImages;
  readonly clock: Clock;
  readonly log: Log;
  /** Called after the first complete list of each connection. */
  readonly onListed: () => void;
  /** Called with each list: compares what else this agent keeps on the node. The list waits for it. Never rejects. */
  readonly audit?: () => Promise<void>;
}

/** A connection to the runtime's events, from connect to disconnect. */
interface RuntimeConnection {
  readonly connectedAt: number;
  readonly relistEveryMs: number;
  /** Whether a complete list succeeded since the connect. */
  isListed: boolean;
}

/** A relist finds what events have missed, which is normally nothing: events come from the runtime itself. */
const RELIST_MS = 300_000;
/**
 * The runtime's status lags behind its events. The event of an exit may be sent right before the connect while the
 * first list still shows the container running; no other event follows. So everything is listed again at these times
 * after the connect.
 */
const EARLY_RELISTS_MS = [1_000, 10_000] as const;
/** Without events the runtime is listed every second, as by the kubelet. */
const RELIST_WITHOUT_EVENTS_MS = 1_000;
const RETRY_MS = 500;
/**
 * The event of a container may precede the response to the call that created it: it is matched again after 0.1 s to 1.6
 * s.
 */
const MIN_MATCH_RETRY_MS = 100;
const MAX_MATCH_RETRY_MS = 1_600;

/**
 * Watches the runtime: a list at each connect, then events, and a relist now and then. Resolves when the signal aborts;
 * never rejects. Each outage is logged once.
 */
export async function watchRuntime(options: WatchRuntimeOptions, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { runtime, pods, images, clock, log } = options;
  const connectionLog = createRuntimeConnectionLog(clock, log);
  const relister = createRelister(options);

  /** Most events with unknown ids come from our own calls whose response has not arrived yet: retry before a relist. */
  function handleEvent(event: RuntimeContainerEvent, retryMs = MIN_MATCH_RETRY_MS): void {
    const owner = pods.handleEvent(event);
    if (owner === "known" || event.change === "deleted" || event.change === "stopped") return;
    if (owner === "new" || retryMs > MAX_MATCH_RETRY_MS) relister.relistNow();
    else clock.wakeAt(clock.now() + retryMs, () => handleEvent(event, 2 * retryMs));
  }

  onAbort(signal, () => {
    connectionLog.stop();
    relister.end();
  });
  await runtime.events((event) => {
    switch (event.kind) {
      case "connected":
        connectionLog.connected(event.source);
        images.invalidate();
        relister.start({
          connectedAt: clock.now(),
          relistEveryMs: event.source === "none" ? RELIST_WITHOUT_EVENTS_MS : RELIST_MS,
          isListed: false,
        });
        return;
      case "disconnected":
        connectionLog.disconnected(event);
        relister.disconnect(event.error);
        pods.markDisconnected(event);
        return;
      case "container":
        handleEvent(event);
        return;
    }
  }, signal);
}

/**
 * Lists everything at each connect, and periodically while the connection lasts. One relist runs at a time; requests
 * during a relist share the next one, since the current lists may be older than the reason for the request.
 */
function createRelister({ pods, clock, log, onListed, audit }: WatchRuntimeOptions) {
  const relistLog = createRelistLog(clock, log);
  let connection: RuntimeConnection | undefined;
  const worker = createCoalescingWorker(relist);
  let cancel = () => {};
  relistLog.pending();

  async function relist(): Promise<void> {
    const current = connection;
    if (current === undefined) return;
    cancel();
    const failure = await Promise.all([pods.relist(), audit?.()]).then(
      () => undefined,
      (error: unknown) => ({ error }),
    );
    // Lists from before an outage are not valid after it.
    if (connection !== current) pods.markDisconnected();
    else onRelisted(current, failure);
  }

  function onRelisted(current: RuntimeConnection, failure: { readonly error: unknown } | undefined): void {
    if (failure === undefined) relistLog.succeeded();
    else relistLog.failed(failure.error);
    if (failure === undefined && !current.isListed) onListed();
    current.isListed ||= failure === undefined;
    cancel = clock.wakeAt(clock.now() + (failure === undefined ? delayToNext(current) : RETRY_MS), worker.wake);
  }

  function delayToNext({ connectedAt, relistEveryMs }: RuntimeConnection): number {
    const age = clock.now() - connectedAt;
    const early = EARLY_RELISTS_MS.map((at) => at - age).find((left) => left > 0);
    return Math.min(early ?? relistEveryMs, relistEveryMs);
  }

  function stop(): void {
    connection = undefined;
    cancel();
  }

  return {
    start(next: RuntimeConnection): void {
      connection = next;
      worker.wake();
    },
    relistNow: worker.wake,
    disconnect(error: unknown): void {
      stop();
      relistLog.pending(error);
    },
    end(): void {
      stop();
      relistLog.stop();
    },
  };
}
