import type { Clock } from "../clock.ts";
import { createBackoffCounter } from "./backoff.ts";
import { createKeyedSerialQueue } from "./serial-queue.ts";

/**
 * Repeats writes that have failed, as on a full disk, until they succeed or a later write of the same key replaces them.
 */
export interface RetriedWrites<K> {
  /**
   * Writes, after earlier writes of the same key. Resolves after the first attempt; never rejects. `onFailed` is called
   * if the last write of the key had not failed, and not for further attempts.
   */
  write(key: K, work: () => Promise<void>, onFailed: (error: unknown) => void): Promise<void>;
}

export interface RetriedWritesOptions {
  readonly clock: Pick<Clock, "now" | "wakeAt">;
  /** Every failed write has succeeded. */
  readonly onRecovered: () => void;
}

/** No event reports free space. One attempt every five seconds costs nothing, and only while a write has failed. */
const RETRY = { initialMs: 1_000, maxMs: 5_000 };

export function createRetriedWrites<K>({ clock, onRecovered }: RetriedWritesOptions): RetriedWrites<K> {
  const enqueue = createKeyedSerialQueue<K>();
  const failed = new Map<K, () => Promise<void>>();
  const backoff = createBackoffCounter(RETRY);
  let cancelRetry: (() => void) | undefined;
  let isRetrying = false;

  /** True if the write succeeded. */
  async function attempt(key: K, work: () => Promise<void>, onFailed: (error: unknown) => void): Promise<boolean> {
    try {
      await work();
    } catch (error) {
      const isNew = !failed.delete(key);
      // Behind the others: a write that never succeeds does not keep them from being tried.
      failed.set(key, work);
      if (isNew) onFailed(error);
      scheduleRetry();
      return false;
    }
    if (failed.delete(key) && failed.size === 0) {
      backoff.reset();
      onRecovered();
    }
    return true;
  }

  function scheduleRetry(): void {
    if (isRetrying || failed.size === 0) return;
    cancelRetry ??= clock.wakeAt(clock.now() + backoff.next(), () => void retryAll());
  }

  /** Repeats the failed writes, up to the first one that fails again. */
  async function retryAll(): Promise<void> {
    if (isRetrying) return;
    isRetrying = true;
    cancelRetry?.();
    cancelRetry = undefined;
    for (const key of [...failed.keys()]) {
      const isWritten = await enqueue(key, async () => {
        const work = failed.get(key);
        return work === undefined || (await attempt(key, work, () => {}));
      });
      if (!isWritten) break;
    }
    isRetrying = false;
    scheduleRetry();
  }

  return {
    async write(key, work, onFailed) {
      const isWritten = await enqueue(key, () => attempt(key, work, onFailed));
      // The disk accepts writes again.
      if (isWritten && failed.size > 0) void retryAll();
    },
  };
}
