import { afterEach, beforeEach, expect, test } from "bun:test";
import { connect, createServer, type Server, type Socket } from "node:net";
import { pollUntil } from "../bed/poll-until.ts";
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

/** Connects to the echo server through the relay and records the received data and the end of the connection. */
function open() {
  const seen = { text: "", ending: "" };
  const socket = connect({ port: relay.port, host: "127.0.0.1", allowHalfOpen: true });
  sockets.push(socket);
  socket.on("data", (chunk: Buffer) => (seen.text += chunk.toString()));
  socket.on("error", (error: Error & { code?: string }) => (seen.ending = error.code ?? "error"));
  socket.on("end", () => (seen.ending ||= "end"));
  return { socket, seen };
}

test("forwards bytes in both directions and the end of the connection", async () => {
  const { socket, seen } = open();
  socket.end("there and back");
  await pollUntil("the end", 2000, () => seen.ending === "end");
  expect(seen.text).toBe("there and back");
});

test("delays each direction by the latency", async () => {
  relay.delay(60);
  const { socket, seen } = open();
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  const started = performance.now();
  socket.write("ping");
  await pollUntil("the echo", 2000, () => seen.text === "ping");
  expect(performance.now() - started).toBeGreaterThanOrEqual(119);
});

test("a stall holds data back without breaking connections, and resume delivers it in order", async () => {
  const { socket, seen } = open();
  socket.write("a");
  await pollUntil("the first byte", 2000, () => seen.text === "a");
  relay.stall();
  socket.write("b");
  const late = open();
  late.socket.write("x");
  await pollUntil("a connection made meanwhile", 2000, () => late.socket.readyState === "open");
  expect([seen.text, seen.ending, late.seen.text]).toEqual(["a", "", ""]);
  relay.resume();
  socket.write("c");
  await pollUntil("the rest", 2000, () => seen.text === "abc" && late.seen.text === "x");
});

test("a blackholed connection stays open without data, and later connections work", async () => {
  const { socket, seen } = open();
  socket.write("a");
  await pollUntil("the first byte", 2000, () => seen.text === "a");
  expect(relay.blackhole()).toBe(1);
  socket.write("b");
  const next = open();
  next.socket.write("c");
  await pollUntil("an echo on a new connection", 2000, () => next.seen.text === "c");
  relay.resume();
  next.socket.write("d");
  await pollUntil("another echo", 2000, () => next.seen.text === "cd");
  expect([seen.text, seen.ending, socket.destroyed]).toEqual(["a", "", false]);
});

test("a reset breaks the open connections and not later ones", async () => {
  const { socket, seen } = open();
  socket.write("a");
  await pollUntil("the first byte", 2000, () => seen.text === "a");
  expect(relay.reset()).toBe(1);
  await pollUntil("the reset", 2000, () => seen.ending === "ECONNRESET");
  const next = open();
  next.socket.write("b");
  await pollUntil("an echo on a new connection", 2000, () => next.seen.text === "b");
});

test("resets a connection after the given number of bytes", async () => {
  relay.resetAfter(5);
  const { socket, seen } = open();
  socket.write("abc");
  await pollUntil("the first bytes", 2000, () => seen.text === "abc");
  socket.write("defg");
  await pollUntil("the reset", 2000, () => seen.ending === "ECONNRESET");
  expect("abcde").toStartWith(seen.text);
});
