import { expect, test } from "bun:test";
import { Signal } from "./gen/api.ts";
import { fromCriSignal, toCriSignal } from "./signal.ts";

test("every CRI signal has an API name that converts back to it", () => {
  const names = Object.values(Signal).map(fromCriSignal);
  expect(names[0]).toBeUndefined();
  expect(names.slice(1).map((name) => toCriSignal(name ?? ""))).toEqual(Object.values(Signal).slice(1));
  expect(names).toContain("SIGRTMIN+15");
  expect(names).toContain("SIGRTMAX-1");
});

test("an unknown name gives RUNTIME_DEFAULT, and an unknown number has no name", () => {
  expect(toCriSignal("SIGFOO")).toBe(Signal.RUNTIME_DEFAULT);
  expect(toCriSignal("toString")).toBe(Signal.RUNTIME_DEFAULT);
  expect(fromCriSignal(1000)).toBeUndefined();
});
