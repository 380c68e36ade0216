import { expect, test } from "bun:test";
import { createKeyedLock } from "./keyed-lock.ts";

const { signal } = new AbortController();

test("work for one key runs one after another, and beside that for other keys", async () => {
  const lock = createKeyedLock<string>();
  const first = Promise.withResolvers<void>();
  const events: string[] = [];
  const one = lock("a", () => first.promise.then(() => void events.push("first of a")), signal);
  const two = lock("a", async () => void events.push("second of a"), signal);
  await lock("b", async () => void events.push("b"), signal);
  first.resolve();
  await Promise.all([one, two]);
  expect(events).toEqual(["b", "first of a", "second of a"]);
});

test("work that waits ends with its signal, and a failure lets the next one run", async () => {
  const lock = createKeyedLock<string>();
  const first = Promise.withResolvers<void>();
  const abort = new AbortController();
  const reason = new Error("the pod is deleted");
  const one = lock("a", () => first.promise, signal);
  const waiting = lock("a", async () => "never", abort.signal);
  abort.abort(reason);
  await expect(waiting).rejects.toBe(reason);
  const three = lock("a", async () => "ran", signal);
  first.reject(new Error("no disk"));
  await expect(one).rejects.toThrow("no disk");
  expect(await three).toBe("ran");
});
