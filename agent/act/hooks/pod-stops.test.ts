import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { createPodStops } from "./pod-stops.ts";

const uid = "u" as PodUid;
const { signal } = new AbortController();

const podWith = (spec: Partial<PodSpec>): Pod => ({ metadata: { uid }, spec: { containers: [], ...spec } });
const shared = podWith({ shareProcessNamespace: true });

/**
 * Stops `count` containers of a pod and returns when the stops begin. `lastsMs` returns how long the stop at an index takes.
 */
async function beginsOf(
  count: number,
  lastsMs: (index: number) => number,
  pod: Pod | undefined = shared,
  graceSeconds = 30,
): Promise<readonly number[]> {
  const clock = new FakeClock();
  const stops = createPodStops(clock);
  const begins: number[] = [];
  const stop = () => {
    const ms = lastsMs(begins.length);
    begins.push(clock.elapsedMs);
    return new Promise<void>((resolve) => void clock.wakeAt(clock.now() + ms, resolve));
  };
  const all = Promise.all(Array.from({ length: count }, () => stops.run({ uid, pod }, { graceSeconds, stop }, signal)));
  for (let ms = 0; ms < 60_000; ms += 100) await clock.advance(100);
  await all;
  expect(clock.pendingTimers).toBe(0);
  return begins;
}

const times = (count: number, at: number) => Array.from({ length: count }, () => at);

test("containers with process namespaces of their own are stopped sixteen at a time", async () => {
  expect(await beginsOf(16, () => 5_000, podWith({}))).toEqual(times(16, 0));
  const begins = [...times(16, 0), ...times(16, 2_000), ...times(8, 4_000)];
  expect(await beginsOf(40, () => 5_000, podWith({}))).toEqual(begins);
});

for (const [which, pod] of [
  ["share a process namespace", shared],
  ["are in the node's process namespace", podWith({ hostPID: true })],
  ["belong to a pod without a source", undefined],
] as const)
  test(`of containers that ${which}, four are stopped at once, and the next one when one has ended`, async () => {
    const clock = new FakeClock();
    const stops = createPodStops(clock);
    const ends: (() => void)[] = [];
    const stop = () => new Promise<void>((resolve) => void ends.push(resolve));
    for (let count = 0; count < 9; count++) void stops.run({ uid, pod }, { graceSeconds: 30, stop }, signal);
    await settlePromises();
    expect(ends).toHaveLength(4);
    ends[0]?.();
    await settlePromises();
    expect(ends).toHaveLength(5);
  });

test("containers that end late are stopped in groups two seconds apart", async () => {
  expect(await beginsOf(10, () => 10_000)).toEqual([...times(4, 0), ...times(4, 2_000), ...times(2, 4_000)]);
});

/** The first stop shows how long the shim takes, all others last. */
const firstTakes = (ms: number) => (index: number) => (index === 0 ? ms : 40_000);

test("where the shortest stop takes seconds, the next group begins after three times that, at most ten seconds", async () => {
  // The next stop begins when the first one has ended, and keeps its permit for three times that.
  expect(await beginsOf(6, firstTakes(100))).toEqual([...times(4, 0), 100, 2_000]);
  expect(await beginsOf(6, firstTakes(1_500))).toEqual([...times(4, 0), 1_500, 2_000]);
  expect(await beginsOf(13, firstTakes(1_500)).then((begins) => begins.slice(4))).toEqual([
    1_500, 2_000, 2_000, 2_000, 6_000, 6_500, 6_500, 6_500, 10_500,
  ]);
  expect(await beginsOf(13, firstTakes(4_000)).then((begins) => begins.slice(8))).toEqual([...times(4, 4_000), 14_000]);
});

test("a stop that SIGKILL ends does not change the time between the groups", async () => {
  expect(await beginsOf(13, firstTakes(4_000), shared, 4).then((begins) => begins.slice(8))).toEqual([
    ...times(4, 4_000),
    6_000,
  ]);
});

test("the stops of different pods do not wait for each other", async () => {
  const stops = createPodStops(new FakeClock());
  let calls = 0;
  const stop = () => {
    calls++;
    return new Promise<void>(() => {});
  };
  for (const pod of ["a", "b"])
    for (let count = 0; count < 10; count++)
      void stops.run({ uid: pod as PodUid, pod: shared }, { graceSeconds: 30, stop }, signal);
  await settlePromises();
  expect(calls).toBe(8);
});

test("a stop that is aborted while it waits is not called, and rejects with the reason", async () => {
  const stops = createPodStops(new FakeClock());
  const stopping = { graceSeconds: 30, stop: () => new Promise<void>(() => {}) };
  for (let count = 0; count < 4; count++) void stops.run({ uid, pod: shared }, stopping, signal);
  const abort = new AbortController();
  const called = { graceSeconds: 30, stop: () => Promise.reject(new Error("it was called")) };
  const waiting = stops.run({ uid, pod: shared }, called, abort.signal);
  abort.abort(new Error("shorter"));
  await expect(waiting).rejects.toThrow("shorter");
});
