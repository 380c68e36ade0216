import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../../../test/fakes/least-count.ts";
import { mutatedBytes } from "../../../../test/fakes/mutated-bytes.ts";
import { createFrameReader, WebSocketError } from "./frames.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

interface Reading {
  /** The whole messages, the pings and the close. */
  readonly events: readonly string[];
  /** The status with which the reader has refused the rest. */
  readonly refusedWith?: number;
}

/** Reads the bytes, which arrive in chunks of these sizes, then the rest. */
function read(bytes: Buffer, chunkSizes: readonly number[]): Reading {
  const events: string[] = [];
  let message = "";
  const take = createFrameReader({
    onData(part, isFirst, isLast) {
      message = (isFirst ? "" : message) + part.toString("hex");
      if (isLast) events.push(`message ${message}`);
    },
    onPing: (payload) => events.push(`ping ${payload.toString("hex")}`),
    onClose: () => events.push("close"),
  });
  try {
    let start = 0;
    for (const size of chunkSizes) {
      // It unmasks in place.
      take(Buffer.from(bytes.subarray(start, start + size)));
      start += size;
    }
    take(Buffer.from(bytes.subarray(start)));
    return { events };
  } catch (error) {
    expect(error).toBeInstanceOf(WebSocketError);
    return { events, refusedWith: (error as WebSocketError).code };
  }
}

interface Frame {
  readonly isFinal: boolean;
  readonly reserved: number;
  readonly opcode: number;
  readonly isMasked: boolean;
  readonly length: bigint;
  /** As much of it as is there, unmasked. */
  readonly payload: Buffer;
  readonly bytes: number;
}

/** The frame at the beginning of the bytes; undefined if its header is not whole. */
function firstFrame(bytes: Buffer): Frame | undefined {
  if (bytes.length < 2) return undefined;
  const [first, second] = [bytes.readUInt8(0), bytes.readUInt8(1)];
  const isMasked = second >= 128;
  const lengthBytes = { 126: 2, 127: 8 }[second % 128] ?? 0;
  const headerBytes = 2 + lengthBytes + (isMasked ? 4 : 0);
  if (bytes.length < headerBytes) return undefined;
  const long = bytes.subarray(2, 2 + lengthBytes).toString("hex");
  const length = long === "" ? BigInt(second % 128) : BigInt(`0x${long}`);
  const mask = bytes.subarray(headerBytes - 4, headerBytes);
  const rest = bytes.subarray(headerBytes);
  const payload = length > rest.length ? rest : rest.subarray(0, Number(length));
  return {
    isFinal: first >= 128,
    reserved: (first >> 4) % 8,
    opcode: first % 16,
    isMasked,
    length,
    payload: Buffer.from(payload.map((byte, index) => byte ^ mask[index % 4]!)),
    bytes: headerBytes + payload.length,
  };
}

/** The same as RFC 6455 says it, of bytes that are all there. */
function expected(bytes: Buffer): Reading {
  const events: string[] = [];
  let message: string | undefined;
  let rest = bytes;
  for (let frame = firstFrame(rest); frame !== undefined; frame = firstFrame(rest)) {
    const { isFinal, reserved, opcode, isMasked, length, payload } = frame;
    const isControl = opcode >= 8;
    const isKnown = [0, 1, 2, 8, 9, 10].includes(opcode);
    const isInOrder = isControl || (opcode === 0) === (message !== undefined);
    const isShortControl = !isControl || (isFinal && length < 126n);
    if (reserved !== 0 || !isKnown || !isMasked || !isInOrder || !isShortControl) return { events, refusedWith: 1002 };
    if (length > 32n * 1024n * 1024n) return { events, refusedWith: 1009 };
    const isWhole = BigInt(payload.length) === length;
    const text = payload.toString("hex");
    if (!isControl) message = (message ?? "") + text;
    if (!isControl && isWhole && isFinal) {
      events.push(`message ${message}`);
      message = undefined;
    }
    if (isWhole && opcode === 9) events.push(`ping ${text}`);
    if (isWhole && opcode === 8) return { events: [...events, "close"] };
    rest = rest.subarray(frame.bytes);
  }
  return { events };
}

/** A frame of a client. */
function clientFrame(opcode: number, isFinal: boolean, payload: Uint8Array, mask: Uint8Array): Buffer {
  const length = payload.length;
  const lengths = length < 126 ? [128 + length] : [128 + 126, length >> 8, length & 255];
  const masked = payload.map((byte, index) => byte ^ mask[index % 4]!);
  return Buffer.concat([Buffer.from([(isFinal ? 128 : 0) + opcode, ...lengths]), mask, masked]);
}

const mask = fc.uint8Array({ minLength: 4, maxLength: 4 });
const payload = fc.oneof(fc.uint8Array({ maxLength: 20 }), fc.uint8Array({ minLength: 126, maxLength: 130 }));
/** A message in one to three fragments, with a ping or a pong behind each. */
const message = fc
  .tuple(
    fc.constantFrom(1, 2),
    fc.array(
      fc.tuple(payload, mask, fc.option(fc.tuple(fc.constantFrom(9, 10), fc.uint8Array({ maxLength: 5 }), mask))),
      {
        minLength: 1,
        maxLength: 3,
      },
    ),
  )
  .map(([opcode, fragments]) =>
    Buffer.concat(
      fragments.flatMap(([content, key, control], at) => [
        clientFrame(at === 0 ? opcode : 0, at === fragments.length - 1, content, key),
        ...(control === null ? [] : [clientFrame(control[0], true, control[1], control[2])]),
      ]),
    ),
  );
const close = mask.map((key) => clientFrame(8, true, Buffer.from([3, 232]), key));
const frames = fc
  .tuple(fc.array(message, { minLength: 1, maxLength: 3 }), fc.option(close))
  .map(([messages, end]) => Buffer.concat(end === null ? messages : [...messages, end]));

test(
  "frames with faults are read as RFC 6455 says, in whatever parts they arrive, or refused with its status",
  () => {
    let [readAll, refused] = [0, 0];
    const property = fc.property(mutatedBytes(frames), fc.array(fc.nat(40), { maxLength: 10 }), (bytes, sizes) => {
      const reading = read(bytes, sizes);
      expect(reading).toEqual(expected(bytes));
      if (reading.refusedWith !== undefined) refused += 1;
      else if (reading.events.length > 0) readAll += 1;
    });
    fc.assert(property, { numRuns });
    expect(readAll).toBeGreaterThanOrEqual(leastCount(numRuns, 5));
    expect(refused).toBeGreaterThanOrEqual(leastCount(numRuns, 50));
  },
  longMs,
);
