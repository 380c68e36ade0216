import { describe, expect, test } from "bun:test";
import { constants, inflateSync } from "node:zlib";
import fc from "fast-check";
import { createSynStreamWriter, dataFrames, pingFrame, resetFrame } from "./frame-writer.ts";
import { createFrameReader, SpdyError } from "./frames.ts";
import { createSpdySession } from "./session.ts";

/** What containerd 1.6 sent in a session of `sh -c "echo out; echo err >&2; exit 7"`: replies, output, status, reset, GOAWAY. */
const recorded = Buffer.from(
  "80030002000000140000000578f9e3c6a7c26260606000000000ffff800300020000000c00000003026100000000ffff800300020000000c00000001026100000000ffff" +
    "00000003000000046f75740a000000030100000000000005000000046572720a0000000501000000" +
    `00000001000000027b7d8003000300000008000000010000000580030007000000080000000500000000`,
  "hex",
);

/** The frames in the bytes, which arrive in chunks of these sizes, then the rest. */
function framesOf(bytes: Buffer, chunkSizes: readonly number[] = []): readonly string[] {
  const frames: string[] = [];
  let data = "";
  let dataOf = 0;
  const flush = () => {
    if (data !== "") frames.push(`data ${dataOf} ${JSON.stringify(data)}`);
    data = "";
  };
  const add = (frame: string) => {
    flush();
    frames.push(frame);
  };
  const read = createFrameReader({
    onData(id, part, isLast) {
      if (id !== dataOf) flush();
      dataOf = id;
      data += part.toString("latin1");
      if (isLast) add(`end ${id}`);
    },
    onReply: (id) => add(`reply ${id}`),
    onReset: (id) => add(`reset ${id}`),
    onPing: (id) => add(`ping ${id}`),
    onGoAway: () => add("go away"),
  });
  let start = 0;
  for (const size of chunkSizes) {
    read(bytes.subarray(start, start + size));
    start += size;
  }
  read(bytes.subarray(start));
  flush();
  return frames;
}

const expected = [
  "reply 5",
  "reply 3",
  "reply 1",
  'data 3 "out\\n"',
  "end 3",
  'data 5 "err\\n"',
  "end 5",
  'data 1 "{}"',
  "reset 1",
  "go away",
];

describe("the reader of SPDY frames", () => {
  test("reads what containerd has sent", () => {
    expect(framesOf(recorded)).toEqual(expected);
  });

  test("reads it alike if it arrives in any parts", () => {
    expect(framesOf(recorded, Array<number>(recorded.length).fill(1))).toEqual(expected);
    fc.assert(
      fc.property(fc.array(fc.nat(recorded.length)), (sizes) => {
        expect(framesOf(recorded, sizes)).toEqual(expected);
      }),
    );
  });

  test("reports nothing of a frame that breaks off", () => {
    for (let length = 0; length < recorded.length; length++) {
      const frames = framesOf(recorded.subarray(0, length)).filter((frame) => !frame.startsWith("data"));
      expect(expected).toEqual(expect.arrayContaining([...frames]));
    }
  });

  test("passes a frame of 16 MB on in the parts that it arrives in, without keeping them", () => {
    const sizes: number[] = [];
    const read = createFrameReader({
      onData: (_id, part) => sizes.push(part.length),
      onReply() {},
      onReset() {},
      onPing() {},
      onGoAway() {},
    });
    read(Buffer.from("0000000100ffffff", "hex"));
    const part = Buffer.alloc(65_536);
    for (let index = 0; index < 10; index++) read(part);
    expect(sizes).toEqual(Array<number>(10).fill(65_536));
  });

  const refused: readonly (readonly [what: string, hex: string])[] = [
    ["another version", "8002000200000004"],
    ["data of stream 0", "0000000000000001"],
    ["a control frame of 16 MB", "8003000400ffffff"],
    ["a control frame without an id", "8003000600000002"],
    ["a stream that the server opens", "800300010000000a00000002000000000000"],
  ];
  for (const [what, hex] of refused)
    test(`refuses ${what}`, () => {
      expect(() => framesOf(Buffer.from(hex, "hex"))).toThrow(SpdyError);
    });

  test("ignores frames that it does not need, and those that it does not know", () => {
    const ignored = ["800300040000000400000000", "80030009000000080000000100001000", "8003005500000004ffffffff"];
    expect(framesOf(Buffer.from(ignored.join(""), "hex"))).toEqual([]);
  });
});

/** The headers in the blocks of SYN_STREAM frames, which are one zlib stream. */
function headersOf(frames: readonly Buffer[]): readonly Readonly<Record<string, string>>[] {
  const inflated = inflateSync(Buffer.concat(frames.map((frame) => frame.subarray(18))), {
    finishFlush: constants.Z_SYNC_FLUSH,
  });
  const blocks: Record<string, string>[] = [];
  let position = 0;
  const number = () => {
    position += 4;
    return inflated.readUInt32BE(position - 4);
  };
  const text = () => {
    const length = number();
    position += length;
    return inflated.toString("utf8", position - length, position);
  };
  while (position < inflated.length) {
    const block: Record<string, string> = {};
    for (let count = number(); count > 0; count--) {
      const name = text();
      block[name] = text();
    }
    blocks.push(block);
  }
  return blocks;
}

describe("the writer of SPDY frames", () => {
  test("writes the headers of all streams as one zlib stream", () => {
    const write = createSynStreamWriter();
    const frames = [write(1, { streamType: "error" }), write(3, { streamType: "data", port: "80" }), write(5, {})];
    expect(frames.map((frame) => frame.readUInt32BE(8))).toEqual([1, 3, 5]);
    expect(frames.map((frame) => frame.readUInt32BE(4))).toEqual(frames.map((frame) => frame.length - 8));
    expect(headersOf(frames)).toEqual([{ streamtype: "error" }, { streamtype: "data", port: "80" }, {}]);
  });

  test("writes frames that its reader reads", () => {
    const frames = [dataFrames(7, Buffer.from("a"), false), dataFrames(7, Buffer.alloc(0), true), pingFrame(3)];
    expect(framesOf(Buffer.concat([...frames, resetFrame(7)]))).toEqual(['data 7 "a"', "end 7", "ping 3", "reset 7"]);
  });

  test("splits data that is too long for one frame", () => {
    const frames = dataFrames(1, Buffer.alloc(0xff_ffff + 5), true);
    expect(frames.length).toBe(0xff_ffff + 5 + 16);
    expect(frames.readUInt32BE(4)).toBe(0xff_ffff);
    expect(frames.readUInt32BE(0xff_ffff + 12)).toBe(0x0100_0005);
  });
});

describe("a SPDY session", () => {
  function startSession() {
    const sent: Buffer[] = [];
    const session = createSpdySession((bytes) => sent.push(bytes));
    const received: string[] = [];
    const open = () => {
      const stream = session.open(
        { streamType: "data" },
        {
          onData: (part) => received.push(part.toString()),
          onEnd: () => received.push("end"),
        },
      );
      sent.length = 0;
      return stream;
    };
    return { session, sent, received, open };
  }

  test("delivers data and the end of a stream once, and knows that it was accepted", async () => {
    const { session, received, open } = startSession();
    const stream = open();
    session.receive(
      Buffer.concat([Buffer.from("800300020000000400000001", "hex"), dataFrames(1, Buffer.from("a"), true)]),
    );
    session.receive(Buffer.concat([resetFrame(1), dataFrames(1, Buffer.from("late"), true)]));
    session.end();
    expect([await stream.accepted, received]).toEqual([true, ["a", "end"]]);
  });

  test("a stream that the peer resets, or whose connection is closed, is not accepted and ends", async () => {
    for (const end of [
      ({ session }: ReturnType<typeof startSession>) => session.receive(resetFrame(1)),
      ({ session }: ReturnType<typeof startSession>) => session.end(),
    ]) {
      const started = startSession();
      const stream = started.open();
      end(started);
      expect([await stream.accepted, started.received]).toEqual([false, ["end"]]);
    }
  });

  test("sends nothing on a stream after its end", () => {
    const { sent, open } = startSession();
    const stream = open();
    stream.write(Buffer.from("a"));
    stream.end();
    stream.end();
    stream.write(Buffer.from("late"));
    expect(Buffer.concat(sent)).toEqual(
      Buffer.concat([dataFrames(1, Buffer.from("a"), false), dataFrames(1, Buffer.alloc(0), true)]),
    );
  });

  test("answers the peer's pings, and not the answers to its own", () => {
    const { session, sent } = startSession();
    session.ping();
    session.ping();
    session.receive(Buffer.concat([pingFrame(1), pingFrame(2), pingFrame(3)]));
    expect(Buffer.concat(sent)).toEqual(Buffer.concat([pingFrame(1), pingFrame(3), pingFrame(2)]));
  });
});
