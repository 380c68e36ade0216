import type { Clock } from "../clock.ts";
import { createLruMap } from "../lru-map.ts";

export interface TtlCacheOptions {
  readonly maxEntries: number;
  readonly clock: Pick<Clock, "now">;
}

/** Values by key, each until its time is over. With one entry too many, the least recently used goes. */
export interface TtlCache<V> {
  get(key: string): V | undefined;
  /** `ttlMs` of infinity keeps the value until it is evicted; nothing is stored if it is 0 or less. */
  set(key: string, value: V, ttlMs: number): void;
  delete(key: string): void;
  clear(): void;
}

interface Entry<V> {
  readonly value: V;
  readonly storedAt: number;
  readonly expiresAt: number;
}

/**
 * Owns no timer: an expired entry goes when it is read, or when another one that will expire is stored. A clock that is set back keeps no
 * entry for longer: what was stored in the future has expired.
 */
export function createTtlCache<V>({ maxEntries, clock }: TtlCacheOptions): TtlCache<V> {
  const entries = createLruMap<Entry<V>>(maxEntries);

  function isValid({ storedAt, expiresAt }: Entry<V>): boolean {
    const now = clock.now();
    return expiresAt === Number.POSITIVE_INFINITY || (storedAt <= now && now < expiresAt);
  }

  function removeExpired(): void {
    for (const [key, entry] of entries.entries()) if (!isValid(entry)) entries.delete(key);
  }

  return {
    get(key) {
      const entry = entries.get(key);
      if (entry === undefined || isValid(entry)) return entry?.value;
      entries.delete(key);
      return undefined;
    },
    set(key, value, ttlMs) {
      if (ttlMs <= 0) return entries.delete(key);
      if (ttlMs !== Number.POSITIVE_INFINITY) removeExpired();
      const storedAt = clock.now();
      entries.set(key, { value, storedAt, expiresAt: storedAt + ttlMs });
    },
    delete: entries.delete,
    clear: entries.clear,
  };
}
