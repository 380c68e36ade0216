import { expect, test } from "bun:test";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { createLimiter, type LimiterSettings } from "./token-bucket.ts";

const never = new AbortController().signal;

/** A limiter whose work ends when it is told to; `begun` tells which has begun, in order. */
function createScene(settings: Partial<LimiterSettings>) {
  const clock = new FakeClock();
  const limiter = createLimiter({ clock, places: undefined, ...settings });
  const begun: string[] = [];
  const ends = new Map<string, { resolve: (value: string) => void; reject: (error: unknown) => void }>();
  const run = (name: string, signal: AbortSignal = never, goesFirst?: boolean) =>
    limiter.run(
      () => {
        begun.push(name);
        const { promise, resolve, reject } = Promise.withResolvers<string>();
        ends.set(name, { resolve, reject });
        return promise;
      },
      signal,
      goesFirst,
    );
  const end = async (name: string) => {
    ends.get(name)?.resolve(`${name} is done`);
    await rest();
  };
  return { clock, run, begun, ends, end };
}

test("one at a time, work is done in the order in which it came", async () => {
  const { run, begun, end } = createScene({ places: 1 });
  const works = ["a", "b", "c"].map((name) => run(name));
  await rest();
  expect(begun).toEqual(["a"]);
  await end("a");
  expect(begun).toEqual(["a", "b"]);
  await end("b");
  await end("c");
  expect(await Promise.all(works)).toEqual(["a is done", "b is done", "c is done"]);
});

test("two at a time are two, never three", async () => {
  const { run, begun, end } = createScene({ places: 2 });
  for (const name of ["a", "b", "c", "d"]) void run(name);
  await rest();
  expect(begun).toEqual(["a", "b"]);
  await end("b");
  expect(begun).toEqual(["a", "b", "c"]);
  await end("c");
  await end("a");
  expect(begun).toEqual(["a", "b", "c", "d"]);
});

test("without a limit all work at once", async () => {
  const { run, begun } = createScene({});
  for (let n = 0; n < 50; n++) void run(`work-${n}`);
  await rest();
  expect(begun).toHaveLength(50);
});

test("who goes first passes those who wait, and no one who goes first too", async () => {
  const { run, begun, end } = createScene({ places: 1 });
  for (const name of ["a", "b", "c"]) void run(name);
  for (const name of ["urgent-1", "urgent-2"]) void run(name, never, true);
  await rest();
  for (const name of ["a", "urgent-1", "urgent-2", "b"]) await end(name);
  expect(begun).toEqual(["a", "urgent-1", "urgent-2", "b", "c"]);
});

test("work that fails makes room as work that succeeds does, and its error is the caller's", async () => {
  const { run, begun, ends } = createScene({ places: 1 });
  const first = run("a");
  void run("b");
  await rest();
  ends.get("a")?.reject(new Error("no such image"));
  await expect(first).rejects.toThrow("no such image");
  await rest();
  expect(begun).toEqual(["a", "b"]);
});

test("who gives up while waiting leaves the queue, and those behind move up", async () => {
  const { run, begun, end } = createScene({ places: 1 });
  const ending = new AbortController();
  void run("a");
  const given = Promise.allSettled([run("b", ending.signal), run("c", ending.signal, true)]);
  void run("d");
  await rest();
  ending.abort("not wanted any more");
  const reason = "not wanted any more";
  expect(await given).toEqual([
    { status: "rejected", reason },
    { status: "rejected", reason },
  ]);
  await end("a");
  await end("d");
  void run("e");
  await rest();
  expect(begun).toEqual(["a", "d", "e"]);
});

test("who had given up before asking does not wait, and takes no place", async () => {
  const { run, begun } = createScene({ places: 1 });
  await expect(run("a", AbortSignal.abort(new Error("too late")))).rejects.toThrow("too late");
  void run("b");
  await rest();
  expect(begun).toEqual(["b"]);
});

test("giving up after the work has begun does not make room twice", async () => {
  const { run, begun, end } = createScene({ places: 1 });
  const ending = new AbortController();
  void run("a");
  void run("b", ending.signal);
  await rest();
  await end("a");
  for (const name of ["c", "d"]) void run(name);
  ending.abort();
  await rest();
  expect(begun).toEqual(["a", "b"]);
  await end("b");
  await end("c");
  expect(begun).toEqual(["a", "b", "c", "d"]);
});

test("work that is stuck gives its place to the next, goes on, and makes no room again when it ends", async () => {
  const { clock, run, begun, end } = createScene({ places: 1, stuckAfterMs: 10_000 });
  const [first] = ["a", "b", "c"].map((name) => run(name));
  await clock.advance(9_999);
  expect(begun).toEqual(["a"]);
  await clock.advance(1);
  expect(begun).toEqual(["a", "b"]);
  await end("a");
  expect(await first).toBe("a is done");
  expect(begun).toEqual(["a", "b"]);
  await end("b");
  expect(begun).toEqual(["a", "b", "c"]);
});

test("a place that was given up while nobody waited is there for who comes next", async () => {
  const { clock, run, begun, end } = createScene({ places: 1, stuckAfterMs: 10_000 });
  void run("a");
  await clock.advance(10_000);
  for (const name of ["b", "c"]) void run(name);
  await rest();
  await end("a");
  expect(begun).toEqual(["a", "b"]);
});

test("work without a time keeps its place as long as it takes", async () => {
  const { clock, run, begun } = createScene({ places: 1 });
  for (const name of ["a", "b"]) void run(name);
  await clock.advance(3_600_000);
  expect(begun).toEqual(["a"]);
});

test("no timer runs while nothing is under way", async () => {
  const { clock, run, end } = createScene({ places: 2, stuckAfterMs: 10_000 });
  for (const name of ["a", "b", "c"]) void run(name);
  await rest();
  expect(clock.timers).toBe(2);
  for (const name of ["a", "b", "c"]) await end(name);
  expect(clock.timers).toBe(0);
});
