/** Runs `work` at least once after each `wake`; wakes that come while it runs count as one. */
export interface CoalescingWorker {
  wake(): void;
  /** Resolves when no work runs and none is due. */
  settled(): Promise<void>;
}

/**
 * At most one `work` runs at a time. It begins in a microtask of its own, so that a caller that wakes the worker is never re-entered. `work` must
 * not reject: a rejection is reported as unhandled, and the worker goes on with the next wake.
 */
export function createCoalescingWorker(work: () => Promise<void>): CoalescingWorker {
  const worker = createKeyedCoalescingWorker(work);
  return { wake: () => worker.wake(undefined), settled: () => worker.settled() };
}

/** As a `CoalescingWorker` for each key. A key whose work is done takes no memory. */
export interface KeyedCoalescingWorker<K> {
  wake(key: K): void;
  /** Resolves when no work runs and none is due: for this key, or for any if none is given. */
  settled(key?: K): Promise<void>;
}

export function createKeyedCoalescingWorker<K>(work: (key: K) => Promise<void>): KeyedCoalescingWorker<K> {
  const due = new Set<K>();
  const running = new Map<K, Promise<void>>();

  async function runWhileDue(key: K): Promise<void> {
    await Promise.resolve();
    while (due.delete(key)) await work(key);
  }

  function wake(key: K): void {
    due.add(key);
    if (running.has(key)) return;
    const run = runWhileDue(key).finally(() => {
      running.delete(key);
      // A wake after the last work ended found the worker running.
      if (due.has(key)) wake(key);
    });
    running.set(key, run);
  }

  return {
    wake,
    async settled(key) {
      const all = () => (key === undefined ? [...running.values()] : [running.get(key) ?? []].flat());
      for (let runs = all(); runs.length > 0; runs = all()) await Promise.all(runs);
    },
  };
}
