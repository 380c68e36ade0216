import { expect, test } from "bun:test";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { createPullCoalescer } from "./pull-coalescer.ts";
import { createPullQueue, type PullQueueOptions } from "./pull-queue.ts";

/**
 * Pods that request images. `calls` are the runtime's pulls in order, each with its end; `results` lists what each
 * pod got.
 */
function createFixture(settings: Partial<PullQueueOptions> = {}) {
  const queue = createPullQueue({ clock: new FakeClock(), parallel: undefined, qps: 0, burst: 0, ...settings });
  const pulls = createPullCoalescer(queue);
  const calls: { image: string; resolve: (ref: string) => void; reject: (error: Error) => void }[] = [];
  const results: string[] = [];

  function request(pod: string, image: string, requireFresh = false, fingerprint = ""): AbortController {
    const leaving = new AbortController();
    const pull = (signal: AbortSignal) => {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      calls.push({ image, resolve, reject });
      signal.addEventListener("abort", () => reject(new Error("cancelled")), { once: true });
      return promise;
    };
    pulls
      .pull(
        { image, fingerprint, requireFresh, pull, onStarted: () => results.push(`${pod} is served`) },
        leaving.signal,
      )
      .then(
        (ref) => results.push(`${pod} has ${ref}`),
        (error: unknown) => results.push(`${pod}: ${error instanceof Error ? error.message : String(error)}`),
      );
    return leaving;
  }

  async function newResults(): Promise<readonly string[]> {
    await settlePromises();
    return results.splice(0);
  }
  const images = () => calls.map(({ image }) => image);
  return { request, calls, images, newResults };
}

test("many pods of one image share one pull and its reference", async () => {
  const { request, calls, images, newResults } = createFixture();
  for (const pod of ["a", "b"]) request(pod, "app:1");
  expect(await newResults()).toEqual(["a is served", "b is served"]);
  request("c", "app:1");
  calls[0]?.resolve("sha256:1");
  expect(await newResults()).toEqual(["c is served", "a has sha256:1", "b has sha256:1", "c has sha256:1"]);
  expect(images()).toEqual(["app:1"]);
});

test("a failed pull fails for all waiting pods, and the next request starts a new pull", async () => {
  const { request, calls, images, newResults } = createFixture();
  for (const pod of ["a", "b"]) request(pod, "app:1");
  await newResults();
  calls[0]?.reject(new Error("no such image"));
  expect(await newResults()).toEqual(["a: no such image", "b: no such image"]);
  request("c", "app:1");
  await settlePromises();
  expect(images()).toEqual(["app:1", "app:1"]);
});

test("requests for a fresh image share a pull that starts later", async () => {
  const { request, calls, images, newResults } = createFixture();
  request("a", "app:1", true);
  await newResults();
  for (const pod of ["b", "c"]) request(pod, "app:1", true);
  expect(await newResults()).toEqual([]);
  calls[0]?.resolve("sha256:old");
  expect(await newResults()).toEqual(["a has sha256:old", "b is served", "c is served"]);
  calls[1]?.resolve("sha256:new");
  expect(await newResults()).toEqual(["b has sha256:new", "c has sha256:new"]);
  expect(images()).toEqual(["app:1", "app:1"]);
});

test("a pod with other credentials gets its own pull, whatever the result of the first", async () => {
  const { request, calls, images, newResults } = createFixture();
  request("a", "app:1", false, "a login");
  request("b", "app:1");
  await newResults();
  expect(images()).toEqual(["app:1", "app:1"]);
  calls[1]?.reject(new Error("not for everybody"));
  calls[0]?.resolve("sha256:1");
  expect(await newResults()).toEqual(["b: not for everybody", "a has sha256:1"]);
});

test("pulls of different images are not shared, and queue if pulls are serialized", async () => {
  const { request, calls, images, newResults } = createFixture({ parallel: 1 });
  request("a", "app:1");
  for (const pod of ["b", "c"]) request(pod, "app:2", true);
  expect(await newResults()).toEqual(["a is served"]);
  calls[0]?.resolve("sha256:1");
  expect(await newResults()).toContain("c is served");
  expect(images()).toEqual(["app:1", "app:2"]);
});

test("an aborted request affects no other, and the last one aborts the pull", async () => {
  const { request, calls, images, newResults } = createFixture();
  const [a, b] = [request("a", "app:1"), request("b", "app:1")];
  await newResults();
  a.abort(new Error("not wanted"));
  expect(await newResults()).toEqual(["a: not wanted"]);
  b.abort(new Error("not wanted either"));
  expect(await newResults()).toEqual(["b: cancelled"]);
  request("c", "app:1");
  await settlePromises();
  expect(images()).toEqual(["app:1", "app:1"]);
  calls[1]?.resolve("sha256:1");
  expect(await newResults()).toEqual(["c is served", "c has sha256:1"]);
});

test("a request aborted before its pull starts ends at once without a runtime call", async () => {
  const { request, calls, images, newResults } = createFixture({ parallel: 1 });
  request("a", "app:1", true);
  await newResults();
  const [same, other] = [request("b", "app:1", true), request("c", "app:2")];
  for (const leaving of [same, other]) leaving.abort(new Error("not wanted"));
  expect(await newResults()).toEqual(["b: not wanted", "c: not wanted"]);
  calls[0]?.resolve("sha256:1");
  expect(await newResults()).toEqual(["a has sha256:1"]);
  expect(images()).toEqual(["app:1"]);
});

test("a request that arrives while the last pull is being aborted gets a new pull after it", async () => {
  const { request, images, newResults } = createFixture();
  const a = request("a", "app:1");
  await newResults();
  a.abort(new Error("not wanted"));
  request("b", "app:1");
  expect(await newResults()).toEqual(["a: cancelled", "b is served"]);
  expect(images()).toEqual(["app:1", "app:1"]);
});
