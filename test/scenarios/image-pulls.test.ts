import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { Image } from "../../proto/cri/gen/api.ts";
import { formatTime } from "../../proto/kubernetes/time.ts";
import { createStage, makePod, type Stage } from "./harness.ts";
import { linesOf, scenario } from "./scenario.ts";

const podOf = (name: string, image: string) => makePod(name, { containers: [{ name: "a", image }] });

/** Every pull takes so long. */
function slowRegistry(stage: Stage, ms: number, ...images: readonly string[]): void {
  for (const image of images) stage.runtime.registry.set(image, undefined);
  stage.runtime.before.pullImage = () =>
    new Promise((resolve) => void stage.clock.wakeAt(stage.clock.now() + ms, resolve));
}

const pullsOf = (stage: Stage) => stage.runtime.calls.filter((call) => call.startsWith("pullImage"));
const waits = (stage: Stage) =>
  stage.pods().flatMap(({ pod, status }) => {
    const { reason, message } = status.containerStatuses?.[0]?.state?.waiting ?? {};
    return reason === undefined ? [] : [`${pod.metadata.name} shows ${reason}: ${message}`];
  });

scenario(
  "pods of one image share its pull, and a pull of another image waits for it",
  {
    options: { parallelPulls: 1 },
    before: (stage) => slowRegistry(stage, 5000, "app:1", "app:2"),
    async run(stage) {
      await stage.offer(podOf("a", "app:1"), podOf("b", "app:1"), podOf("c", "app:2"));
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report a Pending: a waiting ContainerCreating
      0s report b Pending: a waiting ContainerCreating
      0s report c Pending: a waiting ContainerCreating
      0s a: prepare volumes
      0s b: prepare volumes
      0s c: prepare volumes
      0s a: run sandbox (attempt 0): the pod has none
      0s b: run sandbox (attempt 0): the pod has none
      0s c: run sandbox (attempt 0): the pod has none
      5s a: pull image app:1: it is not on this node
      5s b: pull image app:1: it is not on this node
      5s a: create container a (attempt 0): it has not run yet
      5s b: create container a (attempt 0): it has not run yet
      5s a: start container a (attempt 0)
      5s b: start container a (attempt 0)
      5s report a Running, ready: a running
      5s report b Running, ready: a running
      10s c: pull image app:2: it is not on this node
      10s c: create container a (attempt 0): it has not run yet
      10s c: start container a (attempt 0)
      10s report c Running, ready: a running"
    `);
  },
);

// A test and no scenario: it is about a number of pods at which a play for each call that an agent may die after takes a minute.
test("forty pods of one absent image ask the runtime for it once", async () => {
  const stage = await createStage({ parallelPulls: 1 });
  slowRegistry(stage, 5000, "app:1");
  await stage.start();
  await stage.offer(...Array.from({ length: 40 }, (_, n) => podOf(`web-${n}`, "app:1")));
  await stage.advance("10s");
  expect(pullsOf(stage)).toEqual(["pullImage app:1"]);
  expect(stage.pods().filter(({ status }) => status.phase === "Running")).toHaveLength(40);
});

scenario(
  "pods that must have an image new share a pull that began after they asked",
  {
    before: (stage) => slowRegistry(stage, 5000, "app:latest"),
    async run(stage) {
      const pods = Array.from({ length: 5 }, (_, n) => podOf(`web-${n}`, "app"));
      await stage.offer(...pods.slice(0, 3));
      await stage.advance("1s");
      await stage.offer(...pods);
      await stage.advance("20s");
      stage.tell(pullsOf(stage));
    },
  },
  (story) => {
    expect(linesOf(story, /pull|ready/)).toMatchInlineSnapshot(`
      "5s web-0: pull image app:latest: its pull policy is Always
      5s web-1: pull image app:latest: its pull policy is Always
      5s web-2: pull image app:latest: its pull policy is Always
      5s report web-0 Running, ready: a running
      5s report web-1 Running, ready: a running
      5s report web-2 Running, ready: a running
      10s web-3: pull image app:latest: its pull policy is Always
      10s web-4: pull image app:latest: its pull policy is Always
      10s report web-3 Running, ready: a running
      10s report web-4 Running, ready: a running
      21s pullImage app:latest
      21s pullImage app:latest"
    `);
  },
);

scenario(
  "a pod that waits for a pull says so, and whether it has begun",
  {
    options: { parallelPulls: 1 },
    before: (stage) => slowRegistry(stage, 5000, "app:1", "app:2"),
    async run(stage) {
      await stage.offer(podOf("a", "app:1"), podOf("b", "app:2"));
      await stage.advance("1s");
      stage.tell(waits(stage));
      await stage.advance("5s");
      stage.tell(waits(stage));
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, /pull|ready/)).toMatchInlineSnapshot(`
      "1s a-node shows ContainerCreating: image "app:1" is being pulled since 2026-01-01T00:00:00Z
      1s b-node shows ContainerCreating: the pull of image "app:2" waits for pulls that began before it
      5s a: pull image app:1: it is not on this node
      5s report a Running, ready: a running
      6s b-node shows ContainerCreating: image "app:2" is being pulled since 2026-01-01T00:00:05Z
      10s b: pull image app:2: it is not on this node
      10s report b Running, ready: a running"
    `);
  },
);

scenario(
  "a pod that goes takes no pull from those who wait for it too",
  {
    before: (stage) => slowRegistry(stage, 5000, "app:1"),
    async run(stage) {
      await stage.offer(podOf("a", "app:1"), podOf("b", "app:1"));
      await stage.advance("1s");
      await stage.offer(podOf("b", "app:1"));
      await stage.advance("10s");
      stage.tell(pullsOf(stage));
    },
  },
  (story) => {
    expect(linesOf(story, /pull|ready|finished/)).toMatchInlineSnapshot(`
      "1s report a Pending, finished: a terminated ContainerStatusUnknown 137
      5s b: pull image app:1: it is not on this node
      5s report b Running, ready: a running
      11s pullImage app:1"
    `);
  },
);

test("a pull that takes long is told of now and then, while it lasts", async () => {
  const stage = await createStage({ isInCluster: true });
  slowRegistry(stage, 6 * 60_000, "app:1");
  await stage.start();
  await stage.apply("web", { containers: [{ name: "a", image: "app:1" }] });
  await stage.advance("5m");
  const began = formatTime(stage.clock.now() - 300_000);
  expect(waits(stage)).toEqual([`web shows ContainerCreating: image "app:1" is being pulled since ${began}`]);
  expect(stage.pods()[0]?.pulls).toEqual([{ image: "app:1", since: stage.clock.now() - 300_000, attempt: 1 }]);
  await stage.advance("30m");
  expect([stage.pods()[0]?.pulls, stage.pods()[0]?.status.phase]).toEqual([[], "Running"]);
  expect((await stage.events("web")).slice(0, 4)).toEqual([
    '1x Normal Pulling: Pulling image "app:1"',
    '1x Normal Pulling: Still pulling image "app:1" after 1m0s',
    '1x Normal Pulling: Still pulling image "app:1" after 5m0s',
    expect.stringMatching(/^1x Normal Pulled: Successfully pulled image "app:1" in 6m0s/),
  ]);
  expect(stage.story.filter((line) => line.includes("still being pulled"))).toEqual([
    "60s default/web: an image is still being pulled after 1m0s",
    "300s default/web: an image is still being pulled after 5m0s",
  ]);
});

test("the images of a pod are all fetched ahead at once, while its first containers start in their order", async () => {
  const stage = await createStage();
  const images = ["init:1", "init:2", "app:1"];
  const takes = new Map([
    ["pullImage init:1", 1_000],
    ["pullImage init:2", 5_000],
    ["pullImage app:1", 3_000],
  ]);
  for (const image of images) stage.runtime.registry.set(image, undefined);
  stage.runtime.before.pullImage = (image) =>
    new Promise(
      (resolve) => void stage.clock.wakeAt(stage.clock.now() + (takes.get(`pullImage ${image}`) ?? 0), resolve),
    );
  for (const name of ["one", "two"]) stage.runtime.programs.set(name, { exitsAfterMs: 1_000 });
  await stage.start();
  const initContainers = [
    { name: "one", image: "init:1" },
    { name: "two", image: "init:2" },
  ];
  await stage.offer(makePod("web", { initContainers, containers: [{ name: "a", image: "app:1" }] }));
  await stage.advance("0s");
  expect(pullsOf(stage)).toEqual(images.map((image) => `pullImage ${image}`));
  await stage.advance("10s");
  expect(linesOf(stage.told(), /pull image|start container|ready/)).toMatchInlineSnapshot(`
    "1s web: pull image init:1: it is not on this node
    1s web: start container one (attempt 0)
    3s web: pull image app:1: it is not on this node
    5s web: pull image init:2: it is not on this node
    5s web: start container two (attempt 0)
    6s web: start container a (attempt 0)
    6s report web Running, ready: init one terminated Completed 0, init two terminated Completed 0, a running"
  `);
});

test("an image of which the runtime cannot say whether it has it is told by the name that the pod gives it", async () => {
  const stage = await createStage();
  const failure = () => new CriError("INTERNAL", "ImageStatus", "the store is broken");
  stage.runtime.failures.imageStatus = Array.from({ length: 9 }, failure);
  await stage.start();
  await stage.offer(makePod("web", { containers: [{ name: "a", image: "app", imagePullPolicy: "IfNotPresent" }] }));
  await stage.advance("1s");
  expect(waits(stage)).toEqual([
    'web-node shows ImageInspectError: Failed to inspect image "app": rpc error: code = Internal desc = the store is broken',
  ]);
});

test("after an image was imported anew under its name the next pods and restarts are made of the new one", async () => {
  const stage = await createStage();
  const old = stage.runtime.addImage("app:1");
  await stage.start();
  const named = (name: string) =>
    makePod(name, { containers: [{ name, image: "app:1", imagePullPolicy: "IfNotPresent" }] });
  await stage.offer(named("one"), named("two"));
  await stage.advance("10s");
  const imported = { id: "sha256:imported", repoTags: ["app:1"], size: 1n };
  stage.runtime.images.set("app:1", Image.fromPartial(imported));
  stage.runtime.images.set("app:before", Image.fromPartial({ id: old, repoTags: ["app:before"], size: 1n }));
  await stage.offer(named("one"), named("two"), named("three"));
  await stage.exit("two", 1);
  await stage.advance("20s");
  const made = [...stage.runtime.containers.values()].map(
    ({ config }) => `${config.metadata?.name} of ${config.image?.image}`,
  );
  expect(made.toSorted()).toEqual(
    [`one of ${old}`, "three of sha256:imported", `two of ${old}`, "two of sha256:imported"].toSorted(),
  );
});

test("a runtime is told of the annotations of the pod that an image is pulled for", async () => {
  const stage = await createStage();
  stage.runtime.registry.set("app:1", undefined);
  const pod = podOf("web", "app:1");
  await stage.start();
  await stage.offer({ ...pod, metadata: { ...pod.metadata, annotations: { "example.com/lazy": "yes" } } });
  await stage.advance("10s");
  expect(stage.runtime.pullAnnotations).toMatchObject([{ "example.com/lazy": "yes" }]);
  expect(Object.keys(stage.runtime.pullAnnotations[0] ?? {})).not.toContain("berth.dev/crashes");
});
