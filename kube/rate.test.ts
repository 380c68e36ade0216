import { describe, expect, test } from "bun:test";
import { FakeClock, rest } from "../test/fakes/clock.ts";
import { createBucket, createPlaces } from "./rate.ts";

const always = new AbortController().signal;

describe("a bucket", () => {
  function started(qps: number, burst: number) {
    const clock = new FakeClock();
    const bucket = createBucket({ qps, burst }, clock);
    const done: number[] = [];
    const take = (name: number, signal = always) =>
      bucket.take(signal).then(
        () => void done.push(name),
        () => void done.push(-name),
      );
    return { clock, take, done };
  }

  test("lets a burst pass at once, and the others at its rate, in order", async () => {
    const { clock, take, done } = started(10, 2);
    for (let name = 1; name <= 5; name += 1) void take(name);
    await rest();
    expect(done).toEqual([1, 2]);
    await clock.advance(100);
    expect(done).toEqual([1, 2, 3]);
    await clock.advance(199);
    expect(done).toEqual([1, 2, 3, 4]);
    await clock.advance(1);
    expect(done).toEqual([1, 2, 3, 4, 5]);
  });

  test("fills up again, no further than its burst", async () => {
    const { clock, take, done } = started(10, 2);
    for (const name of [1, 2]) void take(name);
    await clock.advance(60_000);
    for (const name of [3, 4, 5]) void take(name);
    await rest();
    expect(done).toEqual([1, 2, 3, 4]);
  });

  test("takes nothing from the others for one that gave up", async () => {
    const { clock, take, done } = started(1, 1);
    const abort = new AbortController();
    void take(1);
    void take(2, abort.signal);
    await rest();
    abort.abort();
    await rest();
    void take(3);
    await clock.advance(1000);
    expect(done).toEqual([1, -2, 3]);
  });

  test("is neither filled nor stopped by a clock that is set back", async () => {
    const { clock, take, done } = started(1, 1);
    void take(1);
    clock.jump(-3_600_000);
    void take(2);
    await clock.advance(1000);
    expect(done).toEqual([1, 2]);
  });

  test("gives its turns to the urgent first, and every fourth to who waits longest", async () => {
    const clock = new FakeClock();
    const bucket = createBucket({ qps: 1, burst: 1 }, clock);
    const done: string[] = [];
    const isUrgent = new Set(["urgent 1", "urgent 2", "urgent 3", "urgent 4"]);
    const names = ["burst", "a", "b", "c", ...isUrgent, "turned"];
    for (const name of names) void bucket.take(always, () => isUrgent.has(name)).then(() => done.push(name));
    await clock.advance(2_000);
    // It became so while it waited.
    isUrgent.add("turned");
    await clock.advance(6_000);
    expect(done).toEqual(["burst", "urgent 1", "urgent 2", "urgent 3", "a", "urgent 4", "turned", "b", "c"]);
  });

  test("moves up those behind who gives up", async () => {
    const { clock, take, done } = started(1, 1);
    const abort = new AbortController();
    void take(1);
    void take(2, abort.signal);
    void take(3);
    await rest();
    abort.abort();
    await clock.advance(1000);
    expect([done, clock.timers]).toEqual([[1, -2, 3], 0]);
  });

  test("that has no rate lets everybody pass", async () => {
    const bucket = createBucket(undefined, new FakeClock());
    await Promise.all(Array.from({ length: 1000 }, () => bucket.take(always)));
  });
});

describe("places", () => {
  test("go to the urgent first, and every fourth to who waits longest", async () => {
    const places = createPlaces(1);
    const entered: string[] = [];
    const isUrgent = new Set(["urgent 1", "urgent 2", "urgent 3", "urgent 4"]);
    const all = ["first", "a", "b", ...isUrgent, "turned"].map(async (name) => {
      const leave = await places.enter(always, () => isUrgent.has(name));
      entered.push(name);
      // It became so while it waited.
      if (name === "urgent 1") isUrgent.add("turned");
      leave();
    });
    await Promise.all(all);
    expect(entered).toEqual(["first", "urgent 1", "urgent 2", "urgent 3", "a", "urgent 4", "turned", "b"]);
  });

  test("are given in the order of coming, each once, and not to those who gave up", async () => {
    const places = createPlaces(1);
    const entered: string[] = [];
    const leaves: (() => void)[] = [];
    const enter = (name: string, signal = always) =>
      places.enter(signal).then(
        (leave) => {
          entered.push(name);
          leaves.push(leave);
        },
        () => void entered.push(`${name} gave up`),
      );
    const abort = new AbortController();
    void enter("a");
    void enter("b", abort.signal);
    void enter("c");
    void enter("d");
    await rest();
    abort.abort();
    await rest();
    expect(entered).toEqual(["a", "b gave up"]);
    leaves[0]?.();
    leaves[0]?.();
    await rest();
    expect(entered).toEqual(["a", "b gave up", "c"]);
    leaves[1]?.();
    await rest();
    leaves[2]?.();
    void enter("e");
    await rest();
    expect(entered).toEqual(["a", "b gave up", "c", "d", "e"]);
  });
});
