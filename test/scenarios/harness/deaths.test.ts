import { expect, test } from "bun:test";
import { settlePromises } from "../../fakes/clock.ts";
import type { VerbsOf } from "./adapter-verbs.ts";
import { createDeaths } from "./deaths.ts";

interface Shelf {
  path(): string;
  list(): Promise<readonly string[]>;
  add(item: string): Promise<number>;
  remove(item: string): Promise<void>;
}

const shelfVerbs = {
  path: "computes",
  list: "reads",
  add: "mutates",
  remove: "mutates",
} as const satisfies VerbsOf<Shelf>;

/** An adapter in memory, and the deaths of its agents. */
function createShelf(dieAfterCall?: number) {
  const items: string[] = [];
  const died: string[] = [];
  const shelf: Shelf = {
    path: () => "/shelf",
    list: async () => [...items],
    add: async (item) => items.push(item),
    remove: async (item) => {
      if (!items.includes(item)) throw new Error("there is no such item");
      items.splice(items.indexOf(item), 1);
    },
  };
  const deaths = createDeaths({
    dieAfterCall,
    onDeath: (call) => {
      died.push(call);
      lifetime.end();
    },
  });
  const lifetime = deaths.beginLifetime();
  const subjectOf = (_: string, [item]: readonly unknown[]) => String(item);
  const seam = { name: "shelf", adapter: shelf, verbs: shelfVerbs, subjectOf };
  return { items, died, deaths, lifetime, seam, wrapped: lifetime.wrap<Shelf>(seam) };
}

/** Whether a call of a dead agent is answered. */
async function isAnswered(call: Promise<unknown>): Promise<boolean> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  void call.then(end, end);
  await settlePromises();
  return isOver;
}

test("only mutating calls count as calls after which the agent can die, also those that fail", async () => {
  const { wrapped, deaths } = createShelf();
  expect(await wrapped.add("a")).toBe(1);
  expect([wrapped.path(), await wrapped.list()]).toEqual(["/shelf", ["a"]]);
  await expect(wrapped.remove("b")).rejects.toThrow("there is no such item");
  expect(deaths.mutatingCalls).toBe(2);
});

test("the last call of an agent takes effect and is not answered, and later ones have no effect", async () => {
  const { wrapped, items, died } = createShelf(1);
  await wrapped.add("a");
  expect(await isAnswered(wrapped.add("b"))).toBe(false);
  expect(died).toEqual(["shelf.add b"]);
  expect(await isAnswered(wrapped.add("c"))).toBe(false);
  expect(await isAnswered(wrapped.list())).toBe(false);
  expect([wrapped.path(), items]).toEqual(["/shelf", ["a", "b"]]);
});

test("an agent can die after a call that fails", async () => {
  const { wrapped, died } = createShelf(0);
  expect(await isAnswered(wrapped.remove("a"))).toBe(false);
  expect(died).toEqual(["shelf.remove a"]);
});

test("the next agent's calls are counted on, and are answered", async () => {
  const { wrapped, deaths, seam, items } = createShelf(0);
  expect(await isAnswered(wrapped.add("a"))).toBe(false);
  const next = deaths.beginLifetime().wrap<Shelf>(seam);
  expect(await next.add("b")).toBe(2);
  expect([deaths.mutatingCalls, items]).toEqual([2, ["a", "b"]]);
});

test("the compiler rejects a table of verbs that lacks a method, but a field is no method", () => {
  const adapter = { read: "reads" } as const;
  type IsComplete<T> = typeof adapter extends VerbsOf<T> ? true : false;
  const complete: IsComplete<{ readonly root: string; read(): void }> = true;
  const incomplete: IsComplete<{ read(): void; write(): void }> = false;
  expect([complete, incomplete]).toEqual([true, false]);
});

test("a method that its table of verbs does not contain fails the test with its name", () => {
  const { seam, lifetime, deaths } = createShelf();
  const { add: _, ...known } = shelfVerbs;
  const wrapped = lifetime.wrap<Shelf>({ ...seam, verbs: known });
  deaths.throwIfUnknownVerb();
  expect(() => wrapped.add("a")).toThrow("shelf.add is not in the adapter's table of verbs");
  expect(() => deaths.throwIfUnknownVerb()).toThrow("shelf.add is not in the adapter's table of verbs");
});
