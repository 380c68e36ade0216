import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { FilesError } from "../../host/fs/files.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { scenario, withoutStart } from "./scenario.ts";

scenario(
  "when a sandbox dies its containers are stopped and both are created again",
  {
    async run(harness) {
      await harness.setManifests(makePod("web", {}, ["a", "b"]));
      const [sandbox] = harness.runtime.sandboxes.keys();
      if (sandbox !== undefined) harness.runtime.exitSandbox(sandbox);
      await harness.advance("1s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating, b waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Pending: a running, b waiting ContainerCreating
      0s web: create container b (attempt 0): it has not run yet
      0s web: start container b (attempt 0)
      0s report web Running, ready: a running, b running
      0s web: stop container a within 30s: the pod's sandbox changed, it will be killed and re-created
      0s report web Running: a terminated Error 143, b terminated Error 143
      0s web: stop container b within 30s: the pod's sandbox changed, it will be killed and re-created
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
  "a pod whose start is interrupted by a crash of the runtime starts when it is back",
  {
    before: (harness) => {
      harness.runtime.before.createContainer = () => {
        delete harness.runtime.before.createContainer;
        harness.runtime.goDown();
        harness.clock.wakeAt(harness.clock.now() + 30_000, () => harness.runtime.comeBack());
      };
    },
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s the container runtime is away; pods keep running; reconnecting
      30s the container runtime is back
      30s web: create container a (attempt 0): it has not run yet
      30s web: start container a (attempt 0)
      30s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a pod is reported before the runtime has ever answered",
  {
    before: (harness) => harness.runtime.goDown(),
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("10s");
      harness.runtime.comeBack();
      await harness.advance("1s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s the container runtime is away; pods keep running; reconnecting
      2s report web Pending: no containers
      10s following the container runtime
      10s report web Pending: a waiting ContainerCreating
      10s web: create the pod's log directory
      10s web: run sandbox (attempt 0): the pod has none
      10s web: create the pod's directories
      10s web: create container a (attempt 0): it has not run yet
      10s web: start container a (attempt 0)
      10s report web Running, ready: a running"
    `);
  },
);

test("the node report shows since when and why the runtime is away, until it is back", async () => {
  const harness = await createHarness();
  const runtime = () => harness.agent.nodeSummary.report().runtime;
  harness.runtime.goDown();
  await harness.start();
  const since = new Date(harness.clock.now()).toISOString().replace(/\.\d+/, "");
  await harness.advance("90s");
  expect(runtime()).toEqual({ state: "away", since, message: "the runtime is down" });
  harness.runtime.comeBack();
  await harness.advance("1s");
  expect(runtime()).toEqual({ state: "ready" });
  harness.runtime.goDown();
  expect(runtime()).toMatchObject({ state: "away" });
  await harness.stop();
});

test("a pod that could not be observed reports the runtime's socket and the connection error", async () => {
  const harness = await createHarness();
  harness.runtime.goDown();
  await harness.start();
  await harness.setManifests(makePod("web"));
  await harness.advance("10s");
  expect(harness.podReports().map(({ status }) => status.message)).toEqual([
    "the pod's containers cannot be observed yet: the container runtime is away (reconnecting to /run/fake.sock): events: the runtime is down",
  ]);
  await harness.stop();
});

scenario(
  "a restarted agent reports no containers of a known pod while the runtime is away",
  {
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.stop();
      harness.runtime.goDown();
      await harness.start();
      await harness.advance("10s");
      harness.runtime.comeBack();
      await harness.advance("1s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      0s the container runtime is away; pods keep running; reconnecting
      2s report web Pending: no containers
      10s following the container runtime
      10s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a pod that was observed keeps its last status while the runtime is away",
  {
    async run(harness) {
      await harness.setManifests(makePod("web"));
      harness.runtime.goDown();
      await harness.setManifests(makePod("web"), makePod("other"));
      await harness.advance("10s");
      harness.runtime.comeBack();
      await harness.advance("1s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      0s the container runtime is away; pods keep running; reconnecting
      2s report other Pending: no containers
      10s the container runtime is back
      10s report other Pending: a waiting ContainerCreating
      10s other: create the pod's log directory
      10s other: run sandbox (attempt 0): the pod has none
      10s other: create the pod's directories
      10s other: create container a (attempt 0): it has not run yet
      10s other: start container a (attempt 0)
      10s report other Running, ready: a running"
    `);
  },
);

scenario(
  "a relist finds an exit whose event was lost",
  {
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("11s");
      harness.runtime.losesEvents = true;
      await harness.exit("a", 1);
      harness.runtime.losesEvents = false;
      await harness.advance("6m");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
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
  "a container that the runtime has lost is created again with the next attempt",
  {
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("11s");
      harness.runtime.loseContainer(harness.containerIdOf("a"));
      await harness.advance("6m");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
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
  "a container in the unknown state is stopped before the next instance is created",
  {
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("11s");
      harness.runtime.setUnknown(harness.containerIdOf("a"));
      await harness.advance("6m");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
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
  "a pod runs although its checkpoint cannot be written to a full disk, and it is written when there is space",
  {
    before: (harness) => {
      harness.disk.before = (verb, path) => {
        if (verb === "write" && path.startsWith("/root/berth"))
          throw new FilesError("ENOSPC", path, "the disk is full");
      };
    },
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("60s");
      harness.disk.before = () => {};
      await harness.advance("5s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s web: cannot save the pod's checkpoint yet; until it is saved, a restart of the agent would forget the pod
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      62s the pods' checkpoints are saved again"
    `);
  },
);

scenario(
  "an UNAVAILABLE call while events still arrive is retried with back-off and not reported as the pod's failure",
  {
    before: (harness) => {
      const error = () => new CriError("UNAVAILABLE", "RunPodSandbox", "the socket is gone");
      harness.runtime.failures.runPodSandbox = [error(), error(), error()];
    },
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: create the pod's directories
      7s web: run sandbox (attempt 0): the pod has none
      7s web: create container a (attempt 0): it has not run yet
      7s web: start container a (attempt 0)
      7s report web Running, ready: a running"
    `);
  },
);

scenario(
  "an image that another client adds later is found without an event",
  {
    async run(harness) {
      await harness.setManifests(
        makePod("web", { containers: [{ name: "a", image: "app:1", imagePullPolicy: "Never" }] }),
      );
      await harness.advance("90s");
      harness.runtime.addImage("app:1");
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ErrImageNeverPull
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      120s report web Pending: a waiting ContainerCreating
      120s web: create container a (attempt 0): it has not run yet
      120s web: start container a (attempt 0)
      120s report web Running, ready: a running"
    `);
  },
);

scenario(
  "an image that cannot be inspected is reported as ImageInspectError and inspected again",
  {
    before: (harness) => {
      harness.runtime.failures.imageStatus = [new CriError("UNKNOWN", "ImageStatus", "the store is broken")];
    },
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("70s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ImageInspectError
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a stop that succeeds without stopping the container is retried with back-off",
  {
    async run(harness) {
      await harness.setManifests(makePod("web"));
      const { stopContainer } = harness.runtime;
      harness.runtime.stopContainer = async () => {};
      await harness.setManifests();
      await harness.advance("3s");
      harness.runtime.stopContainer = stopContainer;
      await harness.advance("10s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      0s report web Running, ready, terminating: a running
      0s web: stop container a within 30s: its manifest is gone
      0s web: failed to stop container a within 30s: its manifest is gone: the runtime reported success, but nothing has changed
      1s web: stop container a within 29s: its manifest is gone
      1s web: failed to stop container a within 29s: its manifest is gone: the runtime reported success, but nothing has changed
      3s web: stop container a within 27s: its manifest is gone
      3s web: failed to stop container a within 27s: its manifest is gone: the runtime reported success, but nothing has changed
      7s web: stop container a within 23s: its manifest is gone
      7s report web Running, terminating: a terminated Error 143
      7s web: stop sandbox: its manifest is gone
      7s web: remove sandbox: its manifest is gone
      7s web: remove the pod's logs: its manifest is gone
      7s web: remove the pod's files: its manifest is gone
      7s report web Running, finished: a terminated Error 143"
    `);
  },
);

scenario(
  "a sandbox that keeps dying is created again with back-off, and only the last dead one is kept",
  {
    before: (harness) => {
      harness.runtime.after.runPodSandbox = () => {
        const newest = [...harness.runtime.sandboxes.keys()].at(-1);
        if (newest !== undefined && harness.clock.elapsedMs < 20_000) harness.runtime.exitSandbox(newest);
      };
    },
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: failed to create container a (attempt 0): it has not run yet: no running task found for sandbox "sandbox-1": not found
      0s report web Pending: a waiting CreateContainerError
      0s web: stop sandbox: the last one is not ready
      0s web: run sandbox (attempt 1): the last one is not ready
      0s web: remove sandbox: a newer one has taken its place
      0s web: stop sandbox: the last one is not ready
      1s web: run sandbox (attempt 2): the last one is not ready
      1s web: remove sandbox: a newer one has taken its place
      1s web: failed to create container a (attempt 0): it has not run yet: no running task found for sandbox "sandbox-3": not found
      1s web: stop sandbox: the last one is not ready
      3s web: run sandbox (attempt 3): the last one is not ready
      3s web: remove sandbox: a newer one has taken its place
      3s web: failed to create container a (attempt 0): it has not run yet: no running task found for sandbox "sandbox-4": not found
      3s web: stop sandbox: the last one is not ready
      7s web: run sandbox (attempt 4): the last one is not ready
      7s web: remove sandbox: a newer one has taken its place
      7s web: failed to create container a (attempt 0): it has not run yet: no running task found for sandbox "sandbox-5": not found
      7s web: stop sandbox: the last one is not ready
      15s web: run sandbox (attempt 5): the last one is not ready
      15s web: remove sandbox: a newer one has taken its place
      15s web: failed to create container a (attempt 0): it has not run yet: no running task found for sandbox "sandbox-6": not found
      15s web: stop sandbox: the last one is not ready
      31s web: run sandbox (attempt 6): the last one is not ready
      31s web: remove sandbox: a newer one has taken its place
      31s web: create container a (attempt 0): it has not run yet
      31s web: start container a (attempt 0)
      31s report web Running, ready: a running"
    `);
  },
);

/** The network namespace of a sandbox cannot be removed: neither its status nor, twice, its stop succeeds. */
function breakSandboxes({ runtime }: AgentHarness): void {
  const busy = (verb: string) => new CriError("UNKNOWN", verb, "remove netns: device or resource busy");
  runtime.before.podSandboxStatus = () => {
    throw busy("PodSandboxStatus");
  };
  const failTwice = [busy("StopPodSandbox"), busy("StopPodSandbox")];
  runtime.failures = { stopPodSandbox: [...failTwice], removePodSandbox: [...failTwice] };
}

scenario(
  "a sandbox that cannot be read is stopped and removed with its pod",
  {
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("1s");
      breakSandboxes(harness);
      await harness.setManifests();
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(withoutStart(log)).toMatchInlineSnapshot(`
      "1s report web Running, ready, terminating: a running
      1s web: stop container a within 30s: its manifest is gone
      1s report web Running, terminating: a terminated Error 143
      1s web: failed to stop sandbox: its manifest is gone: rpc error: code = Unknown desc = remove netns: device or resource busy
      2s web: failed to stop sandbox: its manifest is gone: rpc error: code = Unknown desc = remove netns: device or resource busy
      4s web: stop sandbox: its manifest is gone
      4s web: failed to remove sandbox: its manifest is gone: rpc error: code = Unknown desc = remove netns: device or resource busy
      4s web: remove container a: its manifest is gone
      5s web: failed to remove sandbox: its manifest is gone: rpc error: code = Unknown desc = remove netns: device or resource busy
      7s web: remove sandbox: its manifest is gone
      7s web: remove the pod's logs: its manifest is gone
      7s web: remove the pod's files: its manifest is gone
      7s report web Running, finished: a terminated Error 143"
    `);
  },
);

scenario(
  "a sandbox that cannot be read is stopped when its pod completes",
  {
    async run(harness) {
      await harness.setManifests(makePod("job", { restartPolicy: "Never" }));
      await harness.advance("1s");
      breakSandboxes(harness);
      await harness.exit("a", 0);
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(withoutStart(log)).toMatchInlineSnapshot(`
      "1s report job Succeeded, terminating: a terminated Completed 0
      1s job: failed to stop sandbox: all its containers are done: rpc error: code = Unknown desc = remove netns: device or resource busy
      2s job: failed to stop sandbox: all its containers are done: rpc error: code = Unknown desc = remove netns: device or resource busy
      4s job: stop sandbox: all its containers are done
      4s report job Succeeded, terminated: a terminated Completed 0"
    `);
  },
);

scenario(
  "a pod whose sandbox cannot be read runs on, and is synced when it can",
  {
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("1s");
      breakSandboxes(harness);
      await harness.stop();
      await harness.start();
      await harness.exit("a", 1);
      await harness.advance("20s");
      harness.runtime.before = {};
      harness.runtime.failures = {};
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(withoutStart(log)).toMatchInlineSnapshot(`
      "1s following the container runtime
      1s cannot sync the pod; retrying
      3s report web Pending: no containers
      31s report web Running: a terminated Error 1
      31s web: create the pod's log directory
      31s web: create the pod's directories
      31s web: create container a (attempt 1): it exited with code 1
      31s report web Running: a waiting ContainerCreating (restarts: 1)
      31s web: start container a (attempt 1)
      31s report web Running, ready: a running (restarts: 1)"
    `);
  },
);

/** The runtime lists the containers, but answers each request for a status with an error. */
function breakContainers({ runtime }: AgentHarness): void {
  runtime.before.containerStatus = () => {
    throw new CriError("UNKNOWN", "ContainerStatus", "failed to get image: blob not found");
  };
}

scenario(
  "a container that cannot be read is stopped and removed with its pod",
  {
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("1s");
      breakContainers(harness);
      await harness.setManifests();
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(withoutStart(log)).toMatchInlineSnapshot(`
      "1s report web Running, ready, terminating: a running
      1s web: stop container a within 30s: its manifest is gone
      1s cannot sync the pod; retrying
      7s report web Running, terminating: a terminated Error 143
      7s web: stop sandbox: its manifest is gone
      7s web: remove sandbox: its manifest is gone
      7s web: remove the pod's logs: its manifest is gone
      7s web: remove the pod's files: its manifest is gone
      7s report web Running, finished: a terminated Error 143"
    `);
  },
);

scenario(
  "a pod whose container cannot be read is not declared to have failed",
  {
    async run(harness) {
      await harness.setManifests(makePod("job", { restartPolicy: "Never" }));
      await harness.advance("1s");
      breakContainers(harness);
      await harness.exit("a", 0);
      await harness.advance("60s");
      harness.runtime.before = {};
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(withoutStart(log)).toMatchInlineSnapshot(`
      "1s cannot sync the pod; retrying
      91s report job Succeeded, terminating: a terminated Completed 0
      91s job: stop sandbox: all its containers are done
      91s report job Succeeded, terminated: a terminated Completed 0"
    `);
  },
);
