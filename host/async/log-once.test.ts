import { expect, test } from "bun:test";
import { createKeyedLogOnChange, createLogOnChange, createLogOnce } from "./log-once.ts";

test("each message is logged once until a clear", () => {
  const once = createLogOnce();
  expect(["a", "b", "a"].map(once.shouldLog)).toEqual([true, true, false]);
  expect(once.isEmpty()).toBe(false);
  once.clear();
  expect(once.isEmpty()).toBe(true);
  expect(once.shouldLog("a")).toBe(true);
});

test("no more than 32 different messages are logged", () => {
  const once = createLogOnce();
  const logged = Array.from({ length: 100 }, (_, at) => once.shouldLog(`message ${at}`)).filter(Boolean);
  expect(logged).toHaveLength(32);
});

test("a message is logged when it differs from the one before, and after a clear", () => {
  const onChange = createLogOnChange();
  expect(["a", "a", "b", "a"].map(onChange.shouldLog)).toEqual([true, false, true, true]);
  expect(onChange.isEmpty()).toBe(false);
  onChange.clear();
  expect(onChange.isEmpty()).toBe(true);
  expect(onChange.shouldLog("a")).toBe(true);
});

test("each key has a last message of its own", () => {
  const onChange = createKeyedLogOnChange<number>();
  expect([onChange.shouldLog(1, "a"), onChange.shouldLog(2, "a"), onChange.shouldLog(1, "a")]).toEqual([
    true,
    true,
    false,
  ]);
  onChange.clear(1);
  expect([onChange.shouldLog(1, "a"), onChange.shouldLog(2, "a")]).toEqual([true, false]);
});
