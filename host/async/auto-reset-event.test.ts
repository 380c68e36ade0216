import { expect, test } from "bun:test";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { createAutoResetEvent } from "./auto-reset-event.ts";

const { signal } = new AbortController();
const forever = Number.POSITIVE_INFINITY;

test("ends a wait when it is set, and the next wait at once when it was set before", async () => {
  const event = createAutoResetEvent(new FakeClock());
  const waiting = event.wait(forever, signal);
  event.set();
  expect(await waiting).toBe(true);
  event.set();
  event.set();
  expect(await event.wait(forever, signal)).toBe(true);
  let isOver = false;
  void event.wait(forever, signal).then(() => {
    isOver = true;
  });
  await settlePromises();
  expect(isOver).toBe(false);
});

test("ends a wait at its time and when the signal aborts", async () => {
  const clock = new FakeClock();
  const event = createAutoResetEvent(clock);
  const timed = event.wait(clock.now() + 100, signal);
  await clock.advance(100);
  expect(await timed).toBe(false);
  const controller = new AbortController();
  const abortable = event.wait(forever, controller.signal);
  controller.abort();
  expect(await abortable).toBe(false);
  expect(await event.wait(forever, AbortSignal.abort())).toBe(false);
});
