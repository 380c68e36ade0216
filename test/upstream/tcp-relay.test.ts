import { afterEach, beforeEach, expect, test } from "bun:test";
import { connect, createServer, type Server, type Socket } from "node:net";
import { until } from "../bed/poll-until.ts";
import { type Relay, startRelay } from "./tcp-relay.ts";

let echo: Server;
let relay: Relay;
const sockets: Socket[] = [];

beforeEach(async () => {
  echo = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined).pipe(socket);
  });
  await new Promise<void>((resolve) => echo.listen(0, "127.0.0.1", resolve));
  const address = echo.address();
  relay = await startRelay(typeof address === "object" ? (address?.port ?? 0) : 0);
});
afterEach(async () => {
  await relay.close();
  for (const socket of sockets.splice(0)) socket.destroy();
  echo.close();
});

/** A client of the echo server through the relay, and what it has seen. */
function open() {
  const seen = { text: "", ending: "" };
  const socket = connect({ port: relay.port, host: "127.0.0.1", allowHalfOpen: true });
  sockets.push(socket);
  socket.on("data", (chunk: Buffer) => (seen.text += chunk.toString()));
  socket.on("error", (error: Error & { code?: string }) => (seen.ending = error.code ?? "error"));
  socket.on("end", () => (seen.ending ||= "end"));
  return { socket, seen };
}

test("bytes come and go, and the end of one side reaches the other", async () => {
  const { socket, seen } = open();
  socket.end("there and back");
  await until("the end", 2000, () => seen.ending === "end");
  expect(seen.text).toBe("there and back");
});

test("each direction takes the latency", async () => {
  relay.delay(60);
  const { socket, seen } = open();
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  const started = performance.now();
  socket.write("ping");
  await until("the echo", 2000, () => seen.text === "ping");
  expect(performance.now() - started).toBeGreaterThanOrEqual(119);
});

test("a stall holds back everything and breaks nothing, and what has waited comes in order", async () => {
  const { socket, seen } = open();
  socket.write("a");
  await until("the first byte", 2000, () => seen.text === "a");
  relay.stall();
  socket.write("b");
  const late = open();
  late.socket.write("x");
  await until("a connection made meanwhile", 2000, () => late.socket.readyState === "open");
  expect([seen.text, seen.ending, late.seen.text]).toEqual(["a", "", ""]);
  relay.resume();
  socket.write("c");
  await until("the rest", 2000, () => seen.text === "abc" && late.seen.text === "x");
});

test("a connection that is forgotten stays open and carries nothing; one that comes after does", async () => {
  const { socket, seen } = open();
  socket.write("a");
  await until("the first byte", 2000, () => seen.text === "a");
  expect(relay.forget()).toBe(1);
  socket.write("b");
  const next = open();
  next.socket.write("c");
  await until("an echo on a new connection", 2000, () => next.seen.text === "c");
  relay.resume();
  next.socket.write("d");
  await until("another echo", 2000, () => next.seen.text === "cd");
  expect([seen.text, seen.ending, socket.destroyed]).toEqual(["a", "", false]);
});

test("a reset breaks what is open, and not what comes after", async () => {
  const { socket, seen } = open();
  socket.write("a");
  await until("the first byte", 2000, () => seen.text === "a");
  expect(relay.reset()).toBe(1);
  await until("the reset", 2000, () => seen.ending === "ECONNRESET");
  const next = open();
  next.socket.write("b");
  await until("an echo on a new connection", 2000, () => next.seen.text === "b");
});

test("a connection is broken at the byte asked for", async () => {
  relay.resetAfter(5);
  const { socket, seen } = open();
  socket.write("abc");
  await until("the first bytes", 2000, () => seen.text === "abc");
  socket.write("defg");
  await until("the reset", 2000, () => seen.ending === "ECONNRESET");
  expect("abcde").toStartWith(seen.text);
});
