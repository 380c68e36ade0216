import type { Duplex } from "node:stream";
import type { ProcessStreams } from "../../../cri/runtime.ts";
import type { Clock } from "../../../host/clock.ts";
import { ApiError } from "../api/api-error.ts";
import type { UpgradeRequest } from "../api/route.ts";
import { type BackendAnswer, requestBackend } from "./backend.ts";
import { failureMessages, openingMessage, translateExec, WEBSOCKET_PROTOCOL } from "./exec-websocket.ts";
import { readRefusal } from "./refusal.ts";
import { REMOTE_COMMAND_PROTOCOL } from "./remote-command.ts";
import { proxyError } from "./runtime-error.ts";
import { passThrough, runSession, type Session, type Translation } from "./session.ts";
import { translateTunnel, tunnelProtocol } from "./tunnel.ts";
import { handshakeAnswer } from "./websocket/handshake.ts";

export interface SessionDeps {
  readonly clock: Clock;
  /** Ends a session in which no byte has moved for this time. 0: never. */
  readonly idleTimeoutMs: number;
}

const SPDY = "SPDY/3.1";
/** A client that has received everything has this time to close its connection. */
const CLOSE_MS = 5_000;

/** Whether a request for an upgrade asks for a WebSocket. */
export function isWebSocket({ protocol }: Pick<UpgradeRequest, "protocol">): boolean {
  return protocol.toLowerCase() === "websocket";
}

/**
 * Connects the client to the runtime: sends its request on, and from then on every byte as it is. An answer that upgrades
 * nothing goes to the client, and ends the session (CVE-2018-1002105). Throws `ApiError` before it writes; resolves when
 * the session has ended.
 */
export async function proxyUpgrade(request: UpgradeRequest, url: string, deps: SessionDeps): Promise<void> {
  const { method, signal, socket } = request;
  const backendRequest = { url, method, rawHeaders: forwardedHeaders(request.rawHeaders) };
  const answer = await requestBackend(backendRequest, { clock: deps.clock, signal });
  if (answer.status !== 101) return await passRefusal(answer, socket, deps);
  socket.write(answer.head);
  await run(request, answer, passThrough, deps);
}

/** The headers that the runtime gets: without those that authenticate the client, and those that proxies add. */
function forwardedHeaders(rawHeaders: readonly string[]): readonly string[] {
  return rawHeaders.filter((_, index) => !WITHHELD.test(rawHeaders[index - (index % 2)] ?? ""));
}

const WITHHELD =
  /^(host|authorization|cookie|forwarded|x-forwarded-.*|x-remote-.*|proxy-.*|content-length|transfer-encoding|expect)$/i;

function spdyHeaders(protocols: readonly string[]): readonly string[] {
  const versions = protocols.flatMap((protocol) => ["X-Stream-Protocol-Version", protocol]);
  return ["Connection", "Upgrade", "Upgrade", SPDY, ...versions];
}

/**
 * Accepts a client's WebSocket of exec or attach, opens the session with the runtime by SPDY and translates. What fails
 * after the handshake is reported on the error channel, as the kubelet does. Throws `ApiError` before it writes.
 */
export async function upgradeExecWebSocket(
  request: UpgradeRequest,
  url: string,
  streams: ProcessStreams,
  deps: SessionDeps,
): Promise<void> {
  const { socket, signal } = request;
  socket.write(handshakeAnswer(request, WEBSOCKET_PROTOCOL));
  socket.write(openingMessage(streams));
  const backendRequest = { url, method: "POST", rawHeaders: spdyHeaders([REMOTE_COMMAND_PROTOCOL]) };
  try {
    const answer = await requestBackend(backendRequest, { clock: deps.clock, signal });
    if (answer.status !== 101) {
      const { body } = await readRefusal(answer, deps.clock);
      throw new ApiError(500, `unable to upgrade connection: ${body.toString().trim()}`);
    }
    await run(request, answer, translateExec(streams, deps.clock), deps);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    endClient(socket, failureMessages(error.message.trim()), deps.clock);
  }
}

/** Accepts a client's WebSocket that tunnels SPDY, and connects the SPDY inside to the runtime. Throws `ApiError` before it writes. */
export async function tunnelUpgrade(
  request: UpgradeRequest,
  url: string,
  protocols: readonly string[],
  deps: SessionDeps,
): Promise<void> {
  const { socket, signal } = request;
  // A bad handshake must not cost a connection to the runtime.
  handshakeAnswer(request, undefined);
  const backendRequest = { url, method: "POST", rawHeaders: spdyHeaders(protocols) };
  const answer = await requestBackend(backendRequest, { clock: deps.clock, signal });
  if (answer.status !== 101) return await passRefusal(answer, socket, deps);
  if (!isSpdyUpgrade(answer)) {
    answer.socket.destroy();
    throw proxyError("unable to upgrade: missing upgrade headers in response");
  }
  const protocol = answer.headers["x-stream-protocol-version"];
  socket.write(handshakeAnswer(request, protocol && tunnelProtocol(protocol)));
  await run(request, answer, translateTunnel, deps);
}

function isSpdyUpgrade({ headers }: BackendAnswer): boolean {
  const { connection = "", upgrade = "" } = headers;
  return connection.toLowerCase().includes("upgrade") && upgrade.toLowerCase().includes(SPDY.toLowerCase());
}

function run(
  { socket, head, signal }: UpgradeRequest,
  { socket: backend, rest }: BackendAnswer,
  translate: (session: Session) => Translation,
  deps: SessionDeps,
): Promise<void> {
  const sides = { client: socket, backend };
  return runSession(sides, { client: head, backend: rest }, translate, { ...deps, signal });
}

/**
 * Sends a client the answer of a runtime that upgrades nothing, and closes both connections: what the client sends next
 * must never reach the runtime. Throws `ApiError` for a redirect or another answer below 400.
 */
async function passRefusal(answer: BackendAnswer, client: Duplex, { clock }: SessionDeps): Promise<void> {
  if (answer.status < 400) {
    answer.socket.destroy();
    throw proxyError(`invalid upgrade response: status code ${answer.status}`);
  }
  const { body, headerLines } = await readRefusal(answer, clock);
  const head = [`HTTP/1.1 ${answer.status} ${answer.reason}`, ...headerLines, "Connection: close"];
  endClient(client, Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), body]), clock);
}

function endClient(client: Duplex, lastBytes: Buffer, clock: Clock): void {
  const cancel = clock.wakeAt(clock.now() + CLOSE_MS, () => client.destroy());
  client.on("close", cancel);
  // The end of the connection is seen only if everything that the client still sends is read.
  client.resume();
  client.end(lastBytes);
}
