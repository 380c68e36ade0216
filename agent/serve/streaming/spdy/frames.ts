// The frames of SPDY/3.1 that a client of a runtime's streaming server needs. Kubernetes' servers (moby/spdystream) do no
// flow control, and answer with headers that carry nothing, so those are skipped and nothing is ever inflated.
import { ControlType, FIN, SPDY_VERSION } from "./protocol.ts";

/** The peer has violated the protocol; the connection is of no more use. */
export class SpdyError extends Error {
  override readonly name = "SpdyError";
}

export interface FrameListener {
  /** A part of a data frame; parts arrive as they are received and are never joined. `isLast`: the peer sends no more. */
  onData(streamId: number, part: Buffer, isLast: boolean): void;
  /** The peer has accepted a stream. */
  onReply(streamId: number, isLast: boolean): void;
  /** The peer has ended both directions of a stream. */
  onReset(streamId: number): void;
  onPing(id: number): void;
  /** The peer accepts no more streams, and closes the connection when the present ones have ended. */
  onGoAway(): void;
}

/** No frame of a streaming server is longer than a few bytes, except those of data. */
const MAX_CONTROL_BYTES = 65_536;
const HEADER_BYTES = 8;
/** How much of a control frame is read: the stream's id, and what follows it. */
const CONTROL_BYTES = 4;

/**
 * Returns a function that takes the bytes of a connection as they arrive and calls the listener with each frame. It
 * keeps at most twelve bytes. It throws `SpdyError` for a malformed frame; it must not be called again then.
 */
export function createFrameReader(listener: FrameListener): (bytes: Buffer) => void {
  const header = Buffer.alloc(HEADER_BYTES + CONTROL_BYTES);
  let headerBytes = 0;
  /** What remains of the current frame, once its header is complete. */
  let restBytes = 0;

  function take(bytes: Buffer, wanted: number): number {
    const count = Math.min(bytes.length, wanted - headerBytes);
    bytes.copy(header, headerBytes, 0, count);
    headerBytes += count;
    return count;
  }
  function startFrame(): void {
    restBytes = header.readUInt32BE(4) & 0xff_ffff;
    if (isControl(header)) checkControl(header, restBytes);
    else if (streamIdOf(header) === 0) throw new SpdyError("data without a stream");
    if (restBytes === 0 && !isControl(header)) endData(Buffer.alloc(0));
  }
  function endData(part: Buffer): void {
    const isLast = restBytes === 0 && (header.readUInt8(4) & FIN) !== 0;
    if (part.length > 0 || isLast) listener.onData(streamIdOf(header), part, isLast);
    if (restBytes === 0) headerBytes = 0;
  }
  function readControl(bytes: Buffer): Buffer {
    const wanted = HEADER_BYTES + CONTROL_BYTES;
    if (headerBytes < wanted) {
      const count = take(bytes, wanted);
      restBytes -= count;
      if (headerBytes === wanted) dispatch(header, listener);
      return bytes.subarray(count);
    }
    const skipped = Math.min(restBytes, bytes.length);
    restBytes -= skipped;
    return bytes.subarray(skipped);
  }

  return (received) => {
    let bytes = received;
    while (bytes.length > 0) {
      if (headerBytes < HEADER_BYTES) {
        bytes = bytes.subarray(take(bytes, HEADER_BYTES));
        if (headerBytes === HEADER_BYTES) startFrame();
      } else if (isControl(header)) {
        bytes = readControl(bytes);
        if (headerBytes > HEADER_BYTES && restBytes === 0) headerBytes = 0;
      } else {
        const part = bytes.subarray(0, restBytes);
        restBytes -= part.length;
        bytes = bytes.subarray(part.length);
        endData(part);
      }
    }
  };
}

const isControl = (header: Buffer) => (header.readUInt8(0) & 0x80) !== 0;
const streamIdOf = (header: Buffer) => header.readUInt32BE(0) & 0x7fff_ffff;

function checkControl(header: Buffer, length: number): void {
  const version = header.readUInt16BE(0) & 0x7fff;
  if (version !== SPDY_VERSION) throw new SpdyError(`a frame of SPDY version ${version}`);
  if (length > MAX_CONTROL_BYTES) throw new SpdyError(`a control frame of ${length} bytes`);
  // Every control frame begins with an id or a number.
  if (length < CONTROL_BYTES) throw new SpdyError(`a control frame of only ${length} bytes`);
}

function dispatch(header: Buffer, listener: FrameListener): void {
  const type = header.readUInt16BE(2);
  const isLast = (header.readUInt8(4) & FIN) !== 0;
  const id = header.readUInt32BE(8);
  switch (type) {
    case ControlType.synReply:
      listener.onReply(id & 0x7fff_ffff, isLast);
      break;
    case ControlType.rstStream:
      listener.onReset(id & 0x7fff_ffff);
      break;
    case ControlType.ping:
      listener.onPing(id);
      break;
    case ControlType.goAway:
      listener.onGoAway();
      break;
    case ControlType.synStream:
      throw new SpdyError("a stream that the server has opened");
    // SETTINGS, HEADERS and WINDOW_UPDATE change nothing here, and a client has to ignore types that it does not know.
  }
}
