import { expect, test } from "bun:test";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { reportOwnershipProgress } from "./ownership-progress.ts";

const folder = "pods/u-1/volumes/kubernetes.io~local-volume/pv-1";
const longer =
  "Warning VolumePermissionChangeInProgress: Setting volume ownership for u-1/volumes/kubernetes.io~local-volume/pv-1 is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods";
const processed = (count: number) =>
  `Warning VolumePermissionChangeInProgress: Setting volume ownership for u-1/volumes/kubernetes.io~local-volume/pv-1, processed ${count} files.`;

function createBed() {
  const clock = new FakeClock();
  const start = clock.now();
  const events: string[] = [];
  const progress = reportOwnershipProgress(clock, folder, ({ type, reason, message }) => {
    events.push(`${(clock.now() - start) / 1000}s ${type} ${reason}: ${message}`);
  });
  return { clock, events, progress };
}

test("a long change is reported after 30 s, and then with its files every minute", async () => {
  const { clock, events, progress } = createBed();
  progress.onProgress(7);
  await clock.advance(90_000);
  progress.onProgress(70_000);
  await clock.advance(60_000);
  progress.end();
  await clock.advance(600_000);
  expect(events).toEqual([`30s ${longer}`, `90s ${processed(7)}`, `150s ${processed(70_000)}`]);
});

test("a change that ends within 30 s is not reported", async () => {
  const { clock, events, progress } = createBed();
  await clock.advance(29_999);
  progress.end();
  await clock.advance(600_000);
  expect(events).toEqual([]);
});
