import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import type { RuntimeEvent } from "../../cri/runtime.ts";
import { ContainerConfig, ContainerState, PodSandboxConfig } from "../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../proto/ids.ts";
import { FakeClock, settlePromises } from "./clock.ts";
import { FakeRuntime, type FakeRuntimeOptions } from "./runtime.ts";

const image = "busybox:1";
const sandboxConfig = PodSandboxConfig.fromPartial({ metadata: { name: "web", uid: "u", namespace: "default" } });
const containerConfig = ContainerConfig.fromPartial({ metadata: { name: "a" }, image: { image } });

/** A fake with one running container; `reported` collects the events from then on. */
async function createFixture(options: Omit<FakeRuntimeOptions, "clock"> = {}) {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock, ...options });
  runtime.addImage(image);
  const sandbox = await runtime.runPodSandbox(sandboxConfig, "");
  const container = await runtime.createContainer(sandbox, containerConfig, sandboxConfig);
  await runtime.startContainer(container);
  const received: RuntimeEvent[] = [];
  const listener = new AbortController();
  void runtime.events((event) => received.push(event), listener.signal);
  received.length = 0;
  runtime.calls.length = 0;
  return { clock, runtime, sandbox, container, reported: received, listener };
}

const settled = <T>(call: Promise<T>) => {
  let state: string = "pending";
  call.then(
    () => {
      state = "done";
    },
    (error: unknown) => {
      state = error instanceof CriError ? error.code : "another error";
    },
  );
  return async () => {
    await settlePromises();
    return state;
  };
};

test("each injected failure fails one call, in order, without effect", async () => {
  const { runtime, container } = await createFixture();
  runtime.failures.stopContainer = [
    new CriError("INTERNAL", "StopContainer", "1"),
    new CriError("ABORTED", "StopContainer", "2"),
  ];
  for (const code of ["INTERNAL", "ABORTED"]) {
    expect(await settled(runtime.stopContainer(container, 1))()).toBe(code);
    expect((await runtime.containerStatus(container)).state).toBe(ContainerState.CONTAINER_RUNNING);
  }
  await runtime.stopContainer(container, 1);
  expect((await runtime.containerStatus(container)).exitCode).toBe(143);
});

test("a call that hangs has no effect until it is released", async () => {
  const { runtime, container } = await createFixture();
  const release = runtime.hang("removeContainer");
  const state = settled(runtime.removeContainer(container));
  expect(await state()).toBe("pending");
  expect(runtime.containers.has(container)).toBe(true);
  release();
  expect(await state()).toBe("done");
  expect(runtime.containers.has(container)).toBe(false);
});

test("a call that hangs ends at its deadline by the fake clock, and has no effect later", async () => {
  const { clock, runtime, sandbox } = await createFixture();
  const release = runtime.hang("createContainer");
  const other = ContainerConfig.fromPartial({ metadata: { name: "b" }, image: { image } });
  const state = settled(runtime.createContainer(sandbox, other, sandboxConfig));
  await clock.advance(119_999);
  expect(await state()).toBe("pending");
  await clock.advance(1);
  expect(await state()).toBe("DEADLINE_EXCEEDED");
  release();
  await settlePromises();
  expect(runtime.containers.size).toBe(1);
});

test("an `after` hook sees the effect of the call and can fail its answer", async () => {
  const { runtime, container } = await createFixture();
  runtime.after.removeContainer = () => {
    throw new CriError("UNAVAILABLE", "RemoveContainer", "died before the answer");
  };
  expect(await settled(runtime.removeContainer(container))()).toBe("UNAVAILABLE");
  expect(runtime.containers.size).toBe(0);
});

test("a program exits after its time with its exit code", async () => {
  const { clock, runtime, sandbox, reported: received } = await createFixture();
  runtime.programs.set("job", { exitsAfterMs: 2_000, exitCode: 4 });
  const config = ContainerConfig.fromPartial({ metadata: { name: "job" }, image: { image } });
  const job = await runtime.createContainer(sandbox, config, sandboxConfig);
  await runtime.startContainer(job);
  await clock.advance(1_999);
  expect((await runtime.containerStatus(job)).state).toBe(ContainerState.CONTAINER_RUNNING);
  await clock.advance(1);
  expect(await runtime.containerStatus(job)).toMatchObject({ exitCode: 4, reason: "Error" });
  expect(received.at(-1)).toMatchObject({ change: "stopped", containerId: job, exit: { exitCode: 4 } });
});

/** The events and the state of an exit, at each millisecond at which something changes. */
async function courseOfExit(source: "containerd-events" | "cri-events") {
  const { clock, runtime, container, reported } = await createFixture({ source, exitLagMs: () => 40 });
  const course: string[] = [];
  const record = async () => {
    const { state, exitCode } = await runtime.containerStatus(container);
    const events = reported
      .splice(0)
      .map((event) => (event.kind === "container" ? `${event.change} ${event.exit?.exitCode ?? "?"}` : event.kind));
    const shown = state === ContainerState.CONTAINER_RUNNING ? "running" : `exited ${exitCode}`;
    course.push([`${clock.elapsedMs} ms`, ...events, shown].join(", "));
  };
  runtime.exit(container, 3);
  await record();
  const stop = settled(runtime.stopContainer(container, 10));
  for (const ms of [20, 19, 1]) {
    await clock.advance(ms);
    await record();
    course.push(await stop());
  }
  return course;
}

test("containerd's own events precede the status that shows an exit; a stop waits for it", async () => {
  expect(await courseOfExit("containerd-events")).toEqual([
    "0 ms, stopped 3, running",
    "20 ms, stopped ?, running",
    "pending",
    "39 ms, running",
    "pending",
    "40 ms, exited 3",
    "done",
  ]);
});

test("a CRI event arrives with the status that shows the exit", async () => {
  expect((await courseOfExit("cri-events")).filter((line) => line.includes("stopped"))).toEqual([
    "40 ms, stopped ?, exited 3",
  ]);
});

test("a stop that begins after the runtime has deleted the task returns before the status shows the exit", async () => {
  const { clock, runtime, container } = await createFixture({ exitLagMs: () => 40 });
  runtime.exit(container, 3);
  await clock.advance(20);
  expect(await settled(runtime.stopContainer(container, 10))()).toBe("done");
  expect((await runtime.containerStatus(container)).state).toBe(ContainerState.CONTAINER_RUNNING);
  expect(await settled(runtime.removeContainer(container))()).toBe("UNKNOWN");
  await clock.advance(20);
  expect(await runtime.containerStatus(container)).toMatchObject({ exitCode: 3 });
  expect(await settled(runtime.removeContainer(container))()).toBe("done");
});

test("a container whose exit is not shown yet executes nothing, and a runtime that comes back shows the exit", async () => {
  const { runtime, container } = await createFixture({ exitLagMs: () => 40 });
  runtime.exit(container, 3);
  expect(await settled(runtime.execSync(container, ["true"], 1))()).toBe("UNKNOWN");
  runtime.restart();
  expect(await runtime.containerStatus(container)).toMatchObject({ exitCode: 3 });
});

test("a lost container disappears without an event", async () => {
  const { runtime, container, reported: received } = await createFixture();
  runtime.loseContainer(container);
  expect(received).toEqual([]);
  expect(await settled(runtime.containerStatus(container))()).toBe("NOT_FOUND");
});

test("a container still changes while events are lost", async () => {
  const { runtime, container, reported: received } = await createFixture();
  runtime.losesEvents = true;
  runtime.exit(container, 1);
  expect(received).toEqual([]);
  expect((await runtime.containerStatus(container)).exitCode).toBe(1);
});

test("a runtime that is down fails every call, also those in progress; its containers keep running", async () => {
  const { runtime, container, reported: received } = await createFixture();
  runtime.hang("status");
  const pending = settled(runtime.status());
  runtime.goDown();
  expect(await pending()).toBe("UNAVAILABLE");
  expect(await settled(runtime.version())()).toBe("UNAVAILABLE");
  runtime.comeBack();
  expect((await runtime.containerStatus(container)).state).toBe(ContainerState.CONTAINER_RUNNING);
  expect(received.map(({ kind }) => kind)).toEqual(["disconnected", "connected"]);
});

test("`calls` lists every call in order, `timeline` every change", async () => {
  const { runtime, sandbox, container } = await createFixture();
  await runtime.stopContainer(container, 30);
  await runtime.removePodSandbox(sandbox);
  expect(runtime.calls).toEqual(["stopContainer default/web/a #0 within 30s", `removePodSandbox ${sandbox}`]);
  expect(runtime.timeline.map(({ kind, change, role }) => `${kind} ${role} ${change}`)).toEqual([
    "sandbox u created",
    "sandbox u started",
    "container u/a created",
    "container u/a started",
    "container u/a stopped",
    "sandbox u stopped",
    "container u/a deleted",
    "sandbox u deleted",
  ]);
});

test("an image is pulled only from a registry that has it", async () => {
  const { runtime } = await createFixture();
  expect(await settled(runtime.pullImage("web:1", undefined, undefined))()).toBe("UNKNOWN");
  runtime.registry.set("web:1", new CriError("UNAVAILABLE", "PullImage", "the registry is down"));
  expect(await settled(runtime.pullImage("web:1", undefined, undefined))()).toBe("UNAVAILABLE");
  runtime.registry.set("web:1", undefined);
  const imageRef = await runtime.pullImage("web:1", undefined, undefined);
  expect((await runtime.imageStatus("web:1"))?.id).toBe(imageRef);
  await runtime.removeImage("web:1");
  expect(await runtime.imageStatus("web:1")).toBeUndefined();
});

test("sandboxes and containers of other clients are listed like all others", async () => {
  const { runtime } = await createFixture();
  const foreign = runtime.addForeignSandbox(PodSandboxConfig.fromPartial({ metadata: { name: "x", uid: "y" } }));
  const container = runtime.addForeignContainer(foreign, ContainerConfig.fromPartial({ metadata: { name: "z" } }));
  const listed: { sandboxes: string[]; containers: string[] } = {
    sandboxes: (await runtime.listPodSandbox({ id: foreign as SandboxId })).map(({ id }) => id),
    containers: (await runtime.listContainers({ id: container as ContainerId })).map(({ id }) => id),
  };
  expect(listed).toEqual({ sandboxes: [foreign], containers: [container] });
});
