/** The growth of the maps and sets that one place of the agent's code has created. */
export interface RetainedEntries {
  /** The file and the line. */
  readonly site: string;
  /** The sum of their sizes. */
  readonly entries: number;
  /** How many of them there are. */
  readonly collections: number;
}

interface CreatedCollection {
  readonly collection: WeakRef<Map<unknown, unknown> | Set<unknown>>;
  readonly site: string;
}

/**
 * Records every map and set that the agent creates during `work`, which calls `count` when it wants to know how large
 * those that are still in use are. Collections of the tests and of packages do not count.
 */
export async function withRetainedEntries(
  work: (count: () => readonly RetainedEntries[]) => Promise<void>,
): Promise<void> {
  const created: CreatedCollection[] = [];
  const originals = { Map: globalThis.Map, Set: globalThis.Set };
  const record = (collection: Map<unknown, unknown> | Set<unknown>) => {
    const site = siteOf(new Error("the stack shows who creates it").stack ?? "");
    if (site !== undefined) created.push({ collection: new WeakRef(collection), site });
  };
  globalThis.Map = class<K, V> extends originals.Map<K, V> {
    constructor(...content: ConstructorParameters<typeof Map<K, V>>) {
      super(...content);
      record(this);
    }
  } as MapConstructor;
  globalThis.Set = class<T> extends originals.Set<T> {
    constructor(...content: ConstructorParameters<typeof Set<T>>) {
      super(...content);
      record(this);
    }
  } as SetConstructor;
  try {
    await work(() => countOf(created));
  } finally {
    Object.assign(globalThis, originals);
  }
}

function countOf(created: readonly CreatedCollection[]): readonly RetainedEntries[] {
  Bun.gc(true);
  const inUse = created.flatMap(({ collection, site }) => {
    const found = collection.deref();
    return found === undefined ? [] : [{ site, size: found.size }];
  });
  return Object.entries(Object.groupBy(inUse, ({ site }) => site)).map(([site, all = []]) => ({
    site,
    entries: all.reduce((sum, { size }) => sum + size, 0),
    collections: all.length,
  }));
}

/** The first line of this repository's code in a stack, behind the two constructors; undefined for a test or a package. */
function siteOf(stack: string): string | undefined {
  const root = new URL("../../../", import.meta.url).pathname;
  const caller = stack.split("\n").find((line) => line.includes(root) && !line.includes(import.meta.path));
  const [, path] = caller?.split(root) ?? [];
  return path === undefined || /^(?:test|node_modules)\//.test(path) ? undefined : path.replace(/:\d+\)?$/, "");
}
