import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { createPodStops } from "./pod-stops.ts";

const uid = "u" as PodUid;
const { signal } = new AbortController();

const podWith = (spec: Partial<PodSpec>): Pod => ({ metadata: { uid }, spec: { containers: [], ...spec } });
const shared = podWith({ shareProcessNamespace: true });

/** Stops `count` containers of a pod, each of which ends after `lastsMs`, and returns when the stops begin. */
async function beginsOf(count: number, lastsMs: number, pod: Pod | undefined = shared): Promise<readonly number[]> {
  const clock = new FakeClock();
  const stops = createPodStops(clock);
  const begins: number[] = [];
  const stop = () => {
    begins.push(clock.elapsedMs);
    return new Promise<void>((resolve) => void clock.wakeAt(clock.now() + lastsMs, resolve));
  };
  const all = Promise.all(Array.from({ length: count }, () => stops.run(uid, pod, stop, signal)));
  for (let ms = 0; ms < 20_000; ms += 100) await clock.advance(100);
  await all;
  expect(clock.pendingTimers).toBe(0);
  return begins;
}

const times = (count: number, at: number) => Array.from({ length: count }, () => at);

test("containers with process namespaces of their own are stopped sixteen at a time", async () => {
  expect(await beginsOf(16, 5_000, podWith({}))).toEqual(times(16, 0));
  expect(await beginsOf(40, 5_000, podWith({}))).toEqual([...times(16, 0), ...times(16, 1_000), ...times(8, 2_000)]);
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
    for (let count = 0; count < 9; count++) void stops.run(uid, pod, stop, signal);
    await settlePromises();
    expect(ends).toHaveLength(4);
    ends[0]?.();
    await settlePromises();
    expect(ends).toHaveLength(5);
  });

test("containers that take their time to end are stopped in groups a second apart", async () => {
  expect(await beginsOf(10, 10_000)).toEqual([...times(4, 0), ...times(4, 1_000), ...times(2, 2_000)]);
});

test("the stops of different pods do not wait for each other", async () => {
  const stops = createPodStops(new FakeClock());
  let calls = 0;
  const stop = () => {
    calls++;
    return new Promise<void>(() => {});
  };
  for (const pod of ["a", "b"])
    for (let count = 0; count < 10; count++) void stops.run(pod as PodUid, shared, stop, signal);
  await settlePromises();
  expect(calls).toBe(8);
});

test("a stop that is aborted while it waits is not called, and rejects with the reason", async () => {
  const stops = createPodStops(new FakeClock());
  for (let count = 0; count < 4; count++) void stops.run(uid, shared, () => new Promise<void>(() => {}), signal);
  const abort = new AbortController();
  const waiting = stops.run(uid, shared, () => Promise.reject(new Error("it was called")), abort.signal);
  abort.abort(new Error("shorter"));
  await expect(waiting).rejects.toThrow("shorter");
});
