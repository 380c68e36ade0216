import { expect, test } from "bun:test";
import { createKeyMap } from "./key-map.ts";

type Key = { readonly of: "a"; readonly name: string; readonly inner?: { readonly id: string } };
const key = (name: string): Key => ({ of: "a", name });
const areEqual = (one: object, other: object) => createKeyMap([[one, 1]]).has(other);
const one = createKeyMap<Key, number>([[key("x"), 1]]);

test("an entry is found by an equal key, whatever the order of its fields", () => {
  expect(one.get({ name: "x", of: "a" })).toBe(1);
  expect([one.has(key("x")), one.has(key("y")), one.get(key("y"))]).toEqual([true, false, undefined]);
});

test("keys with different inner objects, or with text that looks like another key, are different", () => {
  expect(areEqual(key("x"), { ...key("x"), inner: { id: "1" } })).toBe(false);
  expect(areEqual({ ...key("x"), inner: { id: "2" } }, { ...key("x"), inner: { id: "1" } })).toBe(false);
  expect(areEqual({ ...key("x"), inner: { id: "1" } }, { inner: { id: "1" }, name: "x", of: "a" })).toBe(true);
  expect(areEqual(key('x"],["y'), key("x"))).toBe(false);
});

test("a field that is undefined does not count", () => {
  const undefinedField = { of: "a", name: "x", attempt: undefined };
  expect(areEqual(undefinedField, key("x"))).toBe(true);
});

test("a change returns another map and leaves the first as it is", () => {
  const two = one.set(key("y"), 2);
  expect([one.size, two.size, two.delete(key("x")).keys(), two.set(key("x"), 3).values()]).toEqual([
    1,
    2,
    [key("y")],
    [3, 2],
  ]);
  expect(two.filter(({ name }, value) => name === "y" && value === 2).keys()).toEqual([key("y")]);
});

test("what changes nothing returns the same map", () => {
  expect(one.delete(key("y"))).toBe(one);
  expect(one.filter(() => true)).toBe(one);
});
