import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status as grpcStatus } from "@grpc/grpc-js";
import { createClock } from "../host/clock.ts";
import type { Log } from "../host/log/log.ts";
import {
  AuthConfig,
  ContainerConfig,
  ImageSpec,
  LinuxContainerResources,
  ListContainersRequest,
  ListContainersResponse,
  PodSandboxConfig,
  PullImageRequest,
  PullImageResponse,
  RunPodSandboxResponse,
  StopContainerRequest,
  VersionRequest,
  VersionResponse,
} from "../proto/cri/gen/api.ts";
import { DeleteContainerRequest } from "../proto/cri/gen/containerd-containers.ts";
import { DeleteTaskRequest } from "../proto/cri/gen/containerd-tasks.ts";
import type { ContainerId, PodUid, SandboxId } from "../proto/ids.ts";
import { startCriServer, type UnaryResponder } from "../test/fakes/cri-server.ts";
import { FakeLog } from "../test/fakes/log.ts";
import { type CallRecord, createChannel } from "./channel.ts";
import { type CriRuntime, createRuntime } from "./client.ts";
import type { CriError } from "./error.ts";
import { rpcMethod } from "./rpc-method.ts";
import { type PodActions, tracedRuntime } from "./traced-runtime.ts";

interface Codec<T> {
  fromPartial(partial: object): T;
  encode(message: T): { finish(): Uint8Array };
}
const bytesOf = <T>(codec: Codec<T>, partial: object = {}) =>
  Buffer.from(codec.encode(codec.fromPartial(partial)).finish());
const runtimePath = (verb: string) => `/runtime.v1.RuntimeService/${verb}`;
const imagePath = (verb: string) => `/runtime.v1.ImageService/${verb}`;
const always =
  (bytes: Buffer): UnaryResponder =>
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

/** The calls that remove what containerd has left of a sandbox. */
const deletions = (calls: readonly CallRecord[]) => calls.filter(({ verb, isOfCri }) => verb === "Delete" && !isOfCri);

/** Starts a server with these answers, and a client for it. */
async function startServer(
  unary: Readonly<Record<string, UnaryResponder>>,
  images?: typeof unary,
): Promise<CriRuntime & { readonly calls: readonly CallRecord[] }> {
  const calls: CallRecord[] = [];
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
    onCall: (call) => void calls.push(call),
  });
  cleanUps.push(() => runtime.close());
  return { ...runtime, calls };
}

describe("deadlines", () => {
  /** The deadline that the server receives, as an instant of the machine's clock. */
  const recordDeadline = (at: number[], bytes: Buffer): UnaryResponder => {
    return (call, answer) => {
      const deadline = call.getDeadline();
      at.push(Number(deadline));
      answer(null, bytes);
    };
  };
  const rows: readonly [string, string, (r: CriRuntime) => Promise<unknown>, number][] = [
    ["most methods have the request timeout", runtimePath("ListContainers"), (r) => r.listContainers({}), 120_000],
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
      "the caller's own deadline takes precedence",
      imagePath("ImageStatus"),
      (r) => r.imageStatus("i", { deadlineMs: 60_000 }),
      60_000,
    ],
  ];
  for (const [name, path, act, expected] of rows)
    test(name, async () => {
      const at: number[] = [];
      const runtime = await startServer({ [path]: recordDeadline(at, Buffer.alloc(0)) });
      const before = Date.now();
      await act(runtime);
      const [deadline = 0] = at;
      if (!Number.isFinite(expected)) return expect(deadline).toBe(expected);
      // The server computes the deadline from its own clock, which may differ a little from the test's.
      expect(deadline).toBeGreaterThanOrEqual(before + expected - 50);
      expect(deadline).toBeLessThanOrEqual(Date.now() + expected + 50);
    });

  test("a runtime that does not answer is DEADLINE_EXCEEDED", async () => {
    const { version } = await startServer({ [runtimePath("Version")]: () => {} });
    expect(await failureOf(version({ deadlineMs: 50 }))).toMatchObject({
      code: "DEADLINE_EXCEEDED",
      verb: "Version",
      details: "no answer within 50 ms",
    });
  });
});

test("a call that belongs to a span carries it as W3C traceparent; others carry none", async () => {
  const received: string[] = [];
  const answerOf = (bytes: Buffer): UnaryResponder => {
    return (call, answer) => {
      received.push(call.metadata.get("traceparent").join());
      answer(null, bytes);
    };
  };
  const empty = Buffer.alloc(0);
  const client = await startServer({
    [runtimePath("RunPodSandbox")]: answerOf(bytesOf(RunPodSandboxResponse, { podSandboxId: "s" })),
    [runtimePath("StopContainer")]: answerOf(empty),
    [imagePath("PullImage")]: answerOf(bytesOf(PullImageResponse, { imageRef: "r" })),
  });
  const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const callAll = async (runtime: PodActions) => {
    await runtime.runPodSandbox(PodSandboxConfig.fromPartial({}), "");
    await runtime.stopContainer("c" as ContainerId, 30);
    await runtime.pullImage("i", undefined, undefined, { annotations: { key: "value" } });
    return received.splice(0);
  };
  expect(await callAll(tracedRuntime(client, { traceparent: span }))).toEqual([span, span, span]);
  expect(await callAll(client)).toEqual(["", "", ""]);
});

test("a cancelled call is CANCELLED, and the runtime sees that", async () => {
  const [arrived, seen] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { pullImage } = await startServer({
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

describe("a container with a leftover task of a cancelled start", () => {
  const refused: UnaryResponder = (_, answer) =>
    answer({ code: grpcStatus.FAILED_PRECONDITION, details: "cannot delete running task" });
  const tasks = "/containerd.services.tasks.v1.Tasks/Delete";

  test("is removed after containerd's task service has deleted the task", async () => {
    const recordDeadline: string[] = [];
    let isLeft = true;
    const { removeContainer } = await startServer({
      [runtimePath("RemoveContainer")]: (call, answer) =>
        isLeft ? refused(call, answer) : answer(null, Buffer.alloc(0)),
      [tasks](call, answer) {
        recordDeadline.push(
          `${String(call.metadata.get("containerd-namespace"))} ${bytesOf(DeleteTaskRequest, { containerId: "c" }).equals(call.request)}`,
        );
        isLeft = false;
        answer(null, Buffer.alloc(0));
      },
    });
    await removeContainer("c" as ContainerId);
    expect(recordDeadline).toEqual(["k8s.io true"]);
  });

  test("keeps the runtime's error if there is no such service, or it fails, too", async () => {
    for (const unary of [{}, { [tasks]: refused }]) {
      const { removeContainer } = await startServer({ [runtimePath("RemoveContainer")]: refused, ...unary });
      const failure = await failureOf(removeContainer("c" as ContainerId));
      expect(failure).toMatchObject({ code: "FAILED_PRECONDITION", verb: "RemoveContainer" });
      for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
    }
  });
});

describe("a sandbox whose RunPodSandbox was cancelled", () => {
  /** containerd in this state: CRI removes the sandbox and leaves its task and container. */
  async function connectToContainerd(leftovers: readonly ("task" | "container")[]) {
    const there = new Set<string>(["sandbox", ...leftovers]);
    const answers =
      (what: string, request: Buffer): UnaryResponder =>
      (call, answer) => {
        const isRight = call.request.equals(request) && String(call.metadata.get("containerd-namespace")) === "k8s.io";
        if (isRight && there.delete(what)) answer(null, Buffer.alloc(0));
        else answer({ code: grpcStatus.NOT_FOUND, details: "gone" });
      };
    const { removePodSandbox } = await startServer({
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

  for (const leftovers of [["task", "container"], ["task"], ["container"], []] as const)
    test(`is removed together with its leftover ${leftovers.join(" and ") || "nothing"}`, async () => {
      const { remove, there } = await connectToContainerd(leftovers);
      await remove();
      expect([...there]).toEqual([]);
    });

  test("is cleaned up only if its RunPodSandbox did not succeed in this process", async () => {
    const { runPodSandbox, removePodSandbox, calls } = await startServer({
      [runtimePath("RunPodSandbox")]: (_, answer) =>
        answer(null, bytesOf(RunPodSandboxResponse, { podSandboxId: "s" })),
      [runtimePath("RemovePodSandbox")]: (_, answer) => answer(null, Buffer.alloc(0)),
    });
    const id = await runPodSandbox(PodSandboxConfig.fromPartial({}), "");
    await removePodSandbox(id);
    expect(deletions(calls)).toEqual([]);
    await removePodSandbox(id);
    expect(deletions(calls)).toHaveLength(2);
  });

  test("is removed also when its task is running, or there is no such service", async () => {
    const refused: UnaryResponder = (_, answer) => answer({ code: grpcStatus.FAILED_PRECONDITION, details: "it runs" });
    for (const unary of [{}, { "/containerd.services.tasks.v1.Tasks/Delete": refused }]) {
      let removed = 0;
      const { removePodSandbox, calls } = await startServer({
        [runtimePath("RemovePodSandbox")](_, answer) {
          removed++;
          answer(null, Buffer.alloc(0));
        },
        ...unary,
      });
      await removePodSandbox("s" as SandboxId);
      expect(removed).toBe(1);
      expect(deletions(calls)).toHaveLength(2);
      for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
    }
  });
});

test("an error has the runtime's code and message, and gRPC's error as its cause", async () => {
  const { startContainer } = await startServer({
    [runtimePath("StartContainer")]: (_, answer) =>
      answer({ code: grpcStatus.FAILED_PRECONDITION, details: "not yet ✗" }),
  });
  const error = await failureOf(startContainer("c" as ContainerId));
  expect(error).toMatchObject({ name: "CriError", code: "FAILED_PRECONDITION", message: "StartContainer: not yet ✗" });
  expect(error.cause).toBeInstanceOf(Error);
});

test("the error for a socket without a listener has the kernel's error and the path", async () => {
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

test("an unknown status code is UNKNOWN", async () => {
  const { status } = await startServer({
    [runtimePath("Status")]: (_, answer) => answer({ code: 77 as grpcStatus, details: "?" }),
  });
  expect(await failureOf(status())).toMatchObject({ code: "UNKNOWN" });
});

test("containerd's UNKNOWN for a method that it lacks is UNIMPLEMENTED; any other UNKNOWN stays", async () => {
  for (const [details, code] of [
    ["method UpdatePodSandboxResources not implemented", "UNIMPLEMENTED"],
    ["failed to find sandbox", "UNKNOWN"],
  ] as const) {
    const { updatePodSandboxResources } = await startServer({
      [runtimePath("UpdatePodSandboxResources")]: (_, answer) => answer({ code: grpcStatus.UNKNOWN, details }),
    });
    const resources = LinuxContainerResources.fromPartial({});
    const failure = await failureOf(updatePodSandboxResources("s" as SandboxId, { resources, overhead: undefined }));
    expect(failure).toMatchObject({ code, verb: "UpdatePodSandboxResources", details });
    for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
  }
});

test("the longest grace period is limited to what a runtime can count", async () => {
  const requests: bigint[] = [];
  const { stopContainer } = await startServer({
    [runtimePath("StopContainer")]: (call, answer) => {
      requests.push(StopContainerRequest.decode(call.request).timeout);
      answer(null, Buffer.alloc(0));
    },
  });
  await stopContainer("c" as ContainerId, Number(2n ** 63n));
  expect(requests).toEqual([2n ** 31n - 1n]);
});

test("stopping and removing something absent succeeds", async () => {
  const notFound: UnaryResponder = (_, answer) => answer({ code: grpcStatus.NOT_FOUND, details: "gone" });
  const verbs = ["StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"];
  const paths = [...verbs.map(runtimePath), imagePath("RemoveImage")];
  const r = await startServer(Object.fromEntries(paths.map((path) => [path, notFound])));
  await r.stopContainer("c" as ContainerId, 0);
  await r.removeContainer("c" as ContainerId);
  await r.stopPodSandbox("s" as SandboxId);
  await r.removePodSandbox("s" as SandboxId);
  await r.removeImage("i");
  const failed = r.calls.filter(({ isOfCri }) => isOfCri).map(({ verb, code }) => [verb, code]);
  expect(failed).toEqual([...verbs, "RemoveImage"].map((verb) => [verb, "NOT_FOUND"]));
});

test("a stream sends the metadata of its method", async () => {
  const socketPath = join(folder, "cri.sock");
  const namespaces: string[] = [];
  const server = await startCriServer(
    socketPath,
    {},
    {
      "/test.v1.Test/Watch": (call) => {
        namespaces.push(String(call.metadata.get("containerd-namespace")));
        call.end();
      },
    },
  );
  cleanUps.push(() => server.kill());
  const channel = createChannel({ socketPath, clock: createClock(), log: new FakeLog() });
  cleanUps.push(() => channel.close());
  const metadata = { "containerd-namespace": "k8s.io" };
  const watch = { ...rpcMethod("test.v1.Test", "Watch", VersionRequest, VersionResponse), metadata };
  await channel.stream(watch, VersionRequest.fromPartial({}), () => {}, new AbortController().signal);
  expect(namespaces).toEqual(["k8s.io"]);
});

test("a runtime with another CRI version is refused with its name", async () => {
  const bytes = bytesOf(VersionResponse, {
    runtimeName: "old",
    runtimeVersion: "1.0",
    runtimeApiVersion: "v1alpha2",
  });
  const { version } = await startServer({ [runtimePath("Version")]: always(bytes) });
  const error = await failureOf(version());
  expect(error).toMatchObject({ code: "UNIMPLEMENTED" });
  expect(error.message).toBe('Version: old 1.0 supports CRI "v1alpha2", but v1 is required');
});

test("unknown states and fields of a newer runtime are kept or ignored", async () => {
  // id "x", state 9, and field 900 with the bytes "new".
  const container = [0x0a, 1, 0x78, 0x30, 9, 0xa2, 0x38, 3, 0x6e, 0x65, 0x77];
  const bytes = Buffer.from([0x0a, container.length, ...container, 0x98, 0x38, 1]);
  const { listContainers } = await startServer({ [runtimePath("ListContainers")]: always(bytes) });
  const [only, ...rest] = await listContainers({});
  expect(rest).toEqual([]);
  expect(only?.id).toBe("x");
  expect(Number(only?.state)).toBe(9);
});

test("a malformed answer is INTERNAL", async () => {
  const { status } = await startServer({ [runtimePath("Status")]: always(Buffer.from([0x0a, 0xff, 0xff, 0xff])) });
  expect(await failureOf(status())).toMatchObject({ code: "INTERNAL", verb: "Status" });
});

test("an answer of nearly 16 MiB is accepted, a larger one is RESOURCE_EXHAUSTED", async () => {
  const containers = (count: number) =>
    bytesOf(ListContainersResponse, { containers: Array.from({ length: count }, () => ({ id: "x".repeat(100_000) })) });
  let bytes = containers(160);
  const { listContainers } = await startServer({ [runtimePath("ListContainers")]: (_, answer) => answer(null, bytes) });
  expect(await listContainers({})).toHaveLength(160);
  bytes = containers(170);
  expect(await failureOf(listContainers({}))).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
});

test("lists are filtered by pod in the runtime", async () => {
  const requests: ListContainersRequest[] = [];
  const { listContainers } = await startServer({
    [runtimePath("ListContainers")]: (call, answer) => {
      requests.push(ListContainersRequest.decode(call.request));
      answer(null, Buffer.alloc(0));
    },
  });
  await listContainers({ podUid: "u-1" as PodUid });
  expect(requests[0]?.filter).toMatchObject({ id: "", labelSelector: { "io.kubernetes.pod.uid": "u-1" } });
});

test("the image service may have another endpoint", async () => {
  const images = { [imagePath("PullImage")]: always(bytesOf(PullImageResponse, { imageRef: "sha256:1" })) };
  const r = await startServer({ [runtimePath("Version")]: version }, images);
  expect(await r.pullImage("i", undefined, undefined)).toBe("sha256:1" as never);
  expect((await r.version()).runtimeName).toBe("test");
  expect(r.calls.map(({ verb }) => verb).sort()).toEqual(["PullImage", "Version"]);
});

test("a pull sends the pod's annotations", async () => {
  const requests: PullImageRequest[] = [];
  const { pullImage } = await startServer({
    [imagePath("PullImage")]: (call, answer) => {
      requests.push(PullImageRequest.decode(call.request));
      answer(null, Buffer.alloc(0));
    },
  });
  await pullImage("i", undefined, undefined, { annotations: { "example.com/lazy": "yes" } });
  await pullImage("i", undefined, undefined);
  expect(requests.map(({ image }) => image?.annotations)).toEqual([{ "example.com/lazy": "yes" }, {}]);
});

test("the log has method, code and duration of each call, and no content", async () => {
  const r = await startServer({
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

test("after close every call is CANCELLED", async () => {
  const r = await startServer({ [runtimePath("Version")]: version });
  r.close();
  expect(await failureOf(r.version())).toMatchObject({ code: "CANCELLED" });
});
