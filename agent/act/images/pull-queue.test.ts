import { expect, test } from "bun:test";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { createPullQueue, type PullQueueOptions, PullRateError } from "./pull-queue.ts";

const never = new AbortController().signal;

/** A queue whose pulls end on demand; `started` lists the started pulls in order. */
function createFixture(settings: Partial<PullQueueOptions>) {
  const clock = new FakeClock();
  const queue = createPullQueue({ clock, parallel: undefined, qps: 0, burst: 0, ...settings });
  const started: string[] = [];
  const ends = new Map<string, (value: string) => void>();
  const pull = (image: string, signal: AbortSignal = never) =>
    queue.run(() => {
      started.push(image);
      const { promise, resolve } = Promise.withResolvers<string>();
      ends.set(image, resolve);
      return promise;
    }, signal);
  const end = async (image: string) => {
    ends.get(image)?.(`${image} is here`);
    await settlePromises();
  };
  return { clock, pull, started, end };
}

test("with one slot, pulls run in the order of arrival", async () => {
  const { pull, started, end } = createFixture({ parallel: 1 });
  const pulls = ["a", "b", "c"].map((image) => pull(image));
  await settlePromises();
  expect(started).toEqual(["a"]);
  await end("a");
  expect(started).toEqual(["a", "b"]);
  await end("b");
  await end("c");
  expect(await Promise.all(pulls)).toEqual(["a is here", "b is here", "c is here"]);
});

test("a burst passes, then pulls are rejected until the token bucket refills", async () => {
  const { clock, pull, started } = createFixture({ qps: 5, burst: 3 });
  const pulls = ["a", "b", "c"].map((image) => pull(image));
  const refused = pull("d");
  await expect(refused).rejects.toBeInstanceOf(PullRateError);
  await expect(pull("e")).rejects.toThrow("pull QPS exceeded");
  await clock.advance(199);
  await expect(pull("f")).rejects.toThrow("pull QPS exceeded");
  await clock.advance(1);
  void pull("g");
  await expect(pull("h")).rejects.toThrow("pull QPS exceeded");
  expect(started).toEqual(["a", "b", "c", "g"]);
  expect(pulls).toHaveLength(3);
});

test("a pull takes its token only when it gets its slot", async () => {
  const { clock, pull, started, end } = createFixture({ parallel: 1, qps: 5, burst: 2 });
  const pulls = ["a", "b", "c", "d"].map((image) => pull(image));
  await settlePromises();
  for (const image of ["a", "b", "c", "d"]) {
    await clock.advance(200);
    await end(image);
  }
  expect(await Promise.all(pulls)).toEqual(["a is here", "b is here", "c is here", "d is here"]);
  expect(started).toEqual(["a", "b", "c", "d"]);
});

test("the token bucket never holds more than its burst, however long it was idle", async () => {
  const { clock, pull } = createFixture({ qps: 5, burst: 2 });
  await clock.advance(60_000);
  for (const image of ["a", "b"]) void pull(image);
  await expect(pull("c")).rejects.toThrow("pull QPS exceeded");
});

test("a clock that is set back removes no tokens", async () => {
  const { clock, pull, started } = createFixture({ qps: 5, burst: 2 });
  clock.stepWallClock(-3_600_000);
  for (const image of ["a", "b"]) void pull(image);
  await expect(pull("c")).rejects.toThrow("pull QPS exceeded");
  await clock.advance(200);
  void pull("d");
  await settlePromises();
  expect(started).toEqual(["a", "b", "d"]);
});
