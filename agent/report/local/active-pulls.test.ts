import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import type { Action } from "../../decide/pod/action.ts";
import type { ActionFinished } from "../../decide/pod/action-call.ts";
import { createActivePulls } from "./active-pulls.ts";

const uid = "u" as PodUid;
const pull = (image: string): Action => ({ kind: "pullImage", image, why: "it is not on this node" });

function createFixture() {
  const clock = new FakeClock();
  const began = clock.now();
  const slowPulls: string[] = [];
  const pulls = createActivePulls({
    clock,
    onSlowPull: (_, { image, attempt }, lastedMs) => void slowPulls.push(`${image} #${attempt} ${lastedMs / 60_000}m`),
  });
  const begins = (image: string) =>
    pulls.onActionStarted({ uid, pod: "shop/web", action: pull(image), startedAt: clock.now() });
  const finished = (image: string, result: ActionFinished["result"]) =>
    pulls.onActionFinished({ uid, pod: "shop/web", action: pull(image), startedAt: 0, endedAt: clock.now(), result });
  const shown = () =>
    pulls.of(uid).map(({ image, since, attempt }) => `${image} #${attempt} since ${(since - began) / 1000}s`);
  return { clock, slowPulls, pulls, begins, finished, shown };
}
const failed = { ok: false, reason: "ErrImagePull", message: "no", isOutage: false } as const;

test("a pull is active from its request to its end", async () => {
  const { clock, begins, finished, shown } = createFixture();
  begins("app:1");
  await clock.advance(5_000);
  begins("app:2");
  expect(shown()).toEqual(["app:1 #1 since 0s", "app:2 #1 since 5s"]);
  finished("app:1", { ok: true });
  expect(shown()).toEqual(["app:2 #1 since 5s"]);
});

test("a failed pull counts its attempts until one succeeds", () => {
  const { begins, finished, shown } = createFixture();
  for (const result of [failed, failed]) {
    begins("app:1");
    finished("app:1", result);
    expect(shown()).toEqual([]);
  }
  begins("app:1");
  expect(shown()).toEqual(["app:1 #3 since 0s"]);
  finished("app:1", { ok: true });
  begins("app:1");
  expect(shown()).toEqual(["app:1 #1 since 0s"]);
});

test("a slow pull is reported at growing intervals until it ends", async () => {
  const { clock, slowPulls, begins, finished } = createFixture();
  begins("app:1");
  await clock.advance(59_999);
  expect(slowPulls).toEqual([]);
  await clock.advance(3 * 3_600_000);
  expect(slowPulls).toEqual(["1m", "5m", "15m", "60m", "120m", "180m"].map((time) => `app:1 #1 ${time}`));
  finished("app:1", "cancelled");
  slowPulls.length = 0;
  await clock.advance(24 * 3_600_000);
  expect(slowPulls).toEqual([]);
});

test("the pulls of a removed pod are not reported", async () => {
  const { clock, slowPulls, pulls, begins, shown } = createFixture();
  begins("app:1");
  pulls.onPodRemoved(uid);
  await clock.advance(3_600_000);
  expect([slowPulls, shown()]).toEqual([[], []]);
});
