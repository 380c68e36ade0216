// The frames of RFC 6455, as a server reads and writes them. Messages are passed on as they arrive and never joined, so
// that a message of any length takes no memory.

/** The client has violated the protocol; `code` is the status of the close frame that says so. */
export class WebSocketError extends Error {
  override readonly name = "WebSocketError";
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export const Opcode = { continuation: 0x0, text: 0x1, binary: 0x2, close: 0x8, ping: 0x9, pong: 0xa } as const;
export const CloseCode = { normal: 1000, protocolError: 1002, tooBig: 1009, internalError: 1011 } as const;

export interface WebSocketListener {
  /** A part of a text or binary message. A message has at least one part, which may be empty. */
  onData(part: Buffer, isFirst: boolean, isLast: boolean): void;
  onPing(payload: Buffer): void;
  /** The client sends nothing more. */
  onClose(): void;
}

/** As Go's servers of Kubernetes: x/net/websocket refuses longer frames. */
const MAX_FRAME_BYTES = 32 * 1024 * 1024;
const MAX_CONTROL_BYTES = 125;
const MASK_BYTES = 4;
const FIN = 0x80;
const RESERVED_BITS = 0x70;
const MASKED = 0x80;

interface FrameHeader {
  readonly isFinal: boolean;
  readonly opcode: number;
  readonly length: number;
  readonly mask: Buffer;
}

/**
 * Returns a function that takes the bytes of a client's connection as they arrive and calls the listener. It keeps at
 * most one control frame of 125 bytes. It throws `WebSocketError` for a malformed frame; it must not be called again then.
 */
export function createFrameReader(listener: WebSocketListener): (bytes: Buffer) => void {
  const headerBytes = Buffer.alloc(2 + 8 + MASK_BYTES);
  let headerCount = 0;
  let frame: FrameHeader | undefined;
  let position = 0;
  let control = Buffer.alloc(0);
  /** A message has started, and its last frame has not arrived. */
  let isInMessage = false;
  let isFirstPart = true;
  let isClosed = false;

  function readHeader(bytes: Buffer): Buffer {
    let rest = bytes;
    while (rest.length > 0) {
      const wanted = headerLength(headerBytes, headerCount);
      const count = Math.min(rest.length, wanted - headerCount);
      rest.copy(headerBytes, headerCount, 0, count);
      headerCount += count;
      rest = rest.subarray(count);
      if (headerCount < wanted || headerCount < headerLength(headerBytes, headerCount)) continue;
      frame = parseHeader(headerBytes, isInMessage);
      headerCount = 0;
      position = 0;
      isFirstPart = isControl(frame.opcode) ? isFirstPart : frame.opcode !== Opcode.continuation;
      if (!isControl(frame.opcode)) isInMessage = !frame.isFinal;
      return rest;
    }
    return rest;
  }
  function readPayload(current: FrameHeader, bytes: Buffer): Buffer {
    const part = bytes.subarray(0, current.length - position);
    unmask(part, current.mask, position);
    position += part.length;
    const isComplete = position === current.length;
    if (isComplete) frame = undefined;
    if (isControl(current.opcode)) {
      control = Buffer.concat([control, part]);
      if (isComplete) endControl(current.opcode);
    } else if (part.length > 0 || isComplete) {
      listener.onData(part, isFirstPart, isComplete && current.isFinal);
      isFirstPart = false;
    }
    return bytes.subarray(part.length);
  }
  function endControl(opcode: number): void {
    const payload = control;
    control = Buffer.alloc(0);
    if (opcode === Opcode.ping) listener.onPing(payload);
    if (opcode !== Opcode.close) return;
    isClosed = true;
    listener.onClose();
  }

  return (received) => {
    let bytes = received;
    while (!isClosed && (bytes.length > 0 || frame?.length === 0)) {
      bytes = frame === undefined ? readHeader(bytes) : readPayload(frame, bytes);
    }
  };
}

const isControl = (opcode: number) => (opcode & 0x8) !== 0;

/** The length of a header whose first `count` bytes are known. */
function headerLength(bytes: Buffer, count: number): number {
  if (count < 2) return 2;
  const length = bytes.readUInt8(1) & 0x7f;
  return 2 + (length === 126 ? 2 : length === 127 ? 8 : 0) + ((bytes.readUInt8(1) & MASKED) === 0 ? 0 : MASK_BYTES);
}

function parseHeader(bytes: Buffer, isInMessage: boolean): FrameHeader {
  const first = bytes.readUInt8(0);
  const opcode = first & 0xf;
  const isFinal = (first & FIN) !== 0;
  const refuse = (message: string) => new WebSocketError(CloseCode.protocolError, message);
  if ((first & RESERVED_BITS) !== 0) throw refuse("a reserved bit is set");
  if (!Object.values<number>(Opcode).includes(opcode)) throw refuse(`unknown opcode ${opcode}`);
  if ((bytes.readUInt8(1) & MASKED) === 0) throw refuse("the frame of a client is not masked");
  if (!isControl(opcode) && (opcode === Opcode.continuation) !== isInMessage)
    throw refuse(isInMessage ? "a message within a message" : "a continuation of no message");
  const short = bytes.readUInt8(1) & 0x7f;
  const length = short === 127 ? Number(bytes.readBigUInt64BE(2)) : short === 126 ? bytes.readUInt16BE(2) : short;
  if (isControl(opcode) && (!isFinal || length > MAX_CONTROL_BYTES))
    throw refuse("a control frame is fragmented, or longer than 125 bytes");
  if (length > MAX_FRAME_BYTES) throw new WebSocketError(CloseCode.tooBig, `a frame of ${length} bytes`);
  const maskAt = headerLength(bytes, 2) - MASK_BYTES;
  return { isFinal, opcode, length, mask: Buffer.from(bytes.subarray(maskAt, maskAt + MASK_BYTES)) };
}

/** Unmasks in place; `position` is how much of the payload came before. */
function unmask(bytes: Buffer, mask: Buffer, position: number): void {
  for (let index = 0; index < bytes.length; index++)
    bytes[index] = (bytes[index] ?? 0) ^ (mask[(position + index) & 3] ?? 0);
}

/** A frame of a server: whole, and not masked. */
export function serverFrame(opcode: number, ...parts: readonly Buffer[]): Buffer {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  const header = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  header.writeUInt8(FIN | opcode, 0);
  header.writeUInt8(length < 126 ? length : length < 65_536 ? 126 : 127, 1);
  if (header.length === 4) header.writeUInt16BE(length, 2);
  if (header.length === 10) header.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([header, ...parts]);
}

/** A close frame of a server, with a status of `CloseCode`. */
export function closeFrame(code: number): Buffer {
  const status = Buffer.alloc(2);
  status.writeUInt16BE(code, 0);
  return serverFrame(Opcode.close, status);
}
