/** A plain object that identifies something: equal fields, equal key. */
export type Key = object;

/**
 * An immutable map by key objects. `set` and `delete` return a new map; what changes nothing returns the same one. The
 * text by which it finds an entry stays inside: select entries by their keys.
 */
export interface KeyMap<K extends Key, V> {
  readonly size: number;
  get(key: K): V | undefined;
  has(key: K): boolean;
  set(key: K, value: V): KeyMap<K, V>;
  delete(key: K): KeyMap<K, V>;
  filter(keep: (key: K, value: V) => boolean): KeyMap<K, V>;
  keys(): readonly K[];
  values(): readonly V[];
}

type Entries<K, V> = ReadonlyMap<string, { readonly key: K; readonly value: V }>;

/** A map of these entries; of two with equal keys the last one stays. */
export function createKeyMap<K extends Key, V>(entries: readonly (readonly [K, V])[] = []): KeyMap<K, V> {
  return toKeyMap(new Map(entries.map(([key, value]) => [textOf(key), { key, value }])));
}

function toKeyMap<K extends Key, V>(entries: Entries<K, V>): KeyMap<K, V> {
  const map: KeyMap<K, V> = {
    size: entries.size,
    // Most maps are empty, and a start asks for hundreds of keys: their texts are not made for nothing.
    get: (key) => (entries.size === 0 ? undefined : entries.get(textOf(key))?.value),
    has: (key) => entries.size > 0 && entries.has(textOf(key)),
    set: (key, value) => toKeyMap(new Map(entries).set(textOf(key), { key, value })),
    delete(key) {
      if (!map.has(key)) return map;
      const text = textOf(key);
      return toKeyMap(new Map([...entries].filter(([other]) => other !== text)));
    },
    filter(keep) {
      const kept = [...entries].filter(([, { key, value }]) => keep(key, value));
      return kept.length === entries.size ? map : toKeyMap(new Map(kept));
    },
    keys: () => [...entries.values()].map(({ key }) => key),
    values: () => [...entries.values()].map(({ value }) => value),
  };
  return map;
}

/** The keys that one decision has met. A pod may have hundreds of volumes, and a `KeyMap` is copied by each `set`. */
export interface GrowingKeySet<K extends Key> {
  /** Returns whether the key is new. */
  add(key: K): boolean;
}

export function createGrowingKeySet<K extends Key>(): GrowingKeySet<K> {
  const texts = new Set<string>();
  return {
    add(key) {
      const text = textOf(key);
      if (texts.has(text)) return false;
      texts.add(text);
      return true;
    },
  };
}

/** The order of a key's fields does not count. */
function textOf(key: Key): string {
  const fields = Object.entries(key).filter(([, value]) => value !== undefined);
  const texts = fields.map(([name, value]) => [
    name,
    typeof value === "object" && value !== null ? textOf(value) : value,
  ]);
  return JSON.stringify(texts.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)));
}
