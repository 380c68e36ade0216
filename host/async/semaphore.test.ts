import { expect, test } from "bun:test";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { createSemaphore, type Semaphore } from "./semaphore.ts";

const { signal } = new AbortController();

/** Queues work by name that ends when `end` is called with it. */
function createWork(semaphore: Semaphore) {
  const running: string[] = [];
  const ends = new Map<string, () => void>();
  const start = (name: string, isUrgent?: () => boolean, own: AbortSignal = signal) =>
    semaphore.run(
      () => {
        running.push(name);
        return new Promise<void>((resolve) => ends.set(name, resolve));
      },
      own,
      isUrgent,
    );
  const end = async (name: string) => {
    ends.get(name)?.();
    await settlePromises();
  };
  return { running, start, end };
}

test("callers wait for a permit in the order of their calls", async () => {
  const { running, start, end } = createWork(createSemaphore({ permits: 1 }));
  for (const name of ["a", "b", "c"]) void start(name);
  await settlePromises();
  expect(running).toEqual(["a"]);
  await end("a");
  await end("b");
  expect(running).toEqual(["a", "b", "c"]);
});

test("without a number of permits nothing waits", async () => {
  const { running, start } = createWork(createSemaphore({ permits: undefined }));
  for (const name of ["a", "b", "c"]) void start(name);
  await settlePromises();
  expect(running).toEqual(["a", "b", "c"]);
});

test("an urgent caller goes first, and is asked when a permit is free", async () => {
  const { running, start, end } = createWork(createSemaphore({ permits: 1 }));
  let isUrgent = false;
  void start("a");
  void start("b");
  void start("c", () => isUrgent);
  await settlePromises();
  isUrgent = true;
  await end("a");
  expect(running).toEqual(["a", "c"]);
});

test("after so many urgent callers the one that has waited longest goes", async () => {
  const { running, start, end } = createWork(createSemaphore({ permits: 1, maxUrgentInARow: 2 }));
  void start("first");
  void start("longest");
  for (const name of ["u1", "u2", "u3"]) void start(name, () => true);
  await settlePromises();
  for (const name of ["first", "u1", "u2", "longest"]) await end(name);
  expect(running).toEqual(["first", "u1", "u2", "longest", "u3"]);
});

test("a caller that aborts leaves the line, and one that has aborted never enters it", async () => {
  const { running, start, end } = createWork(createSemaphore({ permits: 1 }));
  const controller = new AbortController();
  void start("a");
  const leaves = start("b", undefined, controller.signal).catch(() => "left");
  void start("c");
  controller.abort();
  expect(await leaves).toBe("left");
  expect(await start("d", undefined, AbortSignal.abort()).catch(() => "refused")).toBe("refused");
  await end("a");
  expect(running).toEqual(["a", "c"]);
});

test("work that fails releases its permit", async () => {
  const semaphore = createSemaphore({ permits: 1 });
  expect(await semaphore.run(() => Promise.reject(new Error("no")), signal).catch(() => "failed")).toBe("failed");
  expect(await semaphore.run(() => Promise.resolve("done"), signal)).toBe("done");
});

test("a permit that is held for too long passes on once, and its holder goes on", async () => {
  const clock = new FakeClock();
  const { running, start, end } = createWork(createSemaphore({ permits: 1, stuckAfter: { clock, ms: 1_000 } }));
  for (const name of ["stuck", "b", "c"]) void start(name);
  await clock.advance(1_000);
  expect(running).toEqual(["stuck", "b"]);
  await end("stuck");
  expect(running).toEqual(["stuck", "b"]);
  await end("b");
  expect(running).toEqual(["stuck", "b", "c"]);
});

test("a second release of a permit does nothing", async () => {
  const semaphore = createSemaphore({ permits: 1 });
  const release = await semaphore.acquire(signal);
  release();
  release();
  await semaphore.acquire(signal);
  const controller = new AbortController();
  const second = semaphore.acquire(controller.signal).catch(() => "none is left");
  controller.abort();
  expect(await second).toBe("none is left");
});
