import { expect, test } from "bun:test";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { createPullQueue, type PullQueueSettings, PullRateError } from "./pull-queue.ts";

const never = new AbortController().signal;

/** A queue whose pulls end when they are told to; `journal` tells which have begun, in order. */
function createScene(settings: Partial<PullQueueSettings>) {
  const clock = new FakeClock();
  const queue = createPullQueue({ clock, parallel: undefined, qps: 0, burst: 0, ...settings });
  const journal: string[] = [];
  const ends = new Map<string, (value: string) => void>();
  const pull = (image: string, signal: AbortSignal = never) =>
    queue.run(() => {
      journal.push(image);
      const { promise, resolve } = Promise.withResolvers<string>();
      ends.set(image, resolve);
      return promise;
    }, signal);
  const end = async (image: string) => {
    ends.get(image)?.(`${image} is here`);
    await rest();
  };
  return { clock, pull, journal, end };
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

test("a pull that waits for its place takes nothing out of the bucket until it has it", async () => {
  const { clock, pull, journal, end } = createScene({ parallel: 1, qps: 5, burst: 2 });
  const pulls = ["a", "b", "c", "d"].map((image) => pull(image));
  await rest();
  for (const image of ["a", "b", "c", "d"]) {
    await clock.advance(200);
    await end(image);
  }
  expect(await Promise.all(pulls)).toEqual(["a is here", "b is here", "c is here", "d is here"]);
  expect(journal).toEqual(["a", "b", "c", "d"]);
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
