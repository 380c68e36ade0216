import { expect, test } from "bun:test";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { createPullQueue, type PullQueueSettings, PullRateError } from "./pull-queue.ts";

const never = new AbortController().signal;

/** A queue whose pulls end when they are told to; `journal` tells which have begun, in order. */
function createScene(settings: Partial<PullQueueSettings>) {
  const clock = new FakeClock();
  const queue = createPullQueue({ clock, parallel: undefined, qps: 0, burst: 0, ...settings });
  const journal: string[] = [];
  const ends = new Map<string, { resolve: (value: string) => void; reject: (error: unknown) => void }>();
  const pull = (image: string, signal: AbortSignal = never) =>
    queue.run(() => {
      journal.push(image);
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      ends.set(image, { resolve, reject });
      return promise;
    }, signal);
  const end = async (image: string) => {
    ends.get(image)?.resolve(`${image} is here`);
    await rest();
  };
  return { clock, pull, journal, ends, end };
}

test("one at a time, pulls run in the order in which they came", async () => {
  const { pull, journal, end } = createScene({ parallel: 1 });
  const pulls = ["a", "b", "c"].map((image) => pull(image));
  await rest();
  expect(journal).toEqual(["a"]);
  await end("a");
  expect(journal).toEqual(["a", "b"]);
  await end("b");
  await end("c");
  expect(await Promise.all(pulls)).toEqual(["a is here", "b is here", "c is here"]);
});

test("two at a time are two, never three", async () => {
  const { pull, journal, end } = createScene({ parallel: 2 });
  for (const image of ["a", "b", "c", "d"]) void pull(image);
  await rest();
  expect(journal).toEqual(["a", "b"]);
  await end("b");
  expect(journal).toEqual(["a", "b", "c"]);
  await end("c");
  await end("a");
  expect(journal).toEqual(["a", "b", "c", "d"]);
});

test("without a limit all run at once", async () => {
  const { pull, journal } = createScene({});
  for (let n = 0; n < 50; n++) void pull(`image-${n}`);
  await rest();
  expect(journal).toHaveLength(50);
});

test("a pull that fails makes room as one that succeeds does, and its error is the caller's", async () => {
  const { pull, journal, ends } = createScene({ parallel: 1 });
  const first = pull("a");
  void pull("b");
  await rest();
  ends.get("a")?.reject(new Error("no such image"));
  await expect(first).rejects.toThrow("no such image");
  await rest();
  expect(journal).toEqual(["a", "b"]);
});

test("who gives up while waiting leaves the queue, and those behind move up", async () => {
  const { pull, journal, end } = createScene({ parallel: 1 });
  const ending = new AbortController();
  void pull("a");
  const given = pull("b", ending.signal);
  void pull("c");
  ending.abort(new Error("not wanted any more"));
  await expect(given).rejects.toThrow("not wanted any more");
  await end("a");
  expect(journal).toEqual(["a", "c"]);
  await end("c");
  void pull("d");
  await rest();
  expect(journal).toEqual(["a", "c", "d"]);
});

test("giving up after a pull has begun does not make room twice", async () => {
  const { pull, journal, end } = createScene({ parallel: 1 });
  const ending = new AbortController();
  void pull("a");
  void pull("b", ending.signal);
  await rest();
  await end("a");
  for (const image of ["c", "d"]) void pull(image);
  ending.abort();
  await rest();
  expect(journal).toEqual(["a", "b"]);
  await end("b");
  await end("c");
  expect(journal).toEqual(["a", "b", "c", "d"]);
});

test("a burst is let through, then pulls are refused until the bucket fills again", async () => {
  const { clock, pull, journal } = createScene({ qps: 5, burst: 3 });
  const pulls = ["a", "b", "c"].map((image) => pull(image));
  const refused = pull("d");
  await expect(refused).rejects.toBeInstanceOf(PullRateError);
  await expect(pull("e")).rejects.toThrow("pull QPS exceeded");
  await clock.advance(199);
  await expect(pull("f")).rejects.toThrow("pull QPS exceeded");
  await clock.advance(1);
  void pull("g");
  await expect(pull("h")).rejects.toThrow("pull QPS exceeded");
  expect(journal).toEqual(["a", "b", "c", "g"]);
  expect(pulls).toHaveLength(3);
});

test("a bucket never holds more than its burst, however long nothing was pulled", async () => {
  const { clock, pull } = createScene({ qps: 5, burst: 2 });
  await clock.advance(60_000);
  for (const image of ["a", "b"]) void pull(image);
  await expect(pull("c")).rejects.toThrow("pull QPS exceeded");
});

test("a clock that is set back takes nothing out of the bucket", async () => {
  const { clock, pull, journal } = createScene({ qps: 5, burst: 2 });
  clock.jump(-3_600_000);
  for (const image of ["a", "b"]) void pull(image);
  await expect(pull("c")).rejects.toThrow("pull QPS exceeded");
  await clock.advance(200);
  void pull("d");
  await rest();
  expect(journal).toEqual(["a", "b", "d"]);
});
