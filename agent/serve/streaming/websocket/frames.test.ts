import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { closeFrame, createFrameReader, Opcode, serverFrame } from "./frames.ts";

/** A frame of a client. */
function clientFrame(opcode: number, text: string, { isFinal = true, mask = [1, 2, 3, 4] } = {}): Buffer {
  const frame = serverFrame(opcode, Buffer.from(text));
  frame.writeUInt8((isFinal ? 0x80 : 0) | opcode, 0);
  const lengthBytes = frame.readUInt8(1) === 127 ? 8 : frame.readUInt8(1) === 126 ? 2 : 0;
  frame.writeUInt8(frame.readUInt8(1) | 0x80, 1);
  const payload = frame.subarray(2 + lengthBytes).map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([frame.subarray(0, 2 + lengthBytes), Buffer.from(mask), payload]);
}

/** What arrives of bytes in chunks of these sizes, then the rest: messages, pings and the end. */
function eventsOf(bytes: Buffer, chunkSizes: readonly number[] = []): readonly string[] {
  const events: string[] = [];
  let message = "";
  const read = createFrameReader({
    onData(part, isFirst, isLast) {
      message = (isFirst ? "" : message) + part.toString();
      if (isLast) events.push(`message ${message.length > 100 ? message.length : JSON.stringify(message)}`);
    },
    onPing: (payload) => events.push(`ping ${payload}`),
    onClose: () => events.push("close"),
  });
  let start = 0;
  for (const size of chunkSizes) {
    // It unmasks in place.
    read(Buffer.from(bytes.subarray(start, start + size)));
    start += size;
  }
  read(Buffer.from(bytes.subarray(start)));
  return events;
}

const sent = Buffer.concat([
  clientFrame(Opcode.binary, "hello"),
  clientFrame(Opcode.binary, ""),
  clientFrame(Opcode.text, "x".repeat(300)),
  clientFrame(Opcode.binary, "in ", { isFinal: false }),
  clientFrame(Opcode.ping, "between"),
  clientFrame(Opcode.continuation, "two ", { isFinal: false, mask: [9, 8, 7, 6] }),
  clientFrame(Opcode.continuation, "parts"),
  clientFrame(Opcode.pong, "unasked"),
  clientFrame(Opcode.binary, "y".repeat(70_000)),
  clientFrame(Opcode.close, "\u0003\u00e8"),
  Buffer.from("what follows a close is ignored"),
]);
const expected = [
  'message "hello"',
  'message ""',
  "message 300",
  "ping between",
  'message "in two parts"',
  "message 70000",
  "close",
];

describe("the reader of WebSocket frames", () => {
  test("reads messages, whole and in fragments, pings and the close", () => {
    expect(eventsOf(sent)).toEqual(expected);
  });

  test("reads them alike if they arrive in any parts", () => {
    expect(eventsOf(sent, Array<number>(800).fill(1))).toEqual(expected);
    fc.assert(
      fc.property(fc.array(fc.nat(400), { maxLength: 50 }), (sizes) => {
        expect(eventsOf(sent, sizes)).toEqual(expected);
      }),
    );
  });

  test("reports no message that breaks off", () => {
    const short = clientFrame(Opcode.binary, "hello");
    for (let length = 0; length < short.length; length++) expect(eventsOf(short.subarray(0, length))).toEqual([]);
  });

  const refused: readonly (readonly [what: string, code: number, bytes: Buffer])[] = [
    ["a frame that is not masked", 1002, serverFrame(Opcode.binary, Buffer.from("a"))],
    ["a reserved bit", 1002, Buffer.from([0xc2, 0x80, 0, 0, 0, 0])],
    ["a reserved opcode", 1002, clientFrame(0x3, "")],
    ["a fragmented ping", 1002, clientFrame(Opcode.ping, "", { isFinal: false })],
    ["a ping of 126 bytes", 1002, clientFrame(Opcode.ping, "p".repeat(126))],
    ["a continuation of nothing", 1002, clientFrame(Opcode.continuation, "a")],
    ["a message within a message", 1002, Buffer.concat([clientFrame(2, "a", { isFinal: false }), clientFrame(2, "b")])],
    ["a frame of 2^63 bytes", 1009, Buffer.from([0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])],
    ["a frame of 33 MiB", 1009, Buffer.from([0x82, 0xff, 0, 0, 0, 0, 2, 0x10, 0, 0, 0, 0, 0, 0])],
  ];
  for (const [what, code, bytes] of refused)
    test(`refuses ${what} with ${code}`, () => {
      const error = (() => {
        try {
          return eventsOf(bytes);
        } catch (thrown) {
          return thrown;
        }
      })();
      expect(error).toMatchObject({ name: "WebSocketError", code });
    });
});

test("frames of a server have the shortest length, and a close has its code", () => {
  expect(serverFrame(Opcode.binary, Buffer.from("a"), Buffer.from("bc")).toString("hex")).toBe("8203616263");
  const headerOf = (length: number) => serverFrame(Opcode.binary, Buffer.alloc(length)).subarray(0, 10).toString("hex");
  expect(headerOf(125)).toStartWith("827d00");
  expect(headerOf(126)).toStartWith("827e007e00");
  expect(headerOf(65_535)).toStartWith("827effff00");
  expect(headerOf(65_536)).toBe("827f0000000000010000");
  expect(closeFrame(1000).toString("hex")).toBe("880203e8");
});
