import { expect, test } from "bun:test";
import { Signal } from "./gen/api.ts";
import { criSignalOf, signalNameOf } from "./signal.ts";

test("every signal of the CRI has a name in the API, and comes back by it", () => {
  const names = Object.values(Signal).map(signalNameOf);
  expect(names[0]).toBeUndefined();
  expect(names.slice(1).map((name) => criSignalOf(name ?? ""))).toEqual(Object.values(Signal).slice(1));
  expect(names).toContain("SIGRTMIN+15");
  expect(names).toContain("SIGRTMAX-1");
});

test("what nobody knows is left to the image, and told of nobody", () => {
  expect(criSignalOf("SIGFOO")).toBe(Signal.RUNTIME_DEFAULT);
  expect(criSignalOf("toString")).toBe(Signal.RUNTIME_DEFAULT);
  expect(signalNameOf(1000)).toBeUndefined();
});
