import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../../../test/fakes/least-count.ts";
import { mutatedBytes } from "../../../../test/fakes/mutated-bytes.ts";
import { dataFrames, pingFrame, resetFrame } from "./frame-writer.ts";
import { createFrameReader, SpdyError } from "./frames.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

/** What a reader reports: each event, the data of a stream without a gap as one, and whether it has refused the rest. */
interface Reading {
  readonly events: readonly string[];
  readonly isRefused: boolean;
}

/** The events of one reading; the parts in which data arrives make no difference. */
function createEvents() {
  const events: string[] = [];
  let data = Buffer.alloc(0);
  let dataOf = 0;
  const flush = () => {
    if (data.length > 0) events.push(`data ${dataOf} ${data.toString("hex")}`);
    data = Buffer.alloc(0);
  };
  return {
    onData(id: number, part: Buffer) {
      // A reader need not report a frame without data.
      if (part.length === 0) return;
      if (id !== dataOf) flush();
      dataOf = id;
      data = Buffer.concat([data, part]);
    },
    add(event: string) {
      flush();
      events.push(event);
    },
    end: () => {
      flush();
      return events;
    },
  };
}

/** Reads the bytes, which arrive in chunks of these sizes, then the rest. */
function read(bytes: Buffer, chunkSizes: readonly number[]): Reading {
  const events = createEvents();
  const take = createFrameReader({
    onData(id, part, isLast) {
      events.onData(id, part);
      if (isLast) events.add(`end ${id}`);
    },
    onReply: (id, isLast) => events.add(`reply ${id} ${isLast}`),
    onReset: (id) => events.add(`reset ${id}`),
    onPing: (id) => events.add(`ping ${id}`),
    onGoAway: () => events.add("go away"),
  });
  try {
    let start = 0;
    for (const size of chunkSizes) {
      take(bytes.subarray(start, start + size));
      start += size;
    }
    take(bytes.subarray(start));
    return { events: events.end(), isRefused: false };
  } catch (error) {
    expect(error).toBeInstanceOf(SpdyError);
    return { events: events.end(), isRefused: true };
  }
}

/** The same as the specification says it, of bytes that are all there. */
function expected(bytes: Buffer): Reading {
  const events = createEvents();
  const refused = () => ({ events: events.end(), isRefused: true });
  let at = 0;
  while (bytes.length - at >= 8) {
    const [first, flags] = [bytes.readUInt32BE(at), bytes.readUInt8(at + 4)];
    const length = bytes.readUIntBE(at + 5, 3);
    const payload = bytes.subarray(at + 8, at + 8 + length);
    const isLast = (flags & 1) !== 0;
    if (first < 2 ** 31) {
      if (first === 0) return refused();
      events.onData(first, payload);
      if (payload.length === length && isLast) events.add(`end ${first}`);
    } else {
      const [version, type] = [bytes.readUInt16BE(at) - 0x8000, bytes.readUInt16BE(at + 2)];
      if (version !== 3 || length > 65_536 || length < 4) return refused();
      if (payload.length >= 4) {
        const id = payload.readUInt32BE(0);
        if (type === 1) return refused();
        if (type === 2) events.add(`reply ${id % 2 ** 31} ${isLast}`);
        if (type === 3) events.add(`reset ${id % 2 ** 31}`);
        if (type === 6) events.add(`ping ${id}`);
        if (type === 7) events.add("go away");
      }
    }
    at += 8 + length;
  }
  return { events: events.end(), isRefused: false };
}

const streamId = fc.constantFrom(1, 3, 5, 2 ** 31 - 1);
/** What containerd sends besides data: a reply with compressed headers, GOAWAY, SETTINGS, WINDOW_UPDATE. */
const recorded = [
  "80030002000000140000000578f9e3c6a7c26260606000000000ffff",
  "800300020000000c00000003026100000000ffff",
  "80030007000000080000000500000000",
  "800300040000000400000000",
  "80030009000000080000000100001000",
];
const frame = fc.oneof(
  fc
    .tuple(streamId, fc.uint8Array({ maxLength: 20 }), fc.boolean())
    .map(([id, data, isLast]) => dataFrames(id, Buffer.from(data), isLast)),
  streamId.map(resetFrame),
  fc.nat().map(pingFrame),
  fc.constantFrom(...recorded).map((hex) => Buffer.from(hex, "hex")),
);
const frames = fc.array(frame, { minLength: 1, maxLength: 6 }).map((all) => Buffer.concat(all));

test(
  "frames with faults are read as the specification says, in whatever parts they arrive, or refused",
  () => {
    let [readAll, refused] = [0, 0];
    const property = fc.property(mutatedBytes(frames), fc.array(fc.nat(30), { maxLength: 10 }), (bytes, sizes) => {
      const reading = read(bytes, sizes);
      expect(reading).toEqual(expected(bytes));
      if (reading.isRefused) refused += 1;
      else if (reading.events.length > 1) readAll += 1;
    });
    fc.assert(property, { numRuns });
    expect(readAll).toBeGreaterThanOrEqual(leastCount(numRuns, 5));
    expect(refused).toBeGreaterThanOrEqual(leastCount(numRuns, 50));
  },
  longMs,
);
