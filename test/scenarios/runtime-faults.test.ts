import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { FilesError } from "../../host/fs/files.ts";
import { createStage, makePod } from "./harness.ts";
import { scenario } from "./scenario.ts";

scenario(
  "a sandbox that dies takes its containers along, and both are made anew",
  {
    async run(stage) {
      await stage.offer(makePod("web", {}, ["a", "b"]));
      const [sandbox] = stage.runtime.sandboxes.keys();
      if (sandbox !== undefined) stage.runtime.exitSandbox(sandbox);
      await stage.advance("1s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating, b waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Pending: a running, b waiting ContainerCreating
      0s web: create container b (attempt 0): it has not run yet
      0s web: start container b (attempt 0)
      0s report web Running, ready: a running, b running
      0s web: stop container a within 30s: the pod's sandbox changed, it will be killed and re-created
      0s web: stop container b within 30s: the pod's sandbox changed, it will be killed and re-created
      0s report web Running: a terminated Error 143, b terminated Error 143
      0s web: stop sandbox: the last one is not ready
      0s web: run sandbox (attempt 1): the last one is not ready
      0s web: create container a (attempt 1): it exited with code 143
      0s report web Running: a waiting ContainerCreating (restarts: 1), b terminated Error 143
      0s web: start container a (attempt 1)
      0s report web Running: a running (restarts: 1), b terminated Error 143
      0s web: create container b (attempt 1): it exited with code 143
      0s report web Running: a running (restarts: 1), b waiting ContainerCreating (restarts: 1)
      0s web: start container b (attempt 1)
      0s report web Running, ready: a running (restarts: 1), b running (restarts: 1)"
    `);
  },
);

scenario(
  "the runtime dies in the middle of a start; the pod starts when it is back",
  {
    before: (stage) => {
      stage.runtime.before.createContainer = () => {
        delete stage.runtime.before.createContainer;
        stage.runtime.goDown();
        stage.clock.wakeAt(stage.clock.now() + 30_000, () => stage.runtime.comeBack());
      };
    },
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s the container runtime is away; pods keep running, and it is waited for
      30s the container runtime is back
      30s web: create container a (attempt 0): it has not run yet
      30s web: start container a (attempt 0)
      30s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a pod is shown before the runtime has ever answered",
  {
    before: (stage) => stage.runtime.goDown(),
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("10s");
      stage.runtime.comeBack();
      await stage.advance("1s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s the container runtime is away; pods keep running, and it is waited for
      2s report web Pending: no containers
      10s following the container runtime
      10s report web Pending: a waiting ContainerCreating
      10s web: prepare volumes
      10s web: run sandbox (attempt 0): the pod has none
      10s web: create container a (attempt 0): it has not run yet
      10s web: start container a (attempt 0)
      10s report web Running, ready: a running"
    `);
  },
);

test("whoever asks is told that the runtime is away, since when, and how, until it is back", async () => {
  const stage = await createStage();
  const runtime = () => stage.agent.node.report().runtime;
  stage.runtime.goDown();
  await stage.start();
  const since = new Date(stage.clock.now()).toISOString().replace(/\.\d+/, "");
  await stage.advance("90s");
  expect(runtime()).toEqual({ state: "away", since, message: "the runtime is down" });
  stage.runtime.comeBack();
  await stage.advance("1s");
  expect(runtime()).toEqual({ state: "ready" });
  stage.runtime.goDown();
  expect(runtime()).toMatchObject({ state: "away" });
  await stage.stop();
});

test("a pod that nobody could look at says where the runtime is waited for, and how it is away", async () => {
  const stage = await createStage();
  stage.runtime.goDown();
  await stage.start();
  await stage.offer(makePod("web"));
  await stage.advance("10s");
  expect(stage.pods().map(({ status }) => status.message)).toEqual([
    "what of the pod runs is not known yet: the container runtime is away, and waited for at /run/fake.sock: events: the runtime is down",
  ]);
  await stage.stop();
});

scenario(
  "of a pod that ran before the agent was restarted nothing is claimed while the runtime is away",
  {
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.stop();
      stage.runtime.goDown();
      await stage.start();
      await stage.advance("10s");
      stage.runtime.comeBack();
      await stage.advance("1s");
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
      0s the container runtime is away; pods keep running, and it is waited for
      2s report web Pending: no containers
      10s following the container runtime
      10s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a pod that was seen keeps its last status while the runtime is away",
  {
    async run(stage) {
      await stage.offer(makePod("web"));
      stage.runtime.goDown();
      await stage.offer(makePod("web"), makePod("other"));
      await stage.advance("10s");
      stage.runtime.comeBack();
      await stage.advance("1s");
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
      0s the container runtime is away; pods keep running, and it is waited for
      2s report other Pending: no containers
      10s the container runtime is back
      10s report other Pending: a waiting ContainerCreating
      10s other: prepare volumes
      10s other: run sandbox (attempt 0): the pod has none
      10s other: create container a (attempt 0): it has not run yet
      10s other: start container a (attempt 0)
      10s report other Running, ready: a running"
    `);
  },
);

scenario(
  "an exit whose event is lost is found by the audit",
  {
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("11s");
      stage.runtime.losesEvents = true;
      await stage.exit("a", 1);
      stage.runtime.losesEvents = false;
      await stage.advance("6m");
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
      310s report web Running: a terminated Error 1
      310s web: create container a (attempt 1): it exited with code 1
      310s report web Running: a waiting ContainerCreating (restarts: 1)
      310s web: start container a (attempt 1)
      310s report web Running, ready: a running (restarts: 1)"
    `);
  },
);

scenario(
  "a container that the runtime loses is made anew under the next number",
  {
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("11s");
      stage.runtime.loseContainer(stage.idOf("a"));
      await stage.advance("6m");
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
      310s report web Running: a terminated ContainerStatusUnknown 137
      310s web: create container a (attempt 1): it exited with code 137
      310s report web Running: a waiting ContainerCreating (restarts: 1)
      310s web: start container a (attempt 1)
      310s report web Running, ready: a running (restarts: 1)"
    `);
  },
);

scenario(
  "a container of unknown state is stopped before another one takes its place",
  {
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("11s");
      stage.runtime.loseTrack(stage.idOf("a"));
      await stage.advance("6m");
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
      310s report web Running: a terminated ContainerStatusUnknown 137
      310s web: stop container a within 30s: its state is unknown
      310s report web Running: a terminated Error 137
      310s web: create container a (attempt 1): it exited with code 137
      310s report web Running: a waiting ContainerCreating (restarts: 1)
      310s web: start container a (attempt 1)
      310s report web Running, ready: a running (restarts: 1)"
    `);
  },
);

scenario(
  "a full disk keeps no pod from running",
  {
    before: (stage) => {
      stage.disk.before = (verb, path) => {
        if (verb === "write" && path.startsWith("/root/berth"))
          throw new FilesError("ENOSPC", path, "the disk is full");
      };
    },
    run: (stage) => stage.offer(makePod("web")),
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s web: the pod cannot be recorded; a restart would forget it
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a verb that is unavailable while events flow is tried again with growing delays, and blamed on nobody",
  {
    before: (stage) => {
      const error = () => new CriError("UNAVAILABLE", "RunPodSandbox", "the socket is gone");
      stage.runtime.failures.runPodSandbox = [error(), error(), error()];
    },
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      7s web: run sandbox (attempt 0): the pod has none
      7s web: create container a (attempt 0): it has not run yet
      7s web: start container a (attempt 0)
      7s report web Running, ready: a running"
    `);
  },
);

scenario(
  "an image that somebody brings later is found, although nobody tells",
  {
    async run(stage) {
      await stage.offer(makePod("web", { containers: [{ name: "a", image: "app:1", imagePullPolicy: "Never" }] }));
      await stage.advance("90s");
      stage.runtime.addImage("app:1");
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ErrImageNeverPull
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      120s report web Pending: a waiting ContainerCreating
      120s web: create container a (attempt 0): it has not run yet
      120s web: start container a (attempt 0)
      120s report web Running, ready: a running"
    `);
  },
);

scenario(
  "an image that cannot be inspected is named, and asked for again",
  {
    before: (stage) => {
      stage.runtime.failures.imageStatus = [new CriError("UNKNOWN", "ImageStatus", "the store is broken")];
    },
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("70s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ImageInspectError
      0s web: prepare volumes
      0s report web Pending: a waiting ContainerCreating
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a runtime that only says that it stopped a container is asked again, not at once",
  {
    async run(stage) {
      await stage.offer(makePod("web"));
      const { stopContainer } = stage.runtime;
      stage.runtime.stopContainer = async () => {};
      await stage.offer();
      await stage.advance("3s");
      stage.runtime.stopContainer = stopContainer;
      await stage.advance("10s");
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
      0s report web Running, ready, terminating: a running
      0s web: stop container a within 30s: its manifest is gone
      0s web: failed to stop container a within 30s: its manifest is gone: it was reported as done, but nothing has changed
      1s web: stop container a within 29s: its manifest is gone
      1s web: failed to stop container a within 29s: its manifest is gone: it was reported as done, but nothing has changed
      3s web: stop container a within 27s: its manifest is gone
      3s web: failed to stop container a within 27s: its manifest is gone: it was reported as done, but nothing has changed
      7s web: stop container a within 23s: its manifest is gone
      7s report web Running, terminating: a terminated Error 143
      7s web: stop sandbox: its manifest is gone
      7s web: remove sandbox: its manifest is gone
      7s web: remove the pod's files: its manifest is gone
      7s report web Running, finished: a terminated Error 143"
    `);
  },
);

scenario(
  "a sandbox that never lasts is made with growing delays, and leaves one behind",
  {
    before: (stage) => {
      stage.runtime.after.runPodSandbox = () => {
        const newest = [...stage.runtime.sandboxes.keys()].at(-1);
        if (newest !== undefined && stage.clock.elapsedMs < 20_000) stage.runtime.exitSandbox(newest);
      };
    },
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s web: stop sandbox: the last one is not ready
      0s web: run sandbox (attempt 1): the last one is not ready
      0s web: stop sandbox: the last one is not ready
      0s web: remove sandbox: a newer one has taken its place
      1s web: run sandbox (attempt 2): the last one is not ready
      1s web: stop sandbox: the last one is not ready
      1s web: remove sandbox: a newer one has taken its place
      3s web: run sandbox (attempt 3): the last one is not ready
      3s web: stop sandbox: the last one is not ready
      3s web: remove sandbox: a newer one has taken its place
      7s web: run sandbox (attempt 4): the last one is not ready
      7s web: stop sandbox: the last one is not ready
      7s web: remove sandbox: a newer one has taken its place
      15s web: run sandbox (attempt 5): the last one is not ready
      15s web: stop sandbox: the last one is not ready
      15s web: remove sandbox: a newer one has taken its place
      31s web: run sandbox (attempt 6): the last one is not ready
      31s web: remove sandbox: a newer one has taken its place
      31s web: create container a (attempt 0): it has not run yet
      31s web: start container a (attempt 0)
      31s report web Running, ready: a running"
    `);
  },
);
