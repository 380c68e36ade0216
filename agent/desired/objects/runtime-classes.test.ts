import { expect, test } from "bun:test";
import { runtimeClasses } from "../../../kube/resource.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createRuntimeClasses } from "./runtime-classes.ts";

function createScene() {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const log = new FakeLog();
  const end = new AbortController();
  const scene = { reads: 0, isOver: false };
  const classes = createRuntimeClasses({
    kube,
    log,
    read: () => {
      scene.reads += 1;
    },
  });
  void classes.follow(end.signal).then(() => {
    scene.isOver = true;
  });
  const make = async (name: string, handler: string) => {
    await kube.user.create(runtimeClasses, { metadata: { name }, handler });
    await rest();
  };
  const handlers = () => {
    const all = classes.handlers();
    return all === undefined ? undefined : [...all];
  };
  return { kube, scene, classes, make, handlers, stop: () => end.abort() };
}

test("nobody asks for classes until a pod names one; then they are known, and every change", async () => {
  const { kube, scene, classes, make, handlers } = createScene();
  await make("gvisor", "runsc");
  expect([kube.calls, handlers()]).toEqual([[], undefined]);
  classes.want();
  classes.want();
  await rest();
  expect([handlers(), scene.reads, kube.watches]).toEqual([[["gvisor", "runsc"]], 1, 1]);
  await make("kata", "kata-qemu");
  await kube.user.delete(runtimeClasses, "gvisor");
  await rest();
  expect([handlers(), scene.reads]).toEqual([[["kata", "kata-qemu"]], 1]);
});

test("a cluster without any class is known to have none", async () => {
  const { scene, classes, handlers } = createScene();
  classes.want();
  await rest();
  expect([handlers(), scene.reads]).toEqual([[], 1]);
});

test("who follows what nobody wanted ends with the agent", async () => {
  const { kube, scene, stop } = createScene();
  stop();
  await rest();
  expect([scene.isOver, kube.calls]).toEqual([true, []]);
});
