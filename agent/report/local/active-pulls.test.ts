import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import type { Action } from "../../decide/pod/action.ts";
import type { Taken } from "../../decide/pod/action-call.ts";
import { createPullsUnderWay } from "./active-pulls.ts";

const uid = "u" as PodUid;
const pull = (image: string): Action => ({ kind: "pullImage", image, why: "it is not on this node" });

function createScene() {
  const clock = new FakeClock();
  const began = clock.now();
  const told: string[] = [];
  const pulls = createPullsUnderWay({
    clock,
    long: (_, { image, attempt }, lastedMs) => void told.push(`${image} #${attempt} ${lastedMs / 60_000}m`),
  });
  const begins = (image: string) => pulls.begins({ uid, pod: "shop/web", action: pull(image), startedAt: clock.now() });
  const took = (image: string, result: Taken["result"]) =>
    pulls.took({ uid, pod: "shop/web", action: pull(image), startedAt: 0, endedAt: clock.now(), result });
  const shown = () =>
    pulls.of(uid).map(({ image, since, attempt }) => `${image} #${attempt} since ${(since - began) / 1000}s`);
  return { clock, told, pulls, begins, took, shown };
}
const failed = { ok: false, reason: "ErrImagePull", message: "no", isOutage: false } as const;

test("a pull is under way from when it is asked for until it has ended", async () => {
  const { clock, begins, took, shown } = createScene();
  begins("app:1");
  await clock.advance(5_000);
  begins("app:2");
  expect(shown()).toEqual(["app:1 #1 since 0s", "app:2 #1 since 5s"]);
  took("app:1", { ok: true });
  expect(shown()).toEqual(["app:2 #1 since 5s"]);
});

test("what has failed counts its tries until one succeeds", () => {
  const { begins, took, shown } = createScene();
  for (const result of [failed, failed]) {
    begins("app:1");
    took("app:1", result);
    expect(shown()).toEqual([]);
  }
  begins("app:1");
  expect(shown()).toEqual(["app:1 #3 since 0s"]);
  took("app:1", { ok: true });
  begins("app:1");
  expect(shown()).toEqual(["app:1 #1 since 0s"]);
});

test("one that takes long is told of ever more rarely, and no more when it has ended", async () => {
  const { clock, told, begins, took } = createScene();
  begins("app:1");
  await clock.advance(59_999);
  expect(told).toEqual([]);
  await clock.advance(3 * 3_600_000);
  expect(told).toEqual(["1m", "5m", "15m", "60m", "120m", "180m"].map((time) => `app:1 #1 ${time}`));
  took("app:1", "given up");
  told.length = 0;
  await clock.advance(24 * 3_600_000);
  expect(told).toEqual([]);
});

test("of a pod that is gone nothing is told", async () => {
  const { clock, told, pulls, begins, shown } = createScene();
  begins("app:1");
  pulls.finished(uid);
  await clock.advance(3_600_000);
  expect([told, shown()]).toEqual([[], []]);
});
