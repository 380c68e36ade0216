/** A map with a limited number of entries, which evicts the least recently used one. */
export interface LruMap<V> {
  get(key: string): V | undefined;
  set(key: string, value: V): void;
  delete(key: string): void;
  clear(): void;
  /** Does not count as a use. */
  entries(): IterableIterator<[string, V]>;
}

export function createLruMap<V>(maxEntries: number): LruMap<V> {
  // A Map iterates in the order of insertion, so the first key is the least recently used.
  const map = new Map<string, V>();

  function set(key: string, value: V): void {
    map.delete(key);
    map.set(key, value);
    const [oldest] = map.keys();
    if (map.size > maxEntries && oldest !== undefined) map.delete(oldest);
  }

  return {
    get(key) {
      const value = map.get(key);
      if (value !== undefined) set(key, value);
      return value;
    },
    set,
    delete: (key) => void map.delete(key),
    clear: () => map.clear(),
    entries: () => map.entries(),
  };
}
