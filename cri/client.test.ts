import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status as grpcStatus } from "@grpc/grpc-js";
import { createClock } from "../host/clock.ts";
import type { Log } from "../host/log.ts";
import {
  AuthConfig,
  ContainerConfig,
  ImageSpec,
  ListContainersRequest,
  ListContainersResponse,
  PodSandboxConfig,
  PullImageRequest,
  PullImageResponse,
  RunPodSandboxResponse,
  StopContainerRequest,
  VersionResponse,
} from "../proto/cri/gen/api.ts";
import { DeleteContainerRequest } from "../proto/cri/gen/containerd-containers.ts";
import { DeleteTaskRequest } from "../proto/cri/gen/containerd-tasks.ts";
import type { ContainerId, PodUid, SandboxId } from "../proto/ids.ts";
import { startCriServer, type UnaryAnswer } from "../test/fakes/cri-server.ts";
import { FakeLog } from "../test/fakes/log.ts";
import { type CriRuntime, createRuntime } from "./client.ts";
import type { CriError } from "./error.ts";

interface Codec<T> {
  fromPartial(partial: object): T;
  encode(message: T): { finish(): Uint8Array };
}
const bytesOf = <T>(codec: Codec<T>, partial: object = {}) =>
  Buffer.from(codec.encode(codec.fromPartial(partial)).finish());
const runtimePath = (verb: string) => `/runtime.v1.RuntimeService/${verb}`;
const imagePath = (verb: string) => `/runtime.v1.ImageService/${verb}`;
const always =
  (bytes: Buffer): UnaryAnswer =>
  (_, answer) =>
    answer(null, bytes);
const version = always(bytesOf(VersionResponse, { runtimeApiVersion: "v1", runtimeName: "test", runtimeVersion: "3" }));
const failureOf = (call: Promise<unknown>): Promise<CriError> =>
  call.then(
    () => Promise.reject(new Error("the call succeeded")),
    (error: CriError) => error,
  );

let folder: string;
let runtime: CriRuntime;
let lines: string[];
const cleanUps: (() => unknown)[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-cri-"));
  lines = [];
});
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
  await rm(folder, { recursive: true });
});

/** Starts a server with these answers and a client to it. */
async function connect(unary: Readonly<Record<string, UnaryAnswer>>, images?: typeof unary): Promise<CriRuntime> {
  const socket = join(folder, "cri.sock");
  const server = await startCriServer(socket, unary);
  cleanUps.push(() => server.kill());
  const imageSocket = join(folder, "images.sock");
  if (images !== undefined) {
    const imageServer = await startCriServer(imageSocket, images);
    cleanUps.push(() => imageServer.kill());
  }
  const write = (fields: object, message: string) => void lines.push(JSON.stringify({ ...fields, message }));
  const log: Log = { debug: write, info: write, warn: write, error: write, child: () => log };
  runtime = createRuntime({
    endpoint: `unix://${socket}`,
    ...(images === undefined ? {} : { imageEndpoint: `unix://${imageSocket}` }),
    requestTimeoutMs: 120_000,
    clock: createClock(),
    log,
    random: () => 0.5,
  });
  cleanUps.push(() => runtime.close());
  return runtime;
}

describe("deadlines", () => {
  /** Until when the server is told that it has time, as a time of the machine's clock. */
  const told = (at: number[], bytes: Buffer): UnaryAnswer => {
    return (call, answer) => {
      const deadline = call.getDeadline();
      at.push(Number(deadline));
      answer(null, bytes);
    };
  };
  const rows: readonly [string, string, (r: CriRuntime) => Promise<unknown>, number][] = [
    ["most verbs have the request timeout", runtimePath("ListContainers"), (r) => r.listContainers({}), 120_000],
    [
      "RunPodSandbox has twice that",
      runtimePath("RunPodSandbox"),
      (r) => r.runPodSandbox(PodSandboxConfig.fromPartial({}), ""),
      240_000,
    ],
    [
      "StopContainer has the grace period more",
      runtimePath("StopContainer"),
      (r) => r.stopContainer("c" as ContainerId, 30),
      150_000,
    ],
    ["PullImage has none", imagePath("PullImage"), (r) => r.pullImage("i", undefined, undefined), Infinity],
    [
      "the caller's own comes first",
      imagePath("ImageStatus"),
      (r) => r.imageStatus("i", { deadlineMs: 60_000 }),
      60_000,
    ],
  ];
  for (const [name, path, act, expected] of rows)
    test(name, async () => {
      const at: number[] = [];
      const runtime = await connect({ [path]: told(at, Buffer.alloc(0)) });
      const before = Date.now();
      await act(runtime);
      const [deadline = 0] = at;
      if (!Number.isFinite(expected)) return expect(deadline).toBe(expected);
      // The server counts from when it hears of it; the clocks of a call and of this test may differ by a little.
      expect(deadline).toBeGreaterThanOrEqual(before + expected - 50);
      expect(deadline).toBeLessThanOrEqual(Date.now() + expected + 50);
    });

  test("a runtime that says nothing is DEADLINE_EXCEEDED", async () => {
    const { version } = await connect({ [runtimePath("Version")]: () => {} });
    expect(await failureOf(version({ deadlineMs: 50 }))).toMatchObject({ code: "DEADLINE_EXCEEDED", verb: "Version" });
  });
});

test("a call that is given up is CANCELLED, and the runtime sees it", async () => {
  const [arrived, seen] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { pullImage } = await connect({
    [imagePath("PullImage")]: (call) => {
      call.on("cancelled", () => seen.resolve());
      arrived.resolve();
    },
  });
  const caller = new AbortController();
  const failure = failureOf(pullImage("i", undefined, undefined, { signal: caller.signal }));
  await arrived.promise;
  caller.abort();
  expect(await failure).toMatchObject({ code: "CANCELLED", verb: "PullImage" });
  await seen.promise;
});

describe("a container that cannot be removed because a start that was cut short has left its task", () => {
  const refused: UnaryAnswer = (_, answer) =>
    answer({ code: grpcStatus.FAILED_PRECONDITION, details: "cannot delete running task" });
  const tasks = "/containerd.services.tasks.v1.Tasks/Delete";

  test("is removed once containerd's own task service has taken the task away", async () => {
    const told: string[] = [];
    let isLeft = true;
    const { removeContainer } = await connect({
      [runtimePath("RemoveContainer")]: (call, answer) =>
        isLeft ? refused(call, answer) : answer(null, Buffer.alloc(0)),
      [tasks](call, answer) {
        told.push(
          `${String(call.metadata.get("containerd-namespace"))} ${bytesOf(DeleteTaskRequest, { containerId: "c" }).equals(call.request)}`,
        );
        isLeft = false;
        answer(null, Buffer.alloc(0));
      },
    });
    await removeContainer("c" as ContainerId);
    expect(told).toEqual(["k8s.io true"]);
  });

  test("is refused in the runtime's words where there is no such service, or it refuses too", async () => {
    for (const unary of [{}, { [tasks]: refused }]) {
      const { removeContainer } = await connect({ [runtimePath("RemoveContainer")]: refused, ...unary });
      const failure = await failureOf(removeContainer("c" as ContainerId));
      expect(failure).toMatchObject({ code: "FAILED_PRECONDITION", verb: "RemoveContainer" });
      for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
    }
  });
});

describe("a sandbox whose run was cut short", () => {
  /** containerd as it is then: CRI removes the sandbox without a word of the task and the container behind it. */
  async function connectToContainerd(left: readonly ("task" | "container")[]) {
    const there = new Set<string>(["sandbox", ...left]);
    const answers =
      (what: string, request: Buffer): UnaryAnswer =>
      (call, answer) => {
        const isRight = call.request.equals(request) && String(call.metadata.get("containerd-namespace")) === "k8s.io";
        if (isRight && there.delete(what)) answer(null, Buffer.alloc(0));
        else answer({ code: grpcStatus.NOT_FOUND, details: "gone" });
      };
    const { removePodSandbox } = await connect({
      [runtimePath("RemovePodSandbox")](_, answer) {
        there.delete("sandbox");
        answer(null, Buffer.alloc(0));
      },
      "/containerd.services.tasks.v1.Tasks/Delete": answers("task", bytesOf(DeleteTaskRequest, { containerId: "s" })),
      "/containerd.services.containers.v1.Containers/Delete": answers(
        "container",
        bytesOf(DeleteContainerRequest, { id: "s" }),
      ),
    });
    return { remove: () => removePodSandbox("s" as SandboxId), there };
  }

  for (const left of [["task", "container"], ["task"], ["container"], []] as const)
    test(`is removed with ${left.join(" and ") || "nothing more, when nothing more is left"}`, async () => {
      const { remove, there } = await connectToContainerd(left);
      await remove();
      expect([...there]).toEqual([]);
    });

  test("is told from one that was made whole, of which nothing more is asked", async () => {
    const { runPodSandbox, removePodSandbox, metrics } = await connect({
      [runtimePath("RunPodSandbox")]: (_, answer) =>
        answer(null, bytesOf(RunPodSandboxResponse, { podSandboxId: "s" })),
      [runtimePath("RemovePodSandbox")]: (_, answer) => answer(null, Buffer.alloc(0)),
    });
    const id = await runPodSandbox(PodSandboxConfig.fromPartial({}), "");
    await removePodSandbox(id);
    expect(metrics()["Delete"]).toBeUndefined();
    await removePodSandbox(id);
    expect(metrics()["Delete"]?.count).toBe(2);
  });

  test("keeps its task while it runs, and where there is no such service; it is removed all the same", async () => {
    const refused: UnaryAnswer = (_, answer) => answer({ code: grpcStatus.FAILED_PRECONDITION, details: "it runs" });
    for (const unary of [{}, { "/containerd.services.tasks.v1.Tasks/Delete": refused }]) {
      let removed = 0;
      const { removePodSandbox, metrics } = await connect({
        [runtimePath("RemovePodSandbox")](_, answer) {
          removed++;
          answer(null, Buffer.alloc(0));
        },
        ...unary,
      });
      await removePodSandbox("s" as SandboxId);
      expect(removed).toBe(1);
      expect(metrics()["Delete"]?.count).toBe(2);
      for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
    }
  });
});

test("a refusal has the runtime's code and words, and gRPC's error as its cause", async () => {
  const { startContainer } = await connect({
    [runtimePath("StartContainer")]: (_, answer) =>
      answer({ code: grpcStatus.FAILED_PRECONDITION, details: "not yet ✗" }),
  });
  const error = await failureOf(startContainer("c" as ContainerId));
  expect(error).toMatchObject({ name: "CriError", code: "FAILED_PRECONDITION", message: "StartContainer: not yet ✗" });
  expect(error.cause).toBeInstanceOf(Error);
});

test("a socket that nobody listens on is told in the kernel's words, with its path", async () => {
  const { version, close } = createRuntime({
    endpoint: "unix:///nowhere/cri.sock",
    requestTimeoutMs: 1_000,
    clock: createClock(),
    log: new FakeLog(),
    random: () => 0.5,
  });
  const error = await failureOf(version());
  close();
  expect(error).toMatchObject({ code: "UNAVAILABLE", message: "Version: connect ENOENT /nowhere/cri.sock" });
});

test("a status code that gRPC does not have is UNKNOWN", async () => {
  const { status } = await connect({
    [runtimePath("Status")]: (_, answer) => answer({ code: 77 as grpcStatus, details: "?" }),
  });
  expect(await failureOf(status())).toMatchObject({ code: "UNKNOWN" });
});

test("a grace of all the seconds there are is one that a runtime can count", async () => {
  const asked: bigint[] = [];
  const { stopContainer } = await connect({
    [runtimePath("StopContainer")]: (call, answer) => {
      asked.push(StopContainerRequest.decode(call.request).timeout);
      answer(null, Buffer.alloc(0));
    },
  });
  await stopContainer("c" as ContainerId, Number(2n ** 63n));
  expect(asked).toEqual([2n ** 31n - 1n]);
});

test("stopping and removing what is absent succeeds", async () => {
  const notFound: UnaryAnswer = (_, answer) => answer({ code: grpcStatus.NOT_FOUND, details: "gone" });
  const verbs = ["StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"];
  const paths = [...verbs.map(runtimePath), imagePath("RemoveImage")];
  const r = await connect(Object.fromEntries(paths.map((path) => [path, notFound])));
  await r.stopContainer("c" as ContainerId, 0);
  await r.removeContainer("c" as ContainerId);
  await r.removeImage("i");
  expect(r.metrics()["StopContainer"]?.errors).toEqual({ NOT_FOUND: 1 });
});

test("a runtime of another CRI version is refused by name", async () => {
  const bytes = bytesOf(VersionResponse, {
    runtimeName: "old",
    runtimeVersion: "1.0",
    runtimeApiVersion: "v1alpha2",
  });
  const { version } = await connect({ [runtimePath("Version")]: always(bytes) });
  const error = await failureOf(version());
  expect(error).toMatchObject({ code: "UNIMPLEMENTED" });
  expect(error.message).toBe('Version: old 1.0 speaks CRI "v1alpha2", but v1 is needed');
});

test("states and fields of a newer runtime are kept or passed over", async () => {
  // id "x", state 9, and field 900 with the bytes "new".
  const container = [0x0a, 1, 0x78, 0x30, 9, 0xa2, 0x38, 3, 0x6e, 0x65, 0x77];
  const bytes = Buffer.from([0x0a, container.length, ...container, 0x98, 0x38, 1]);
  const { listContainers } = await connect({ [runtimePath("ListContainers")]: always(bytes) });
  const [only, ...rest] = await listContainers({});
  expect(rest).toEqual([]);
  expect(only?.id).toBe("x");
  expect(Number(only?.state)).toBe(9);
});

test("an answer that is no message is INTERNAL", async () => {
  const { status } = await connect({ [runtimePath("Status")]: always(Buffer.from([0x0a, 0xff, 0xff, 0xff])) });
  expect(await failureOf(status())).toMatchObject({ code: "INTERNAL", verb: "Status" });
});

test("an answer of nearly 16 MiB arrives, a larger one is RESOURCE_EXHAUSTED", async () => {
  const containers = (count: number) =>
    bytesOf(ListContainersResponse, { containers: Array.from({ length: count }, () => ({ id: "x".repeat(100_000) })) });
  let bytes = containers(160);
  const { listContainers } = await connect({ [runtimePath("ListContainers")]: (_, answer) => answer(null, bytes) });
  expect(await listContainers({})).toHaveLength(160);
  bytes = containers(170);
  expect(await failureOf(listContainers({}))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
});

test("lists ask the runtime for one pod's alone", async () => {
  const asked: ListContainersRequest[] = [];
  const { listContainers } = await connect({
    [runtimePath("ListContainers")]: (call, answer) => {
      asked.push(ListContainersRequest.decode(call.request));
      answer(null, Buffer.alloc(0));
    },
  });
  await listContainers({ podUid: "u-1" as PodUid });
  expect(asked[0]?.filter).toMatchObject({ id: "", labelSelector: { "io.kubernetes.pod.uid": "u-1" } });
});

test("images may live behind another socket", async () => {
  const images = { [imagePath("PullImage")]: always(bytesOf(PullImageResponse, { imageRef: "sha256:1" })) };
  const r = await connect({ [runtimePath("Version")]: version }, images);
  expect(await r.pullImage("i", undefined, undefined)).toBe("sha256:1" as never);
  expect((await r.version()).runtimeName).toBe("test");
  expect(Object.keys(r.metrics()).sort()).toEqual(["PullImage", "Version"]);
});

test("a pull carries the annotations of the pod that it is for", async () => {
  const asked: PullImageRequest[] = [];
  const { pullImage } = await connect({
    [imagePath("PullImage")]: (call, answer) => {
      asked.push(PullImageRequest.decode(call.request));
      answer(null, Buffer.alloc(0));
    },
  });
  await pullImage("i", undefined, undefined, { annotations: { "example.com/lazy": "yes" } });
  await pullImage("i", undefined, undefined);
  expect(asked.map(({ image }) => image?.annotations)).toEqual([{ "example.com/lazy": "yes" }, {}]);
});

test("the log has verb, code and time of each call, and nothing of what was said", async () => {
  const r = await connect({
    [runtimePath("RunPodSandbox")]: always(bytesOf(RunPodSandboxResponse, { podSandboxId: "s" })),
    [runtimePath("CreateContainer")]: (_, answer) => answer({ code: grpcStatus.INTERNAL, details: "no" }),
    [imagePath("PullImage")]: always(Buffer.alloc(0)),
  });
  const sandboxConfig = PodSandboxConfig.fromPartial({ annotations: { token: "s3cret-annotation" } });
  const sandbox = await r.runPodSandbox(sandboxConfig, "");
  const envs = [{ key: "PASSWORD", value: Buffer.from("s3cret-env") }];
  const config = ContainerConfig.fromPartial({ envs, image: ImageSpec.fromPartial({ image: "i" }) });
  await failureOf(r.createContainer(sandbox, config, sandboxConfig));
  await r.pullImage("i", AuthConfig.fromPartial({ username: "s3cret-user", password: "s3cret-password" }), undefined);
  const time = expect.any(Number);
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { verb: "RunPodSandbox", code: "OK", durationMs: time, message: "runtime call" },
    { verb: "CreateContainer", code: "INTERNAL", durationMs: time, message: "runtime call" },
    { verb: "PullImage", code: "OK", durationMs: time, message: "runtime call" },
  ]);
  expect(lines.join()).not.toContain("s3cret");
});

test("after the end every call is CANCELLED", async () => {
  const r = await connect({ [runtimePath("Version")]: version });
  r.close();
  expect(await failureOf(r.version())).toMatchObject({ code: "CANCELLED" });
});
