import { expect, test } from "bun:test";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { createBell } from "./auto-reset-event.ts";

function createScene() {
  const clock = new FakeClock();
  const bell = createBell(clock);
  const stop = new AbortController();
  const woken: string[] = [];
  const wait = (name: string, ms: number) =>
    void bell.wait(clock.now() + ms, stop.signal).then(() => woken.push(`${name} after ${clock.elapsedMs} ms`));
  return { clock, bell, stop, woken, wait };
}

test("whoever waits is woken by the bell or by the clock, whichever is first", async () => {
  const { clock, bell, woken, wait } = createScene();
  wait("a", 100);
  await clock.advance(50);
  bell.ring();
  await rest();
  wait("b", 100);
  await clock.advance(200);
  expect(woken).toEqual(["a after 50 ms", "b after 150 ms"]);
  expect(clock.timers).toBe(0);
});

test("a bell that rang while nobody waited wakes the next one, once", async () => {
  const { clock, bell, woken, wait } = createScene();
  bell.ring();
  bell.ring();
  wait("a", 100);
  await rest();
  wait("b", 100);
  await clock.advance(100);
  expect(woken).toEqual(["a after 0 ms", "b after 100 ms"]);
});

test("a signal wakes whoever waits, and leaves nothing behind", async () => {
  const { clock, stop, woken, wait } = createScene();
  wait("a", Number.POSITIVE_INFINITY);
  stop.abort();
  await rest();
  wait("b", 100);
  await rest();
  expect(woken).toEqual(["a after 0 ms", "b after 0 ms"]);
  expect(clock.timers).toBe(0);
});
