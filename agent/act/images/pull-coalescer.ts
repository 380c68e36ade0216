import { onAbort } from "../../../host/async/abort.ts";
import type { PullQueue } from "./pull-queue.ts";

/** A pod's request for an image. */
export interface PullRequest {
  readonly image: string;
  /** The fingerprint of the credentials: only requests with the same one share a pull. */
  readonly fingerprint: string;
  /** imagePullPolicy Always: the registry must be contacted after this request. */
  readonly requireFresh: boolean;
  /** Calls the runtime; called once, or not at all if another request's pull is shared. */
  readonly pull: (signal: AbortSignal) => Promise<string>;
  /** Called when the pull leaves the queue. */
  readonly onStarted: () => void;
}

export interface PullCoalescer {
  /**
   * Resolves with the image's reference. Rejects as the pull does, and with the signal's reason when that aborts; the
   * pull continues while other requests wait for it.
   */
  pull(request: PullRequest, signal: AbortSignal): Promise<string>;
}

interface SharedPull {
  readonly done: Promise<string>;
  readonly abort: AbortController;
  readonly waiting: Set<PullRequest>;
  hasStarted: boolean;
}

/**
 * Coalesces the pulls of an image by pods with the same credentials: forty pods of one image are one download, where
 * the kubelet makes forty calls. A request that only needs the image joins any open pull. One that needs a fresh image
 * (imagePullPolicy Always) joins only a pull that has not started: in a running one the registry may have responded
 * before the request.
 */
export function createPullCoalescer(queue: PullQueue): PullCoalescer {
  /** By image and credentials, in the order in which they run. */
  const open = new Map<string, readonly SharedPull[]>();

  function startPull(first: PullRequest): SharedPull {
    const key = keyOf(first);
    const before = open.get(key) ?? [];
    const abort = new AbortController();
    const { signal } = abort;
    const waiting = new Set([first]);
    const run = async () => {
      // The error of the previous pull belongs to the requests that wait for that pull.
      await before.at(-1)?.done.catch(() => undefined);
      signal.throwIfAborted();
      return await queue.run(() => {
        shared.hasStarted = true;
        for (const { onStarted } of waiting) onStarted();
        return first.pull(signal);
      }, signal);
    };
    const remove = () => {
      const remaining = (open.get(key) ?? []).filter((each) => each !== shared);
      if (remaining.length > 0) open.set(key, remaining);
      else open.delete(key);
    };
    const shared: SharedPull = { done: run().finally(remove), abort, waiting, hasStarted: false };
    open.set(key, [...before, shared]);
    return shared;
  }

  function joinPull({ requireFresh, ...request }: PullRequest): SharedPull | undefined {
    const canShare = ({ abort, hasStarted }: SharedPull) => !abort.signal.aborted && !(requireFresh && hasStarted);
    return open.get(keyOf(request))?.find(canShare);
  }

  return {
    pull(request, signal) {
      if (signal.aborted) return Promise.reject(signal.reason);
      const shared = joinPull(request) ?? startPull(request);
      shared.waiting.add(request);
      if (shared.hasStarted) request.onStarted();
      return waitFor(shared, request, signal);
    },
  };
}

const keyOf = ({ image, fingerprint }: Pick<PullRequest, "image" | "fingerprint">) => `${image} ${fingerprint}`;

/** The last request that aborts also aborts the pull. If the pull had started, its end is awaited. */
function waitFor(shared: SharedPull, request: PullRequest, signal: AbortSignal): Promise<string> {
  const { done, abort, waiting } = shared;
  return new Promise((resolve, reject) => {
    const remove = onAbort(signal, () => {
      waiting.delete(request);
      if (waiting.size === 0) abort.abort(signal.reason);
      if (waiting.size > 0 || !shared.hasStarted) reject(signal.reason);
    });
    done.finally(remove).then(resolve, reject);
  });
}
