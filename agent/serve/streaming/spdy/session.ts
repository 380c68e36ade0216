import { createSynStreamWriter, dataFrames, pingFrame, resetFrame } from "./frame-writer.ts";
import { createFrameReader } from "./frames.ts";

/** What arrives on one stream. */
export interface StreamListener {
  onData(part: Buffer): void;
  /** The peer sends no more: it has ended or reset the stream, or the session has ended. Called once. */
  onEnd(): void;
}

export interface SpdyStream {
  /** Resolves to whether the peer has accepted the stream. It drops what is sent earlier. */
  readonly accepted: Promise<boolean>;
  write(data: Buffer): void;
  /** Tells the peer that no more data follows. */
  end(): void;
  reset(): void;
}

/** The client's side of a SPDY/3.1 connection. */
export interface SpdySession {
  open(headers: Readonly<Record<string, string>>, listener: StreamListener): SpdyStream;
  /** Takes the bytes that the connection has received. Throws `SpdyError` if they are malformed; the caller closes the connection then. */
  receive(bytes: Buffer): void;
  /** Sends a ping, which keeps the peer from ending a connection that is idle. */
  ping(): void;
  /** The connection is closed: every stream ends. */
  end(): void;
}

interface OpenStream extends StreamListener {
  accept(isAccepted: boolean): void;
}

/** The highest odd id. */
const MAX_PING_ID = 0x7fff_ffff;

/** `send` writes to the connection; its owner limits how much is read and written. */
export function createSpdySession(send: (bytes: Buffer) => void): SpdySession {
  const synStream = createSynStreamWriter();
  const streams = new Map<number, OpenStream>();
  let nextStreamId = 1;
  let nextPingId = 1;

  function endStream(id: number): void {
    const stream = streams.get(id);
    streams.delete(id);
    stream?.accept(false);
    stream?.onEnd();
  }
  const receive = createFrameReader({
    onData(id, part, isLast) {
      if (part.length > 0) streams.get(id)?.onData(part);
      if (isLast) endStream(id);
    },
    onReply(id, isLast) {
      streams.get(id)?.accept(true);
      if (isLast) endStream(id);
    },
    onReset: endStream,
    onPing(id) {
      // Odd ids are answers to pings of ours.
      if (id % 2 === 0) send(pingFrame(id));
    },
    onGoAway() {
      // The peer closes the connection itself when the streams have ended.
    },
  });

  return {
    receive,
    open(headers, listener) {
      const id = nextStreamId;
      nextStreamId += 2;
      const { promise: accepted, resolve: accept } = Promise.withResolvers<boolean>();
      streams.set(id, { ...listener, accept });
      send(synStream(id, headers));
      let hasEnded = false;
      return {
        accepted,
        write(data) {
          if (!hasEnded) send(dataFrames(id, data, false));
        },
        end() {
          if (!hasEnded) send(dataFrames(id, Buffer.alloc(0), true));
          hasEnded = true;
        },
        reset() {
          if (!hasEnded) send(resetFrame(id));
          hasEnded = true;
          endStream(id);
        },
      };
    },
    ping() {
      send(pingFrame(nextPingId));
      nextPingId = nextPingId < MAX_PING_ID ? nextPingId + 2 : 1;
    },
    end() {
      for (const id of [...streams.keys()]) endStream(id);
    },
  };
}
