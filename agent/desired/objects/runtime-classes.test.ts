import { expect, test } from "bun:test";
import { runtimeClasses } from "../../../kube/resource.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createRuntimeClasses } from "./runtime-classes.ts";

function createFixture() {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const log = new FakeLog();
  const end = new AbortController();
  const fixture = { reads: 0, isOver: false };
  const classes = createRuntimeClasses({
    kube,
    log,
    onSynced: () => {
      fixture.reads += 1;
    },
  });
  void classes.run(end.signal).then(() => {
    fixture.isOver = true;
  });
  const make = async (name: string, handler: string) => {
    await kube.user.create(runtimeClasses, { metadata: { name }, handler });
    await settlePromises();
  };
  const handlers = () => {
    const all = classes.handlers();
    return all === undefined ? undefined : [...all];
  };
  return { kube, fixture, classes, make, handlers, stop: () => end.abort() };
}

test("the watch of RuntimeClasses starts when a pod names one, and follows every change", async () => {
  const { kube, fixture, classes, make, handlers } = createFixture();
  await make("gvisor", "runsc");
  expect([kube.calls, handlers()]).toEqual([[], undefined]);
  classes.startWatch();
  classes.startWatch();
  await settlePromises();
  expect([handlers(), fixture.reads, kube.openWatches]).toEqual([[["gvisor", "runsc"]], 1, 1]);
  await make("kata", "kata-qemu");
  await kube.user.delete(runtimeClasses, "gvisor");
  await settlePromises();
  expect([handlers(), fixture.reads]).toEqual([[["kata", "kata-qemu"]], 1]);
});

test("a cluster without RuntimeClasses has an empty list", async () => {
  const { fixture, classes, handlers } = createFixture();
  classes.startWatch();
  await settlePromises();
  expect([handlers(), fixture.reads]).toEqual([[], 1]);
});

test("run ends with the signal even if no pod has named a RuntimeClass", async () => {
  const { kube, fixture, stop } = createFixture();
  stop();
  await settlePromises();
  expect([fixture.isOver, kube.calls]).toEqual([true, []]);
});
