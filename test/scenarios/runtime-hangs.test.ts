import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import type { RuntimeVerb } from "../fakes/runtime.ts";
import { createStage, makePod, type Stage } from "./harness.ts";
import { linesOf, scenario } from "./scenario.ts";

/** Calls of the verb that begin in these seconds hang until the last of them, where they are about the right thing. */
function hang(
  { clock, runtime }: Stage,
  verb: RuntimeVerb,
  isAbout: (about: string) => boolean,
  { from = 0, until = 30 }: { readonly from?: number; readonly until?: number } = {},
): void {
  const resumed = Promise.withResolvers<void>();
  const isTime = () => clock.elapsedMs >= from * 1000 && clock.elapsedMs < until * 1000;
  runtime.before[verb] = (about) => (isTime() && isAbout(about) ? resumed.promise : undefined);
  clock.wakeAt(clock.now() + until * 1000, resumed.resolve);
}

const isOfStuckPod = (stage: Stage) => (about: string) =>
  [...stage.runtime.sandboxes.values()].some(
    ({ id, config }) => id === about && config.metadata?.name.startsWith("stuck"),
  );

scenario(
  "a runtime that hangs is given up at the deadline and tried again",
  {
    before: (stage) => hang(stage, "createContainer", () => true, { until: 200 }),
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("10m");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      120s web: failed to create container a (attempt 0): it has not run yet: no answer within 120000 ms
      120s report web Pending: a waiting CreateContainerError
      200s web: create container a (attempt 0): it has not run yet
      200s web: start container a (attempt 0)
      200s report web Running, ready: a running"
    `);
  },
);

scenario(
  "starts that hang give their places to others after ten seconds",
  {
    options: { startPlaces: 2 },
    before: (stage) => hang(stage, "runPodSandbox", (about) => about.includes("stuck")),
    async run(stage) {
      await stage.offer(makePod("stuck-1"), makePod("stuck-2"), makePod("web"));
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report stuck-1 Pending: a waiting ContainerCreating
      0s report stuck-2 Pending: a waiting ContainerCreating
      0s report web Pending: a waiting ContainerCreating
      0s stuck-1: prepare volumes
      0s stuck-2: prepare volumes
      10s web: prepare volumes
      10s web: run sandbox (attempt 0): the pod has none
      10s web: create container a (attempt 0): it has not run yet
      10s web: start container a (attempt 0)
      10s report web Running, ready: a running
      30s stuck-1: run sandbox (attempt 0): the pod has none
      30s stuck-2: run sandbox (attempt 0): the pod has none
      30s stuck-1: create container a (attempt 0): it has not run yet
      30s stuck-2: create container a (attempt 0): it has not run yet
      30s stuck-1: start container a (attempt 0)
      30s stuck-2: start container a (attempt 0)
      30s report stuck-1 Running, ready: a running
      30s report stuck-2 Running, ready: a running"
    `);
  },
);

const stuckPods = [1, 2, 3, 4].map((number) => makePod(`stuck-${number}`));

scenario(
  "teardowns that hang give their places to others after ten seconds",
  {
    before: (stage) => hang(stage, "stopPodSandbox", isOfStuckPod(stage)),
    async run(stage) {
      await stage.offer(...stuckPods, makePod("web"));
      stage.told();
      await stage.offer();
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(linesOf(story, /sandbox/)).toMatchInlineSnapshot(`
      "10s web: stop sandbox: its manifest is gone
      10s web: remove sandbox: its manifest is gone
      30s stuck-1: stop sandbox: its manifest is gone
      30s stuck-2: stop sandbox: its manifest is gone
      30s stuck-3: stop sandbox: its manifest is gone
      30s stuck-4: stop sandbox: its manifest is gone
      30s stuck-1: remove sandbox: its manifest is gone
      30s stuck-2: remove sandbox: its manifest is gone
      30s stuck-3: remove sandbox: its manifest is gone
      30s stuck-4: remove sandbox: its manifest is gone"
    `);
  },
);

scenario(
  "a removal that hangs keeps no other pod from its own",
  {
    before: (stage) => hang(stage, "removePodSandbox", isOfStuckPod(stage)),
    async run(stage) {
      await stage.offer(...stuckPods, makePod("web"));
      stage.told();
      await stage.offer();
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(linesOf(story, /sandbox/)).toMatchInlineSnapshot(`
      "0s stuck-1: stop sandbox: its manifest is gone
      0s stuck-2: stop sandbox: its manifest is gone
      0s stuck-3: stop sandbox: its manifest is gone
      0s stuck-4: stop sandbox: its manifest is gone
      0s web: stop sandbox: its manifest is gone
      10s web: remove sandbox: its manifest is gone
      30s stuck-1: remove sandbox: its manifest is gone
      30s stuck-2: remove sandbox: its manifest is gone
      30s stuck-3: remove sandbox: its manifest is gone
      30s stuck-4: remove sandbox: its manifest is gone"
    `);
  },
);

scenario(
  "an audit that hangs keeps no pod from starting or restarting, and says nothing of what has begun since",
  {
    before: (stage) => hang(stage, "listContainers", (about) => about === "", { from: 300, until: 330 }),
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("310s");
      stage.told();
      await stage.exit("a", 1);
      await stage.offer(makePod("web"), makePod("other"));
      await stage.advance("70s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "310s report web Running: a terminated Error 1
      310s web: create container a (attempt 1): it exited with code 1
      310s report web Running: a waiting ContainerCreating (restarts: 1)
      310s web: start container a (attempt 1)
      310s report web Running, ready: a running (restarts: 1)
      310s report other Pending: a waiting ContainerCreating
      310s other: prepare volumes
      310s other: run sandbox (attempt 0): the pod has none
      310s other: create container a (attempt 0): it has not run yet
      310s other: start container a (attempt 0)
      310s report other Running, ready: a running"
    `);
  },
);

scenario(
  "an image that cannot be looked at holds up those who need it alone",
  {
    before: (stage) => {
      stage.runtime.addImage("app:1");
      hang(stage, "imageStatus", (about) => about === "app:1");
    },
    async run(stage) {
      const image = "app:1";
      await stage.offer(makePod("stuck", { containers: [{ name: "a", image }] }), makePod("web"));
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      30s report stuck Pending: a waiting ContainerCreating
      30s stuck: prepare volumes
      30s stuck: run sandbox (attempt 0): the pod has none
      30s stuck: create container a (attempt 0): it has not run yet
      30s stuck: start container a (attempt 0)
      30s report stuck Running, ready: a running"
    `);
  },
);

scenario(
  "a pull that hangs holds up those alone who need an image from a registry",
  {
    options: { parallelPulls: 1 },
    before: (stage) => {
      for (const image of ["app:1", "app:2"]) stage.runtime.registry.set(image, undefined);
      hang(stage, "pullImage", (about) => about === "app:1");
    },
    async run(stage) {
      const pulling = ["app:1", "app:2"].map((image, n) =>
        makePod(`p${n + 1}`, { containers: [{ name: "a", image }] }),
      );
      await stage.offer(...pulling);
      await stage.advance("20s");
      await stage.offer(...pulling, makePod("web"));
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report p1 Pending: a waiting ContainerCreating
      0s report p2 Pending: a waiting ContainerCreating
      0s p1: prepare volumes
      0s p2: prepare volumes
      0s p1: run sandbox (attempt 0): the pod has none
      0s p2: run sandbox (attempt 0): the pod has none
      20s report web Pending: a waiting ContainerCreating
      20s web: prepare volumes
      20s web: run sandbox (attempt 0): the pod has none
      20s web: create container a (attempt 0): it has not run yet
      20s web: start container a (attempt 0)
      20s report web Running, ready: a running
      30s p1: pull image app:1: it is not on this node
      30s p2: pull image app:2: it is not on this node
      30s p1: create container a (attempt 0): it has not run yet
      30s p1: start container a (attempt 0)
      30s p2: create container a (attempt 0): it has not run yet
      30s report p1 Running, ready: a running
      30s p2: start container a (attempt 0)
      30s report p2 Running, ready: a running"
    `);
  },
);

test("a pod whose status the runtime does not tell says so by one event, and by another one when that happens again", async () => {
  const stage = await createStage({ isInCluster: true });
  const { runtime } = stage;
  const breakStatus = () => {
    runtime.before.containerStatus = () => {
      throw new CriError("UNKNOWN", "ContainerStatus", "the task is of another mind");
    };
  };
  const told = async () => (await stage.events("web")).filter((line) => line.includes("FailedSync"));
  const message = "error determining status: rpc error: code = Unknown desc = the task is of another mind";
  await stage.apply("web");
  await stage.start();
  await stage.advance("5s");
  expect(await told()).toEqual([]);
  breakStatus();
  await stage.exit("a", 1);
  await stage.advance("5m");
  expect(await told()).toEqual([`1x Warning FailedSync: ${message}`]);
  delete runtime.before.containerStatus;
  await stage.advance("5m");
  expect(await stage.shown()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  breakStatus();
  await stage.exit("a", 1);
  await stage.advance("1m");
  expect(await told()).toEqual([`2x Warning FailedSync: ${message}`]);
});
