import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createTokenBucket } from "./token-bucket.ts";

const { signal } = new AbortController();

function createTakers(options: { readonly qps: number; readonly burst: number; readonly maxUrgentInARow?: number }) {
  const clock = new FakeClock();
  const bucket = createTokenBucket({ ...options, clock });
  const served: string[] = [];
  const take = (name: string, isUrgent?: () => boolean, own: AbortSignal = signal) =>
    bucket.take(own, isUrgent).then(() => void served.push(`${name} at ${clock.now()}`));
  return { clock, bucket, served, take, start: clock.now() };
}

test("a burst passes at once, what follows at the rate", async () => {
  const { clock, served, take, start } = createTakers({ qps: 2, burst: 2 });
  for (const name of ["a", "b", "c", "d"]) void take(name);
  await clock.advance(1_000);
  expect(served).toEqual([`a at ${start}`, `b at ${start}`, `c at ${start + 500}`, `d at ${start + 1_000}`]);
});

test("tryTake takes what is there, and no more than the burst after a rest", async () => {
  const { clock, bucket } = createTakers({ qps: 1, burst: 2 });
  const takes = () => Array.from({ length: 3 }, () => bucket.tryTake());
  expect(takes()).toEqual([true, true, false]);
  await clock.advance(1_000);
  expect(takes()).toEqual([true, false, false]);
  await clock.advance(60_000);
  expect(takes()).toEqual([true, true, false]);
});

test("an urgent caller goes first, and after so many the one that has waited longest", async () => {
  const { clock, served, take } = createTakers({ qps: 1, burst: 1, maxUrgentInARow: 2 });
  void take("first");
  void take("longest");
  for (const name of ["u1", "u2", "u3"]) void take(name, () => true);
  await clock.advance(4_000);
  expect(served.map((line) => line.split(" ")[0])).toEqual(["first", "u1", "u2", "longest", "u3"]);
});

test("the callers behind one that gives up move up", async () => {
  const { clock, served, take, start } = createTakers({ qps: 1, burst: 1 });
  const controller = new AbortController();
  void take("a");
  const leaves = take("b", undefined, controller.signal).catch(() => "left");
  void take("c");
  controller.abort();
  expect(await leaves).toBe("left");
  await clock.advance(1_000);
  expect(served).toEqual([`a at ${start}`, `c at ${start + 1_000}`]);
  expect(clock.pendingTimers).toBe(0);
});

test("a clock that is set back neither fills nor blocks the bucket", async () => {
  const { clock, served, take, start } = createTakers({ qps: 1, burst: 1 });
  void take("a");
  clock.stepWallClock(-3_600_000);
  void take("b");
  await clock.advance(1_000);
  expect(served).toEqual([`a at ${start - 3_600_000}`, `b at ${start - 3_599_000}`]);
});
