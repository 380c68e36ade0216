import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createAttachmentAges } from "./attachment-ages.ts";

const YEAR_MS = 365 * 86_400_000;

test("the age of what this process has added does not change with the wall clock", async () => {
  const clock = new FakeClock();
  const ages = createAttachmentAges(clock);
  const modifiedAt = clock.now();
  ages.resetAge("web");
  await clock.advance(1_000);
  for (const stepMs of [YEAR_MS, -2 * YEAR_MS]) {
    clock.stepWallClock(stepMs);
    expect(ages.ageAt(clock.monotonicMs(), "web", modifiedAt)).toBe(1_000);
  }
  expect(ages.ageAt(400, "web", modifiedAt)).toBe(400);
  ages.resetAge("web");
  expect(ages.ageAt(clock.monotonicMs(), "web", modifiedAt)).toBe(0);
  expect(ages.ageAt(400, "web", modifiedAt)).toBe(-600);
});

test("the time of the file counts for what another process has added, once", async () => {
  const clock = new FakeClock();
  const ages = createAttachmentAges(clock);
  const modifiedAt = clock.now() - 5_000;
  expect(ages.ageAt(clock.monotonicMs(), "web", modifiedAt)).toBe(5_000);
  clock.stepWallClock(YEAR_MS);
  await clock.advance(1_000);
  expect(ages.ageAt(clock.monotonicMs(), "web", modifiedAt)).toBe(6_000);
});

test("a file from the future is as old as this process knows of it", async () => {
  const clock = new FakeClock();
  const ages = createAttachmentAges(clock);
  const modifiedAt = clock.now() + YEAR_MS;
  for (const expected of [0, 240_000]) {
    expect(ages.ageAt(clock.monotonicMs(), "web", modifiedAt)).toBe(expected);
    await clock.advance(240_000);
  }
});

test("the newest thousand are remembered", async () => {
  const clock = new FakeClock();
  const ages = createAttachmentAges(clock);
  for (let index = 0; index <= 1_000; index++) ages.resetAge(`c${index}`);
  await clock.advance(1_000);
  const old = clock.now() - 300_000;
  expect(["c0", "c1", "c1000"].map((id) => ages.ageAt(clock.monotonicMs(), id, old))).toEqual([
    300_000, 300_000, 1_000,
  ]);
});
