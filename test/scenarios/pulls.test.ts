import { expect, test } from "bun:test";
import { scenario } from "./scenario.ts";
import { createStage, makePod, type Stage } from "./stage.ts";

const podOf = (name: string, image: string) => makePod(name, { containers: [{ name: "a", image }] });

/** Every pull takes so long. */
function slowRegistry(stage: Stage, ms: number, ...images: readonly string[]): void {
  for (const image of images) stage.runtime.registry.set(image, undefined);
  stage.runtime.before.pullImage = () =>
    new Promise((resolve) => void stage.clock.wakeAt(stage.clock.now() + ms, resolve));
}

const pullsOf = (stage: Stage) => stage.runtime.calls.filter((call) => call.startsWith("pullImage"));
const waits = (stage: Stage) =>
  stage.pods().map(({ pod, status }) => {
    const { reason, message } = status.containerStatuses?.[0]?.state?.waiting ?? {};
    return `${pod.metadata.name}: ${reason}: ${message}`;
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

test("forty pods of one absent image ask the runtime for it once", async () => {
  const stage = await createStage({ parallelPulls: 1 });
  slowRegistry(stage, 5000, "app:1");
  await stage.start();
  await stage.offer(...Array.from({ length: 40 }, (_, n) => podOf(`web-${n}`, "app:1")));
  await stage.advance("10s");
  expect(pullsOf(stage)).toEqual(["pullImage app:1"]);
  expect(stage.pods().filter(({ status }) => status.phase === "Running")).toHaveLength(40);
});

test("pods that must have an image new share a pull that began after they asked", async () => {
  const stage = await createStage();
  slowRegistry(stage, 5000, "app:latest");
  await stage.start();
  const pods = Array.from({ length: 5 }, (_, n) => podOf(`web-${n}`, "app"));
  await stage.offer(...pods.slice(0, 3));
  await stage.advance("1s");
  await stage.offer(...pods);
  await stage.advance("20s");
  expect(pullsOf(stage)).toEqual(["pullImage app:latest", "pullImage app:latest"]);
  expect(stage.pods().filter(({ status }) => status.phase === "Running")).toHaveLength(5);
});

test("a pod that waits for a pull says so, and whether it has begun", async () => {
  const stage = await createStage({ parallelPulls: 1 });
  slowRegistry(stage, 5000, "app:1", "app:2");
  await stage.start();
  await stage.offer(podOf("a", "app:1"), podOf("b", "app:2"));
  await stage.advance("1s");
  expect(waits(stage)).toEqual([
    'a-node: ContainerCreating: image "app:1" is being pulled',
    'b-node: ContainerCreating: the pull of image "app:2" waits for pulls that began before it',
  ]);
  await stage.advance("5s");
  expect(waits(stage)[1]).toBe('b-node: ContainerCreating: image "app:2" is being pulled');
});

test("a pod that goes takes no pull from those who wait for it too", async () => {
  const stage = await createStage();
  slowRegistry(stage, 5000, "app:1");
  await stage.start();
  await stage.offer(podOf("a", "app:1"), podOf("b", "app:1"));
  await stage.advance("1s");
  await stage.offer(podOf("b", "app:1"));
  await stage.advance("10s");
  expect(pullsOf(stage)).toEqual(["pullImage app:1"]);
  expect(stage.pods().map(({ status }) => status.phase)).toEqual(["Running"]);
});
