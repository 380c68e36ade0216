import type { Cgroups } from "./cgroups.ts";

/** `Cgroups` without `driver`, which is unknown until the runtime has answered. */
export type AwaitedCgroups = Omit<Cgroups, "driver">;

/**
 * The cgroups of a node whose driver is not known before the container runtime has answered: each call waits for them.
 * Only `criParent`, which no call of the runtime needs before, throws until then.
 */
export function awaitCgroups(ready: Promise<Cgroups>): AwaitedCgroups {
  let known: Cgroups | undefined;
  void ready.then((cgroups) => {
    known = cgroups;
  });
  return {
    make: async (...input) => (await ready).make(...input),
    write: async (...input) => (await ready).write(...input),
    exists: async (...input) => (await ready).exists(...input),
    children: async (...input) => (await ready).children(...input),
    remove: async (...input) => (await ready).remove(...input),
    read: async (...input) => (await ready).read(...input),
    stats: async (...input) => (await ready).stats(...input),
    criParent(name) {
      if (known === undefined)
        throw new Error("a bug: the parent of a sandbox is asked for before its cgroup was made");
      return known.criParent(name);
    },
  };
}
