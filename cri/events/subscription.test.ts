import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { status as grpcStatus } from "@grpc/grpc-js";
import { createClock } from "../../host/clock.ts";
import { ContainerEventResponse, VersionResponse } from "../../proto/cri/gen/api.ts";
import { Envelope, SubscribeRequest, TaskStart } from "../../proto/cri/gen/containerd-events.ts";
import { until } from "../../test/bed/poll-until.ts";
import { type CriServer, type StreamAnswer, startCriServer, type UnaryAnswer } from "../../test/fakes/cri-server.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createRuntime } from "../client.ts";
import type { RuntimeEvent } from "../runtime.ts";

const getContainerEvents = "/runtime.v1.RuntimeService/GetContainerEvents";
const subscribe = "/containerd.services.events.v1.Events/Subscribe";
const versionPath = "/runtime.v1.RuntimeService/Version";

const answerVersion: UnaryAnswer = (_, answer) => {
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
let heard: RuntimeEvent[];
let listener: AbortController;
let following: Promise<void>;
let server: CriServer | undefined;
let folder: string;
let close: () => void;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-events-"));
  socket = join(folder, "run/cri.sock");
  log = new FakeLog();
  heard = [];
});
afterEach(async () => {
  // The agent tells what has happened; what is said here is for those who look for the reason.
  expect(log.told()).toEqual([]);
  listener.abort();
  await following;
  close();
  await server?.kill();
  await rm(folder, { recursive: true });
});

async function serve(streams: Readonly<Record<string, StreamAnswer>>, version = answerVersion): Promise<void> {
  await Bun.write(join(folder, "run/.keep"), "");
  server = await startCriServer(socket, { [versionPath]: version }, streams);
}

function follow(clock = createClock()): void {
  const options = { endpoint: `unix://${socket}`, requestTimeoutMs: 5_000, clock, log, random: () => 0.5 };
  const runtime = createRuntime(options);
  listener = new AbortController();
  close = runtime.close;
  following = runtime.events((event) => heard.push(event), listener.signal);
}

const kinds = () => heard.map((event) => (event.kind === "connected" ? event.source : event.kind));
const ids = () => heard.flatMap((event) => (event.kind === "container" ? [event.containerId] : []));
/** The listener hears the stream that was opened as the nth. */
const isHeard = (nth = 1) =>
  until("the connection", 2_000, () => heard.filter(({ kind }) => kind === "connected").length >= nth);
/** How many have failed. */
const attempts = () => log.lines.filter(({ message }) => message.includes("does not answer as it should")).length;
/** When the first attempt has failed. */
const complaint = () => until("the complaint", 2_000, () => heard.length > 0);

test("events of the CRI are told one by one", async () => {
  const stream = Promise.withResolvers<Parameters<StreamAnswer>[0]>();
  await serve({ [getContainerEvents]: stream.resolve });
  follow();
  await until("the connection", 2_000, () => heard.length > 0);
  const call = await stream.promise;
  for (const id of ["a", "b"]) call.write(eventOf(id));
  await until("two events", 2_000, () => ids().length === 2);
  expect(kinds()).toEqual(["cri-events", "container", "container"]);
});

test("where the CRI has no events, containerd's own are asked for, of pods and their tasks alone", async () => {
  let filters: readonly string[] = [];
  await serve({
    [subscribe]: (call) => {
      ({ filters } = SubscribeRequest.decode(call.request));
      const write = (message: Envelope) => call.write(Buffer.from(Envelope.encode(message).finish()));
      const value = TaskStart.encode({ containerId: "c", pid: 1 }).finish();
      const event = { typeUrl: "containerd.events.TaskStart", value };
      void isHeard().then(() => write(Envelope.fromPartial({ event })));
    },
  });
  follow();
  await until("an event", 2_000, () => ids().length > 0);
  expect(kinds()).toEqual(["containerd-events", "container"]);
  expect(filters).toEqual([
    `namespace==k8s.io,topic~="^/tasks/(start|exit|delete)$"`,
    `namespace==k8s.io,topic=="/containers/delete"`,
  ]);
});

test("a runtime with neither is for the caller to poll", async () => {
  await serve({});
  follow();
  await until("the connection", 2_000, () => heard.length > 0);
  expect(kinds()).toEqual(["none"]);
});

test("a runtime without events is asked again when its socket is made anew", async () => {
  await serve({});
  follow();
  await until("the connection", 2_000, () => heard.length > 0);
  await server?.kill();
  await serve({ [getContainerEvents]: () => {} });
  await until("the new connection", 3_000, () => kinds().at(-1) === "cri-events");
  expect(kinds().slice(0, 2)).toEqual(["none", "disconnected"]);
});

test("a runtime that is not there yet is told once, with its socket, and found when it comes", async () => {
  follow();
  await complaint();
  await until("two more attempts", 4_000, () => attempts() > 2);
  expect(heard).toMatchObject([{ kind: "disconnected", error: { name: "CriError", code: "UNAVAILABLE" }, socket }]);
  await serve({ [getContainerEvents]: () => {} });
  await until("the connection", 3_000, () => heard.length > 1);
  expect(kinds()).toEqual(["disconnected", "cri-events"]);
});

test("a runtime without events is asked again after an hour, which is no loss", async () => {
  await serve({});
  const clock = createClock();
  // Hours that last half a second.
  follow({ ...clock, wakeAt: (at, wake) => clock.wakeAt(Math.min(at, clock.now() + 500), wake) });
  await until("two connections", 5_000, () => heard.length > 1);
  expect(kinds()).toEqual(["none", "none"]);
});

test("the socket's return is noticed at once, however long the wait has become", async () => {
  await Bun.write(join(folder, "run/.keep"), "");
  const clock = createClock();
  let isPatient = false;
  const wakeAt: typeof clock.wakeAt = (at, wake) => {
    isPatient ||= heard.length > 0 && at - clock.now() > 9_000;
    return clock.wakeAt(at, wake);
  };
  follow({ ...clock, wakeAt });
  await complaint();
  await until("a wait for the file system: the next look by the clock is ten seconds off", 2_000, () => isPatient);
  await serve({ [getContainerEvents]: () => {} });
  await until("the connection, long before that", 4_000, () => heard.length > 1);
});

test("a runtime that dies is told once, and followed again with a new relist", async () => {
  await serve({ [getContainerEvents]: () => {} });
  follow();
  await until("the connection", 2_000, () => heard.length === 1);
  await server?.kill();
  await until("the loss", 2_000, () => heard.length === 2);
  await serve({ [getContainerEvents]: () => {} });
  await until("the return", 3_000, () => heard.length === 3);
  expect(kinds()).toEqual(["cri-events", "disconnected", "cri-events"]);
  expect(heard[1]).toMatchObject({ kind: "disconnected", error: { name: "CriError", code: "UNAVAILABLE" } });
});

test("garbage on the stream is survived, and makes the listener look anew", async () => {
  let streams = 0;
  await serve({
    [getContainerEvents]: (call) => {
      const nth = ++streams;
      void isHeard(nth).then(() => call.write(nth < 4 ? garbage : eventOf("after")));
    },
  });
  follow();
  await until("the event after it", 10_000, () => ids().includes("after"));
  expect(kinds().slice(0, 3)).toEqual(["cri-events", "disconnected", "cri-events"]);
  expect(heard.find(({ kind }) => kind === "disconnected")).toMatchObject({ error: { code: "INTERNAL" } });
}, 15_000);

test("a kind of event that a newer runtime knows is an unknown change", async () => {
  await serve({ [getContainerEvents]: (call) => void isHeard().then(() => call.write(eventOf("c", 42))) });
  follow();
  await until("the event", 2_000, () => ids().length > 0);
  expect(heard.at(-1)).toMatchObject({ kind: "container", change: "unknown", containerId: "c" });
});

test("a runtime that is there but not ready is not yet connected", async () => {
  let asked = 0;
  const streams = { [getContainerEvents]: () => {} };
  await serve(streams, (call, answer) =>
    ++asked < 3 ? answer({ code: grpcStatus.UNKNOWN, details: "not initialized yet" }) : answerVersion(call, answer),
  );
  follow();
  await until("the connection", 3_000, () => heard.length > 1);
  expect(asked).toBeGreaterThanOrEqual(3);
  expect(kinds()).toEqual(["disconnected", "cri-events"]);
});

test("a listener that leaves while nobody is there is let go at once", async () => {
  follow();
  await complaint();
  const started = performance.now();
  listener.abort();
  await following;
  expect(performance.now() - started).toBeLessThan(500);
  expect(kinds()).toEqual(["disconnected"]);
});
