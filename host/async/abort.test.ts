import { expect, test } from "bun:test";
import { aborted, onAbort, orAborted } from "./abort.ts";

test("aborted resolves when the signal aborts, and at once for one that has", async () => {
  const controller = new AbortController();
  let isResolved = false;
  const waiting = aborted(controller.signal).then(() => {
    isResolved = true;
  });
  await Promise.resolve();
  expect(isResolved).toBe(false);
  controller.abort();
  await waiting;
  await aborted(AbortSignal.abort());
});

test("onAbort calls the listener once, and not after it was removed", () => {
  const controller = new AbortController();
  const calls: string[] = [];
  onAbort(controller.signal, () => calls.push("kept"));
  const remove = onAbort(controller.signal, () => calls.push("removed"));
  remove();
  controller.abort();
  controller.abort();
  expect(calls).toEqual(["kept"]);
});

test("onAbort calls the listener at once for a signal that has aborted", () => {
  let calls = 0;
  onAbort(AbortSignal.abort(), () => calls++);
  expect(calls).toBe(1);
});

test("onAbort never calls the listener without a signal", () => {
  let calls = 0;
  onAbort(undefined, () => calls++)();
  expect(calls).toBe(0);
});

test("orAborted settles as the promise does, or rejects with the signal's reason", async () => {
  const never = new Promise<string>(() => {});
  const reason = new Error("enough");
  const { signal } = new AbortController();
  expect(await orAborted(Promise.resolve("done"), signal)).toBe("done");
  expect(await orAborted(Promise.reject(reason), signal).catch((error: unknown) => error)).toBe(reason);
  expect(await orAborted(never, AbortSignal.abort(reason)).catch((error: unknown) => error)).toBe(reason);
});

test("orAborted ignores a rejection that comes after the abort", async () => {
  const { promise, reject } = Promise.withResolvers<string>();
  const controller = new AbortController();
  const settled = orAborted(promise, controller.signal).catch(() => "aborted");
  controller.abort();
  reject(new Error("late"));
  expect(await settled).toBe("aborted");
});
