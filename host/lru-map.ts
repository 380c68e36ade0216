/** A map of so many entries at most: with one more, the one goes that was neither asked for nor set in the longest time. */
export interface BoundedMap<V> {
  has(key: string): boolean;
  get(key: string): V | undefined;
  set(key: string, value: V): void;
  delete(key: string): void;
  clear(): void;
  /** Asks for none. */
  entries(): IterableIterator<[string, V]>;
}

export function createBoundedMap<V>(mostEntries: number): BoundedMap<V> {
  // A Map keeps the order in which its keys came.
  const map = new Map<string, V>();

  function set(key: string, value: V): void {
    map.delete(key);
    map.set(key, value);
    const [oldest] = map.keys();
    if (map.size > mostEntries && oldest !== undefined) map.delete(oldest);
  }

  return {
    has: (key) => map.has(key),
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
