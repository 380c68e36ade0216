import { CANCEL, ControlType, FIN, SPDY_VERSION } from "./protocol.ts";

/** Of one frame: 24 bits hold the length. */
const MAX_DATA_BYTES = 0xff_ffff;

/** A data frame, or several if the data is too long for one. */
export function dataFrames(streamId: number, data: Buffer, isLast: boolean): Buffer {
  if (data.length > MAX_DATA_BYTES)
    return Buffer.concat([
      dataFrames(streamId, data.subarray(0, MAX_DATA_BYTES), false),
      dataFrames(streamId, data.subarray(MAX_DATA_BYTES), isLast),
    ]);
  const frame = Buffer.allocUnsafe(8 + data.length);
  frame.writeUInt32BE(streamId, 0);
  frame.writeUInt32BE(data.length, 4);
  frame.writeUInt8(isLast ? FIN : 0, 4);
  data.copy(frame, 8);
  return frame;
}

/** A PING frame. The peer answers it with the same id. */
export function pingFrame(id: number): Buffer {
  return controlFrame(ControlType.ping, uint32(id));
}

/** A RST_STREAM frame, which ends both directions of a stream. */
export function resetFrame(streamId: number): Buffer {
  return controlFrame(ControlType.rstStream, Buffer.concat([uint32(streamId), uint32(CANCEL)]));
}

/**
 * Returns a function that writes SYN_STREAM frames of one connection. The headers of all its frames are one zlib stream.
 * Its blocks are stored, not compressed: every reader of zlib takes those, SPDY's dictionary is not needed, and a session
 * has only a few short headers.
 */
export function createSynStreamWriter(): (streamId: number, headers: Readonly<Record<string, string>>) => Buffer {
  let zlibHeader = ZLIB_HEADER;
  return (streamId, headers) => {
    const block = Buffer.concat([zlibHeader, storedBlock(headerBlock(headers)), SYNC_FLUSH]);
    zlibHeader = Buffer.alloc(0);
    // No stream that it belongs to, highest priority, no credential slot.
    const payload = Buffer.concat([uint32(streamId), uint32(0), Buffer.from([0, 0]), block]);
    return controlFrame(ControlType.synStream, payload);
  };
}

/** RFC 1950: deflate with a window of 32 KiB, no dictionary, and the check bits of that. */
const ZLIB_HEADER = Buffer.from([0x78, 0x01]);
/** RFC 1951: an empty stored block. A reader delivers what it has when it meets one. */
const SYNC_FLUSH = Buffer.from([0, 0, 0, 0xff, 0xff]);
const MAX_STORED_BYTES = 0xffff;

function storedBlock(bytes: Buffer): Buffer {
  if (bytes.length > MAX_STORED_BYTES) throw new RangeError(`headers of ${bytes.length} bytes`);
  const lengths = Buffer.alloc(5);
  lengths.writeUInt16LE(bytes.length, 1);
  lengths.writeUInt16LE(~bytes.length & 0xffff, 3);
  return Buffer.concat([lengths, bytes]);
}

function headerBlock(headers: Readonly<Record<string, string>>): Buffer {
  const entries = Object.entries(headers);
  const texts = entries.flatMap(([name, value]) => [name.toLowerCase(), value]);
  const parts = texts.flatMap((text) => {
    const bytes = Buffer.from(text);
    return [uint32(bytes.length), bytes];
  });
  return Buffer.concat([uint32(entries.length), ...parts]);
}

function controlFrame(type: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt16BE(0x8000 | SPDY_VERSION, 0);
  header.writeUInt16BE(type, 2);
  // No control frame of a client has a flag.
  header.writeUInt32BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value, 0);
  return bytes;
}
