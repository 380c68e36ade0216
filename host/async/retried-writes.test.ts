import { expect, test } from "bun:test";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { messageOf } from "../error-message.ts";
import { createRetriedWrites } from "./retried-writes.ts";

/** A disk that is full as long as `isFull` says so for the key, and what happens to the writes. */
function createFixture() {
  const clock = new FakeClock();
  const calls: string[] = [];
  const fixture = { isFull: (_key: string) => false, disk: Promise.resolve() };
  const writes = createRetriedWrites<string>({
    clock,
    onRecovered: () => calls.push("recovered"),
  });
  const write = (key: string, content: string) =>
    writes.write(
      key,
      async () => {
        await fixture.disk;
        if (fixture.isFull(key)) throw new Error("full");
        calls.push(`${key}=${content}`);
      },
      (error) => calls.push(`${key} failed: ${messageOf(error)}`),
    );
  return { clock, fixture, write, takeCalls: () => calls.splice(0) };
}

test("a write that fails is reported once, and is done when the disk accepts it", async () => {
  const { clock, fixture, write, takeCalls } = createFixture();
  fixture.isFull = () => true;
  await write("a", "1");
  await write("b", "1");
  expect(takeCalls()).toEqual(["a failed: full", "b failed: full"]);
  await clock.advance(60_000);
  expect(takeCalls()).toEqual([]);
  fixture.isFull = () => false;
  await clock.advance(5_000);
  expect(takeCalls().toSorted()).toEqual(["a=1", "b=1", "recovered"]);
  expect(clock.pendingTimers).toBe(0);
});

test("a later write of the same key replaces the one that failed", async () => {
  const { clock, fixture, write, takeCalls } = createFixture();
  fixture.isFull = () => true;
  await write("a", "1");
  await write("a", "2");
  fixture.isFull = () => false;
  await clock.advance(5_000);
  expect(takeCalls()).toEqual(["a failed: full", "a=2", "recovered"]);
  fixture.isFull = () => true;
  await write("a", "3");
  fixture.isFull = () => false;
  await write("a", "4");
  await clock.advance(60_000);
  expect(takeCalls()).toEqual(["a failed: full", "a=4", "recovered"]);
});

test("a write that begins during a repeated one of its key comes after it", async () => {
  const { clock, fixture, write, takeCalls } = createFixture();
  fixture.isFull = () => true;
  await write("a", "1");
  fixture.isFull = () => false;
  const slowDisk = Promise.withResolvers<void>();
  fixture.disk = slowDisk.promise;
  await clock.advance(1_000);
  const later = write("a", "2");
  await clock.advance(60_000);
  slowDisk.resolve();
  await later;
  expect(takeCalls()).toEqual(["a failed: full", "a=1", "recovered", "a=2"]);
});

test("a write that succeeds causes the failed ones to be repeated", async () => {
  const { clock, fixture, write, takeCalls } = createFixture();
  fixture.isFull = () => true;
  await write("a", "1");
  fixture.isFull = () => false;
  await write("b", "1");
  await settlePromises();
  expect(takeCalls()).toEqual(["a failed: full", "b=1", "a=1", "recovered"]);
  await clock.advance(60_000);
  expect(takeCalls()).toEqual([]);
});

test("a write that never succeeds keeps no other one from being done", async () => {
  const { clock, fixture, write, takeCalls } = createFixture();
  fixture.isFull = () => true;
  for (const key of ["a", "b", "c"]) await write(key, "1");
  takeCalls();
  fixture.isFull = (key) => key === "a";
  await clock.advance(20_000);
  expect(takeCalls().toSorted()).toEqual(["b=1", "c=1"]);
});

test("a write that fails while another one is repeated is repeated, too", async () => {
  const { clock, fixture, write, takeCalls } = createFixture();
  fixture.isFull = () => true;
  await write("a", "1");
  const slowDisk = Promise.withResolvers<void>();
  fixture.disk = slowDisk.promise;
  await clock.advance(1_000);
  fixture.disk = Promise.resolve();
  await write("b", "1");
  await clock.advance(60_000);
  fixture.isFull = () => false;
  slowDisk.resolve();
  await clock.advance(5_000);
  expect(takeCalls()).toEqual(["a failed: full", "b failed: full", "a=1", "b=1", "recovered"]);
});

test("without a failed write no timer runs", async () => {
  const { clock, write } = createFixture();
  await write("a", "1");
  expect(clock.pendingTimers).toBe(0);
});
