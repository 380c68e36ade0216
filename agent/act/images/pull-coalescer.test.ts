import { expect, test } from "bun:test";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { createSharedPulls } from "./pull-coalescer.ts";
import { createPullQueue, type PullQueueSettings } from "./pull-queue.ts";

/**
 * Pods that ask for images. `calls` are the pulls that the runtime was asked for, in order, each with its end; `told` is what
 * became of each pod.
 */
function createScene(settings: Partial<PullQueueSettings> = {}) {
  const queue = createPullQueue({ clock: new FakeClock(), parallel: undefined, qps: 0, burst: 0, ...settings });
  const pulls = createSharedPulls(queue);
  const calls: { image: string; resolve: (ref: string) => void; reject: (error: Error) => void }[] = [];
  const told: string[] = [];

  function ask(pod: string, image: string, mustBeNew = false, sharedBy = ""): AbortController {
    const leaving = new AbortController();
    const pull = (signal: AbortSignal) => {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      calls.push({ image, resolve, reject });
      signal.addEventListener("abort", () => reject(new Error("cancelled")), { once: true });
      return promise;
    };
    pulls.pull({ image, sharedBy, mustBeNew, pull, began: () => told.push(`${pod} is served`) }, leaving.signal).then(
      (ref) => told.push(`${pod} has ${ref}`),
      (error: unknown) => told.push(`${pod}: ${error instanceof Error ? error.message : String(error)}`),
    );
    return leaving;
  }

  async function news(): Promise<readonly string[]> {
    await rest();
    return told.splice(0);
  }
  const images = () => calls.map(({ image }) => image);
  return { ask, calls, images, news };
}

test("many pods of one image are one pull, and all have what it gave", async () => {
  const { ask, calls, images, news } = createScene();
  for (const pod of ["a", "b"]) ask(pod, "app:1");
  expect(await news()).toEqual(["a is served", "b is served"]);
  ask("c", "app:1");
  calls[0]?.resolve("sha256:1");
  expect(await news()).toEqual(["c is served", "a has sha256:1", "b has sha256:1", "c has sha256:1"]);
  expect(images()).toEqual(["app:1"]);
});

test("what fails, fails for all who wait, and the next who asks is another pull", async () => {
  const { ask, calls, images, news } = createScene();
  for (const pod of ["a", "b"]) ask(pod, "app:1");
  await news();
  calls[0]?.reject(new Error("no such image"));
  expect(await news()).toEqual(["a: no such image", "b: no such image"]);
  ask("c", "app:1");
  await rest();
  expect(images()).toEqual(["app:1", "app:1"]);
});

test("who must have the image new waits for a pull that begins later, and shares that one", async () => {
  const { ask, calls, images, news } = createScene();
  ask("a", "app:1", true);
  await news();
  for (const pod of ["b", "c"]) ask(pod, "app:1", true);
  expect(await news()).toEqual([]);
  calls[0]?.resolve("sha256:old");
  expect(await news()).toEqual(["a has sha256:old", "b is served", "c is served"]);
  calls[1]?.resolve("sha256:new");
  expect(await news()).toEqual(["b has sha256:new", "c has sha256:new"]);
  expect(images()).toEqual(["app:1", "app:1"]);
});

test("who may pull an image by another right has a pull of its own, whatever becomes of the other one", async () => {
  const { ask, calls, images, news } = createScene();
  ask("a", "app:1", false, "a login");
  ask("b", "app:1");
  await news();
  expect(images()).toEqual(["app:1", "app:1"]);
  calls[1]?.reject(new Error("not for everybody"));
  calls[0]?.resolve("sha256:1");
  expect(await news()).toEqual(["b: not for everybody", "a has sha256:1"]);
});

test("pulls of other images are not shared, and wait for their turn where pulls are serialized", async () => {
  const { ask, calls, images, news } = createScene({ parallel: 1 });
  ask("a", "app:1");
  for (const pod of ["b", "c"]) ask(pod, "app:2", true);
  expect(await news()).toEqual(["a is served"]);
  calls[0]?.resolve("sha256:1");
  expect(await news()).toContain("c is served");
  expect(images()).toEqual(["app:1", "app:2"]);
});

test("who leaves takes nobody along, and the last one ends the pull", async () => {
  const { ask, calls, images, news } = createScene();
  const [a, b] = [ask("a", "app:1"), ask("b", "app:1")];
  await news();
  a.abort(new Error("not wanted"));
  expect(await news()).toEqual(["a: not wanted"]);
  b.abort(new Error("not wanted either"));
  expect(await news()).toEqual(["b: cancelled"]);
  ask("c", "app:1");
  await rest();
  expect(images()).toEqual(["app:1", "app:1"]);
  calls[1]?.resolve("sha256:1");
  expect(await news()).toEqual(["c is served", "c has sha256:1"]);
});

test("who leaves before the pull has begun leaves at once, and the runtime is never asked", async () => {
  const { ask, calls, images, news } = createScene({ parallel: 1 });
  ask("a", "app:1", true);
  await news();
  const [same, other] = [ask("b", "app:1", true), ask("c", "app:2")];
  for (const leaving of [same, other]) leaving.abort(new Error("not wanted"));
  expect(await news()).toEqual(["b: not wanted", "c: not wanted"]);
  calls[0]?.resolve("sha256:1");
  expect(await news()).toEqual(["a has sha256:1"]);
  expect(images()).toEqual(["app:1"]);
});

test("who asks while the last pull is being given up gets one of its own, after it", async () => {
  const { ask, images, news } = createScene();
  const a = ask("a", "app:1");
  await news();
  a.abort(new Error("not wanted"));
  ask("b", "app:1");
  expect(await news()).toEqual(["a: cancelled", "b is served"]);
  expect(images()).toEqual(["app:1", "app:1"]);
});
