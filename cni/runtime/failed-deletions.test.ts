import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { CniError, cniCodes } from "../error.ts";
import { createFailedDeletions } from "./failed-deletions.ts";

const busy = new CniError(100, "busy");

const codes: readonly (readonly [code: number, isTriedAgain: boolean])[] = [
  [cniCodes.unknown, true],
  [cniCodes.incompatibleVersion, false],
  [cniCodes.ioFailure, true],
  [cniCodes.invalidNetworkConf, false],
  [cniCodes.tryAgainLater, true],
  [cniCodes.notAvailable, false],
  [100, true],
  [cniCodes.internal, true],
];
for (const [code, isTriedAgain] of codes)
  test(`a DEL that has failed with code ${code} is ${isTriedAgain ? "" : "not "}tried again`, () => {
    const failed = createFailedDeletions(new FakeClock());
    failed.add("a", new CniError(code, "it fails"));
    expect([failed.isDue("a"), failed.againAfterMs()]).toEqual([false, isTriedAgain ? 10_000 : undefined]);
  });

test("the delay of each attachment grows up to ten minutes, by the monotonic clock, and the earliest one is next", async () => {
  const clock = new FakeClock();
  const failed = createFailedDeletions(clock);
  expect([failed.isDue("a"), failed.againAfterMs()]).toEqual([true, undefined]);
  const delays: unknown[] = [];
  for (let count = 1; count <= 8; count++) {
    failed.add("a", busy);
    delays.push(failed.againAfterMs());
  }
  expect(delays).toEqual([10, 20, 40, 80, 160, 320, 600, 600].map((seconds) => seconds * 1_000));
  failed.add("b", busy);
  clock.stepWallClock(3_600_000);
  expect([failed.isDue("b"), failed.againAfterMs()]).toEqual([false, 10_000]);
  await clock.advance(10_000);
  expect([failed.isDue("a"), failed.isDue("b"), failed.againAfterMs()]).toEqual([false, true, 0]);
  failed.retain(["a"]);
  expect([failed.failures("a"), failed.failures("b"), failed.againAfterMs()]).toEqual([8, 0, 590_000]);
  failed.remove("a");
  expect([failed.isDue("a"), failed.againAfterMs()]).toEqual([true, undefined]);
});

test("an attachment of which nothing shows whether a pod has it is due later, if its DEL has failed and is due", async () => {
  const clock = new FakeClock();
  const failed = createFailedDeletions(clock);
  failed.postpone("a");
  expect(failed.againAfterMs()).toBeUndefined();
  failed.add("a", busy);
  failed.postpone("a");
  expect(failed.againAfterMs()).toBe(10_000);
  await clock.advance(10_000);
  failed.postpone("a");
  expect(failed.againAfterMs()).toBe(20_000);
  failed.add("b", new CniError(cniCodes.notAvailable, "no plugin"));
  failed.postpone("b");
  expect(failed.isDue("b")).toBe(false);
});

test("a failure is worth a line when its reason changes", () => {
  const failed = createFailedDeletions(new FakeClock());
  const reasons = [busy, busy, new CniError(100, "no device"), busy];
  expect(reasons.map((error) => failed.add("a", error))).toEqual([true, false, true, true]);
});
