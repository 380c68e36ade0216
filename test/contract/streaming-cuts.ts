import { test } from "bun:test";
import { readdir } from "node:fs/promises";
import { connect, type TLSSocket } from "node:tls";
import { createSynStreamWriter, dataFrames } from "../../agent/serve/streaming/spdy/frame-writer.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { maskedFrame } from "./port-forward-client.ts";
import type { StreamingFixture } from "./streaming-fixture.ts";

/** What a client sends in one session. */
interface ClientBytes {
  readonly head: Buffer;
  /** What follows the answer. */
  readonly input: Buffer;
  /** What the client receives once the session runs. */
  readonly running: string;
}

const TIMEOUT_MS = 15_000;

function requestHead(target: string, protocol: string): Buffer {
  const lines = [
    ...[`GET ${target} HTTP/1.1`, "Host: node", "Connection: Upgrade", "Upgrade: websocket"],
    ...["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="],
    `Sec-WebSocket-Protocol: ${protocol}`,
  ];
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n`);
}

/** A command that reads stdin until its end: input, a new size of the terminal, and the end of stdin. */
function execBytes(): ClientBytes {
  const command = ["sh", "-c", "echo started; exec cat"].map((word) => `command=${encodeURIComponent(word)}`);
  const target = `/exec/default/web/main?${command.join("&")}&input=1&output=1`;
  const messages = [
    Buffer.from("\u0000a line\n"),
    Buffer.from('\u0004{"Width":80,"Height":24}'),
    Buffer.from([255, 0]),
  ];
  const input = Buffer.concat(messages.map(maskedFrame));
  return { head: requestHead(target, "v5.channel.k8s.io"), input, running: "started" };
}

/** A connection to a port of the pod: both of its streams, data, and the end of the client's half. */
function forwardBytes(echoPort: number): ClientBytes {
  const synStream = createSynStreamWriter();
  const headers = { port: String(echoPort), requestid: "0" };
  const frames = [
    synStream(1, { ...headers, streamtype: "error" }),
    synStream(3, { ...headers, streamtype: "data" }),
    dataFrames(3, Buffer.from("a line\n"), true),
  ];
  const head = requestHead("/portForward/default/host", "SPDY/3.1+portforward.k8s.io");
  return { head, input: Buffer.concat(frames.map(maskedFrame)), running: "\r\n\r\n" };
}

/** Clients that vanish in the middle of a message, with a real runtime behind the agent. */
export function cutContract(fixture: () => StreamingFixture): void {
  // containerd 1.6 and 2.1 keep the socket of some port-forwards whose client vanishes once both streams exist, whether the
  // agent resets its connection to them or ends it (up to 11 of 12 at once): those are not counted.
  const sessions = [
    ["exec by WebSocket v5", true, () => execBytes()],
    ["port-forward by a tunnel", false, () => forwardBytes(fixture().echoPort)],
  ] as const;
  for (const [what, isReleasedByRuntime, bytesOf] of sessions)
    test(`clients that break off at every tenth byte of ${what} leave nothing behind`, async () => {
      const { port, server, containerdPid, processes, echoConnections } = fixture();
      const bytes = bytesOf();
      const end = bytes.head.length + bytes.input.length;
      // The first sessions also open what stays open.
      await breakOff(port, bytes, end, true);
      await pollUntil("the end of the first session", TIMEOUT_MS, () => server.openUpgrades() === 0);
      const pids = [process.pid, ...(isReleasedByRuntime ? [containerdPid] : [])];
      const [processesBefore, ...before] = await Promise.all([processes(), ...pids.map(descriptorsOf)]);
      const cuts = Array.from({ length: Math.floor(end / 10) }, (_, index) => (index + 1) * 10);
      // Half of them break off while the session starts, the others while it runs.
      await Promise.all(cuts.map((cutAt) => breakOff(port, bytes, cutAt, false)));
      await Promise.all(cuts.map((cutAt) => breakOff(port, bytes, cutAt, true)));
      await pollUntil("the end of the sessions", TIMEOUT_MS, () => server.openUpgrades() === 0);
      await pollUntil("the end of the commands", TIMEOUT_MS, async () => {
        return Bun.deepEquals(await processes(), processesBefore);
      });
      await pollUntil("the end of the connections", TIMEOUT_MS, async () => (await echoConnections()) === 0);
      for (const [index, pid] of pids.entries())
        await pollUntil(`no more descriptors of process ${pid}`, TIMEOUT_MS, async () => {
          return (await descriptorsOf(pid)) <= (before[index] ?? 0);
        });
    });
}

const descriptorsOf = async (pid: number) => (await readdir(`/proc/${pid}/fd`)).length;

/** Sends the first `cutAt` bytes of a session and closes the connection; if it `waits`, sends the input to a running session. */
async function breakOff(
  port: number,
  { head, input, running }: ClientBytes,
  cutAt: number,
  waits: boolean,
): Promise<void> {
  const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false });
  socket.on("error", () => undefined);
  let received = "";
  socket.on("data", (bytes: Buffer) => {
    received += bytes.toString("latin1");
  });
  const isRunning = () => received.includes(running);
  await send(socket, head.subarray(0, cutAt));
  if (waits && cutAt > head.length) await pollUntil("the session to run", TIMEOUT_MS, isRunning);
  if (cutAt > head.length) await send(socket, input.subarray(0, cutAt - head.length));
  socket.destroy();
}

/** Resolves when the kernel has taken the bytes. */
const send = (socket: TLSSocket, bytes: Buffer) => new Promise<void>((resolve) => socket.write(bytes, () => resolve()));
