import { describe, expect, test } from "bun:test";
import {
  attributesByType,
  be16,
  be32,
  decodeAttributes,
  decodeMessages,
  decodeVerdict,
  encodeMessage,
  type MessageInput,
  NLMSG_ERROR,
  readText,
  text,
  throwRefusal,
  u8,
  u32,
  u64,
} from "./codec.ts";
import { errnoName, NetlinkError, unlessCode } from "./error.ts";

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const bytes = (...parts: readonly string[]) => Uint8Array.from(Buffer.from(parts.join("").replaceAll(" ", ""), "hex"));

const message: MessageInput = { type: 16, flags: 0x605, body: new Uint8Array(), attributes: [] };
const header = (length: string) => `${length}000000 1000 0506 07000000 00000000`.replaceAll(" ", "");

describe("a message is encoded", () => {
  test.each<[string, Partial<MessageInput>, string]>([
    ["without a body", {}, header("10")],
    ["with a body that is padded", { body: Uint8Array.of(1, 2, 3) }, `${header("14")}01020300`],
    ["with a byte", { attributes: [[4, u8(1)]] }, `${header("18")}0500040001000000`],
    ["with a number of the machine", { attributes: [[4, u32(1500)]] }, `${header("18")}08000400dc050000`],
    ["with a number of the network", { attributes: [[4, be32(1500)]] }, `${header("18")}08000400000005dc`],
    ["with a negative number of the network", { attributes: [[4, be32(-100)]] }, `${header("18")}08000400ffffff9c`],
    ["with a port", { attributes: [[4, be16(8080)]] }, `${header("18")}060004001f900000`],
    ["with a long number", { attributes: [[4, u64(2 ** 33)]] }, `${header("1c")}0c0004000000000002000000`],
    ["with a text and its null byte", { attributes: [[3, text("lo")]] }, `${header("18")}070003006c6f0000`],
    [
      "with attributes in attributes, which carry a flag",
      {
        attributes: [
          [
            18,
            [
              [1, text("veth")],
              [2, [[1, u8(7)]]],
            ],
          ],
        ],
      },
      `${header("2c")}1c001280 0900010076657468 00000000 0c000280 0500010007000000`.replaceAll(" ", ""),
    ],
    ["with an empty list of attributes", { attributes: [[5, []]] }, `${header("14")}04000580`],
  ])("%s", (_name, input, expected) => {
    expect(hex(encodeMessage({ ...message, ...input }, 7))).toBe(expected);
  });
});

describe("a datagram is decoded", () => {
  const done = "14000000 0300 0200 05000000 00000000 00000000";
  test.each<[string, string, number[]]>([
    ["without a message", "", []],
    ["with one message", done, [3]],
    ["with two messages", `${done}${done}`, [3, 3]],
    ["with a message that needs padding", `12000000 1000 0000 01000000 00000000 aabb 0000 ${done}`, [16, 3]],
    ["with a last message that has no padding", "12000000 1000 0000 01000000 00000000 aabb", [16]],
  ])("%s", (_name, input, types) => {
    expect(decodeMessages(bytes(input)).map(({ type }) => type)).toEqual(types);
  });

  test.each<[string, string, string]>([
    ["a part of a header", "14000000 0300", "6 bytes are left at 0, fewer than a header has"],
    ["a length below that of the header", "0f000000 0300 0200 05000000 00000000", "the length 15 in a datagram of 16"],
    ["a length beyond the datagram", "15000000 0300 0200 05000000 00000000", "the length 21 in a datagram of 16"],
  ])("not with %s", (_name, input, reason) => {
    expect(() => decodeMessages(bytes(input))).toThrow(reason);
  });
});

describe("attributes are decoded", () => {
  test("by their types without flags, of doubled ones the last", () => {
    const found = attributesByType(bytes("05000180 41000000", "05000100 42000000", "04004200"));
    expect([...found].map(([type, value]) => [type, hex(value)])).toEqual([
      [1, "42"],
      [0x42, ""],
    ]);
  });
  test("of a list in their order", () => {
    expect(decodeAttributes(bytes("05000100 41000000", "05000100 42000000")).map(([, value]) => hex(value))).toEqual([
      "41",
      "42",
    ]);
  });
  test.each<[string, string]>([
    ["a length below that of its header", "03000100"],
    ["a length beyond the end", "09000100 41424344"],
  ])("not with %s", (_name, input) => {
    expect(() => decodeAttributes(bytes(input))).toThrow("EBADMSG");
  });
  test.each<[string, string, string]>([
    ["with a null byte", "6c6f00", "lo"],
    ["without one", "6c6f", "lo"],
    ["with bytes behind it", "6c6f0041", "lo"],
    ["that is empty", "", ""],
  ])("and a text %s", (_name, input, expected) => {
    expect(readText(bytes(input))).toBe(expected);
  });
});

describe("the kernel's verdict", () => {
  const echoed = "20000000 1000 0506 07000000 00000000";
  const reason = "0d000100 6e6f7420 6e6f7721 00000000";
  const verdict = (type: number, flags: number, payload: string) =>
    decodeVerdict({ type, flags, sequence: 7, payload: bytes(payload) });
  test.each<[string, number, number, string, { errno: number; reason: string }]>([
    ["is an acknowledgement", NLMSG_ERROR, 0x100, `00000000 ${echoed}`, { errno: 0, reason: "" }],
    ["is a refusal", NLMSG_ERROR, 0x100, `efffffff ${echoed}`, { errno: 17, reason: "" }],
    [
      "has a reason behind a capped request",
      NLMSG_ERROR,
      0x300,
      `efffffff ${echoed} ${reason}`,
      { errno: 17, reason: "not now!" },
    ],
    [
      "has a reason behind the whole request",
      NLMSG_ERROR,
      0x200,
      `efffffff ${echoed} ${"00".repeat(16)} ${reason}`,
      { errno: 17, reason: "not now!" },
    ],
    ["ends a dump", 3, 0, "00000000", { errno: 0, reason: "" }],
    ["ends a dump with a refusal and its reason", 3, 0x200, `eaffffff ${reason}`, { errno: 22, reason: "not now!" }],
  ])("%s", (_name, type, flags, payload, expected) => {
    expect(verdict(type, flags, payload)).toEqual(expected);
  });
  test("without a number is no verdict", () => {
    expect(() => verdict(NLMSG_ERROR, 0, "0000")).toThrow("EBADMSG");
  });
  test("becomes an error with the kernel's name and words", () => {
    expect(() => throwRefusal({ errno: 17, reason: "not now!" }, "create the bridge berth0")).toThrow(
      new NetlinkError("EEXIST", "create the bridge berth0", "not now!"),
    );
    expect(new NetlinkError("EEXIST", "create the bridge berth0", "not now!").message).toBe(
      "cannot create the bridge berth0: EEXIST, not now!",
    );
  });
});

test.each<[number, string]>([
  [17, "EEXIST"],
  [11, "EAGAIN"],
  [95, "EOPNOTSUPP"],
  [85, "ERESTART"],
  [4096, "errno 4096"],
])("error %d has the name %s", (errno, name) => {
  expect(errnoName(errno)).toBe(name);
});

test("an expected error is success, and another one is thrown", () => {
  const fail = (): number => {
    throw new NetlinkError("EEXIST", "create", "");
  };
  expect(unlessCode(["EEXIST"], fail)).toBeUndefined();
  expect(unlessCode(["EEXIST"], () => 5)).toBe(5);
  expect(() => unlessCode(["ENOENT"], fail)).toThrow("EEXIST");
});
