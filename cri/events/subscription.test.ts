import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status as grpcStatus } from "@grpc/grpc-js";
import { createClock } from "../../host/clock.ts";
import { ContainerEventResponse, VersionResponse } from "../../proto/cri/gen/api.ts";
import { Envelope, SubscribeRequest, TaskStart } from "../../proto/cri/gen/containerd-events.ts";
import { pollUntil } from "../../test/bed/poll-until.ts";
import {
  type CriServer,
  type StreamResponder,
  startCriServer,
  type UnaryResponder,
} from "../../test/fakes/cri-server.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createRuntime } from "../client.ts";
import type { RuntimeEvent } from "../runtime.ts";

const getContainerEvents = "/runtime.v1.RuntimeService/GetContainerEvents";
const subscribe = "/containerd.services.events.v1.Events/Subscribe";
const versionPath = "/runtime.v1.RuntimeService/Version";

const answerVersion: UnaryResponder = (_, answer) => {
  const version = VersionResponse.fromPartial({ runtimeName: "test", runtimeVersion: "3", runtimeApiVersion: "v1" });
  answer(null, Buffer.from(VersionResponse.encode(version).finish()));
};
const eventOf = (containerId: string, containerEventType = 0) => {
  const event = { containerId, containerEventType: containerEventType as 0, podSandboxStatus: { id: "s" } };
  return Buffer.from(ContainerEventResponse.encode(ContainerEventResponse.fromPartial(event)).finish());
};
const garbage = Buffer.from([0x0a, 0xff, 0xff, 0xff, 0xff]);

let socket: string;
let log: FakeLog;
let received: RuntimeEvent[];
let listener: AbortController;
let subscription: Promise<void>;
let server: CriServer | undefined;
let folder: string;
let close: () => void;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-events-"));
  socket = join(folder, "run/cri.sock");
  log = new FakeLog();
  received = [];
});
afterEach(async () => {
  // The agent logs outages itself; this package's debug lines are for troubleshooting.
  expect(log.takeLines()).toEqual([]);
  listener.abort();
  await subscription;
  close();
  await server?.kill();
  await rm(folder, { recursive: true });
});

async function startServer(streams: Readonly<Record<string, StreamResponder>>, version = answerVersion): Promise<void> {
  await Bun.write(join(folder, "run/.keep"), "");
  server = await startCriServer(socket, { [versionPath]: version }, streams);
}

function startListening(clock = createClock()): void {
  const options = { endpoint: `unix://${socket}`, requestTimeoutMs: 5_000, clock, log, random: () => 0.5 };
  const runtime = createRuntime(options);
  listener = new AbortController();
  close = runtime.close;
  subscription = runtime.events((event) => received.push(event), listener.signal);
}

/** Without the changes of an outage's reason. */
const kinds = () =>
  received
    .map((event) => (event.kind === "connected" ? event.source : event.kind))
    .filter((kind, index, all) => kind !== "disconnected" || all[index - 1] !== kind);
const ids = () => received.flatMap((event) => (event.kind === "container" ? [event.containerId] : []));
/** Waits until the listener is connected to the nth stream. */
const isConnected = (nth = 1) =>
  pollUntil("the connection", 2_000, () => received.filter(({ kind }) => kind === "connected").length >= nth);
/** The number of failed connection attempts. */
const attempts = () =>
  log.lines.filter(({ message }) => message.includes("no event stream from the container runtime")).length;
/** Resolves when the first attempt has failed. */
const firstFailure = () => pollUntil("the first failure", 2_000, () => received.length > 0);

test("CRI events are reported one by one", async () => {
  const stream = Promise.withResolvers<Parameters<StreamResponder>[0]>();
  await startServer({ [getContainerEvents]: stream.resolve });
  startListening();
  await pollUntil("the connection", 2_000, () => received.length > 0);
  const call = await stream.promise;
  for (const id of ["a", "b"]) call.write(eventOf(id));
  await pollUntil("two events", 2_000, () => ids().length === 2);
  expect(kinds()).toEqual(["cri-events", "container", "container"]);
});

test("without CRI events it subscribes to containerd's own, filtered by namespace and topic", async () => {
  let filters: readonly string[] = [];
  await startServer({
    [subscribe]: (call) => {
      ({ filters } = SubscribeRequest.decode(call.request));
      const write = (message: Envelope) => call.write(Buffer.from(Envelope.encode(message).finish()));
      const value = TaskStart.encode({ containerId: "c", pid: 1 }).finish();
      const event = { typeUrl: "containerd.events.TaskStart", value };
      void isConnected().then(() => write(Envelope.fromPartial({ event })));
    },
  });
  startListening();
  await pollUntil("an event", 2_000, () => ids().length > 0);
  expect(kinds()).toEqual(["containerd-events", "container"]);
  expect(filters).toEqual([
    `namespace==k8s.io,topic~="^/tasks/(start|exit|delete)$"`,
    `namespace==k8s.io,topic=="/containers/delete"`,
  ]);
});

test("a runtime with neither kind of events has to be relisted by the caller", async () => {
  await startServer({});
  startListening();
  await pollUntil("the connection", 2_000, () => received.length > 0);
  expect(kinds()).toEqual(["none"]);
});

test("a runtime without events is checked again when its socket is created again", async () => {
  await startServer({});
  startListening();
  await pollUntil("the connection", 2_000, () => received.length > 0);
  await server?.kill();
  await startServer({ [getContainerEvents]: () => {} });
  await pollUntil("the new connection", 3_000, () => kinds().at(-1) === "cri-events");
  expect(kinds().slice(0, 2)).toEqual(["none", "disconnected"]);
});

test("a runtime that is not running yet is reported once, with its socket, and connected when it starts", async () => {
  startListening();
  await firstFailure();
  await pollUntil("two more attempts", 4_000, () => attempts() > 2);
  expect(received).toMatchObject([{ kind: "disconnected", error: { name: "CriError", code: "UNAVAILABLE" }, socket }]);
  await startServer({ [getContainerEvents]: () => {} });
  await pollUntil("the connection", 3_000, () => kinds().length > 1);
  expect(kinds()).toEqual(["disconnected", "cri-events"]);
});

test("a socket that does not speak gRPC is reported once, and again when the reason changes", async () => {
  await Bun.write(join(folder, "run/.keep"), "");
  const stranger = createServer((connection) => {
    connection.on("error", () => {
      // The client closes the connection at the first bytes.
    });
    connection.write("220 mail.example ESMTP\r\n".repeat(10));
  });
  await new Promise<void>((listening) => stranger.listen(socket, listening));
  startListening();
  await firstFailure();
  await pollUntil("two more attempts", 4_000, () => attempts() > 2);
  const reasons = () => received.map((event) => (event.kind === "disconnected" ? event.error.message : event.kind));
  expect(reasons()).toEqual(["Version: Protocol error"]);
  stranger.close();
  await pollUntil("another reason", 4_000, () => received.length > 1);
  expect(reasons()[1]).toStartWith("Version: connect E");
});

test("a runtime without events is checked again after an hour, without a disconnect", async () => {
  await startServer({});
  const clock = createClock();
  // An hour of this clock lasts half a second.
  startListening({ ...clock, wakeAt: (at, wake) => clock.wakeAt(Math.min(at, clock.now() + 500), wake) });
  await pollUntil("two connections", 5_000, () => received.length > 1);
  expect(kinds()).toEqual(["none", "none"]);
});

test("a socket that is created again is noticed at once, however long the back-off is", async () => {
  await Bun.write(join(folder, "run/.keep"), "");
  const clock = createClock();
  let isWaitingForSocket = false;
  const wakeAt: typeof clock.wakeAt = (at, wake) => {
    isWaitingForSocket ||= received.length > 0 && at - clock.now() > 9_000;
    return clock.wakeAt(at, wake);
  };
  startListening({ ...clock, wakeAt });
  await firstFailure();
  await pollUntil(
    "the wait for the file system, whose next check by the clock is ten seconds later",
    2_000,
    () => isWaitingForSocket,
  );
  await startServer({ [getContainerEvents]: () => {} });
  await pollUntil("the connection, long before that", 4_000, () => kinds().length > 1);
});

test("a runtime that dies is reported once, and after the reconnect a relist is requested", async () => {
  await startServer({ [getContainerEvents]: () => {} });
  startListening();
  await pollUntil("the connection", 2_000, () => received.length === 1);
  await server?.kill();
  await pollUntil("the loss", 2_000, () => kinds().length === 2);
  await startServer({ [getContainerEvents]: () => {} });
  await pollUntil("the return", 3_000, () => kinds().length === 3);
  expect(kinds()).toEqual(["cri-events", "disconnected", "cri-events"]);
  expect(received[1]).toMatchObject({ kind: "disconnected", error: { name: "CriError", code: "UNAVAILABLE" } });
});

test("a malformed message causes a reconnect with a relist", async () => {
  let streams = 0;
  await startServer({
    [getContainerEvents]: (call) => {
      const nth = ++streams;
      void isConnected(nth).then(() => call.write(nth < 4 ? garbage : eventOf("after")));
    },
  });
  startListening();
  await pollUntil("the event after it", 10_000, () => ids().includes("after"));
  expect(kinds().slice(0, 3)).toEqual(["cri-events", "disconnected", "cri-events"]);
  expect(received.find(({ kind }) => kind === "disconnected")).toMatchObject({ error: { code: "INTERNAL" } });
}, 15_000);

test("an unknown type of event of a newer runtime is an unknown change", async () => {
  await startServer({ [getContainerEvents]: (call) => void isConnected().then(() => call.write(eventOf("c", 42))) });
  startListening();
  await pollUntil("the event", 2_000, () => ids().length > 0);
  expect(received.at(-1)).toMatchObject({ kind: "container", change: "unknown", containerId: "c" });
});

test("a runtime that runs but does not answer yet is not connected", async () => {
  let requests = 0;
  const streams = { [getContainerEvents]: () => {} };
  await startServer(streams, (call, answer) =>
    ++requests < 3 ? answer({ code: grpcStatus.UNKNOWN, details: "not initialized yet" }) : answerVersion(call, answer),
  );
  startListening();
  await pollUntil("the connection", 3_000, () => kinds().length > 1);
  expect(requests).toBeGreaterThanOrEqual(3);
  expect(kinds()).toEqual(["disconnected", "cri-events"]);
});

test("the signal ends the subscription at once while the runtime is away", async () => {
  startListening();
  await firstFailure();
  const started = performance.now();
  listener.abort();
  await subscription;
  expect(performance.now() - started).toBeLessThan(500);
  expect(kinds()).toEqual(["disconnected"]);
});
