// A client of port-forward for tests: connections to ports of a pod on one SPDY session, by SPDY or tunnelled in a WebSocket.
import { createSpdySession, type SpdySession } from "../../agent/serve/streaming/spdy/session.ts";
import { upgrade, upgradeToSpdy } from "./streaming-client.ts";

export interface PortForward {
  /** Opens a connection to a port of the pod, sends the data, and ends its own half when as much has come back. Resolves when the pod has ended its half. */
  exchange(port: number, data: Buffer): Promise<{ readonly received: Buffer; readonly error: string }>;
  close(): void;
}

export type OpenPortForward = (port: number, path: string) => Promise<PortForward>;

export const forwardBySpdy: OpenPortForward = async (port, path) => {
  const { socket, rest } = await upgradeToSpdy(port, path, "portforward.k8s.io");
  const session = createSpdySession((bytes) => void socket.write(bytes));
  if (rest.length > 0) session.receive(rest);
  socket.on("data", session.receive);
  socket.on("close", session.end);
  socket.resume();
  return { exchange: exchangesOf(session), close: () => void socket.destroy() };
};

/** Bun's own client takes no subprotocol with a slash. */
export const forwardByWebSocket: OpenPortForward = async (port, path) => {
  const { socket, rest } = await upgrade(port, `GET ${path}`, [
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io",
  ]);
  const session = createSpdySession((bytes) => void socket.write(maskedFrame(bytes)));
  const receive = createServerFrameReader(session.receive);
  receive(rest);
  socket.on("data", receive);
  socket.on("close", session.end);
  socket.resume();
  return { exchange: exchangesOf(session), close: () => void socket.destroy() };
};

/** A binary message of a client, with a mask that is not zero. */
export function maskedFrame(payload: Buffer): Buffer {
  const mask = Buffer.from([1, 2, 3, 4]);
  const header = Buffer.alloc(10);
  header.writeUInt8(0x82, 0);
  header.writeUInt8(0x80 | 127, 1);
  header.writeBigUInt64BE(BigInt(payload.length), 2);
  const masked = payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([header, mask, masked]);
}

/** Reads whole binary messages of a server. */
function createServerFrameReader(onMessage: (payload: Buffer) => void) {
  let received = Buffer.alloc(0);
  return (bytes: Buffer): void => {
    received = Buffer.concat([received, bytes]);
    while (received.length >= 2) {
      const short = received.readUInt8(1);
      const start = short === 127 ? 10 : short === 126 ? 4 : 2;
      if (received.length < start) return;
      const length =
        short === 127 ? Number(received.readBigUInt64BE(2)) : short === 126 ? received.readUInt16BE(2) : short;
      if (received.length < start + length) return;
      if ((received.readUInt8(0) & 0xf) === 2) onMessage(received.subarray(start, start + length));
      received = received.subarray(start + length);
    }
  };
}

function exchangesOf(session: SpdySession): PortForward["exchange"] {
  let requests = 0;
  return async (port, data) => {
    const headers = { port: String(port), requestID: String(requests++) };
    const failed = collectStream(session, { ...headers, streamType: "error" });
    failed.stream.end();
    const forwarded = collectStream(session, { ...headers, streamType: "data" }, data.length);
    await forwarded.stream.accepted;
    forwarded.stream.write(data);
    const [received, error] = await Promise.all([forwarded.ended, failed.ended]);
    return { received, error: error.toString() };
  };
}

/** Ends its own half of the stream when it has received as much as expected. */
function collectStream(session: SpdySession, headers: Readonly<Record<string, string>>, expectedBytes?: number) {
  const parts: Buffer[] = [];
  const { promise: ended, resolve } = Promise.withResolvers<Buffer>();
  const stream = session.open(headers, {
    onData(part) {
      parts.push(part);
      if (Buffer.concat(parts).length === expectedBytes) stream.end();
    },
    onEnd: () => resolve(Buffer.concat(parts)),
  });
  return { stream, ended };
}
