import { expect, test } from "bun:test";
import { resolveIntOrString } from "./int-or-string.ts";

test("a number is itself, a name is looked up, and digits in quotes are a name", () => {
  const ports = new Map([["http", 8080]]);
  const resolve = (value: number | string) => resolveIntOrString(value, (name) => ports.get(name));
  expect([resolve(80), resolve("http"), resolve("https"), resolve("8080")]).toEqual([80, 8080, undefined, undefined]);
});
