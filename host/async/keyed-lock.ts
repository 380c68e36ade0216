import { createSemaphore, type Semaphore } from "./semaphore.ts";

/**
 * Runs one piece of work for each key at a time. Settles as the work does, or rejects with the signal's reason when that
 * aborts before the work begins. A key without work takes no memory.
 */
export type KeyedLock<K> = <T>(key: K, work: () => Promise<T>, signal: AbortSignal) => Promise<T>;

export function createKeyedLock<K>(): KeyedLock<K> {
  const locks = new Map<K, { readonly semaphore: Semaphore; users: number }>();
  return async (key, work, signal) => {
    const lock = locks.get(key) ?? { semaphore: createSemaphore({ permits: 1 }), users: 0 };
    locks.set(key, lock);
    lock.users += 1;
    try {
      return await lock.semaphore.run(work, signal);
    } finally {
      lock.users -= 1;
      if (lock.users === 0) locks.delete(key);
    }
  };
}
