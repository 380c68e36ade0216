import { describe, expect, test } from "bun:test";
import {
  bodyOf,
  type DbusMessage,
  type DbusValue,
  type DbusVariant,
  decodeMessage,
  encodeMessage,
} from "./dbus-message.ts";

const fromHex = (...lines: readonly string[]) => new Uint8Array(Buffer.from(lines.join(""), "hex"));

/** The only message of some bytes, with its values. */
function decode(bytes: Uint8Array): { message: DbusMessage; body: readonly DbusValue[] } {
  const found = decodeMessage(bytes);
  if (found === undefined) throw new Error("no whole message");
  expect(found.length).toBe(bytes.length);
  return { message: found.message, body: bodyOf(found.message) };
}

/**
 * What sd-bus (busctl of systemd 252) sends for `StartTransientUnit 'ssa(sv)a(sa(sv))' kubepods-burstable.slice replace 4
 * Wants as 1 kubepods.slice CPUWeight t 39 TasksMax t 18446744073709551615 AllowedCPUs ay 2 7 2 0`.
 */
const recorded = fromHex(
  "6c010401b000000002000000b600000001016f00190000002f6f72672f667265656465736b746f702f73797374656d64310000000000000003017300",
  "1200000053746172745472616e7369656e74556e697400000000000002017300200000006f72672e667265656465736b746f702e73797374656d6431",
  "2e4d616e61676572000000000000000006017300180000006f72672e667265656465736b746f702e73797374656d6431000000000000000008016700",
  "1073736128737629612873612873762929000000180000006b756265706f64732d627572737461626c652e736c69636500000000070000007265706c",
  "616365007a0000000500000057616e747300026173000000130000000e0000006b756265706f64732e736c6963650000090000004350555765696768",
  "7400017400000000000000002700000000000000080000005461736b734d617800017400ffffffffffffffff0b000000416c6c6f7765644350557300",
  "02617900020000000702000000000000",
);
const recordedHeader = {
  kind: "call",
  serial: 2,
  path: "/org/freedesktop/systemd1",
  interface: "org.freedesktop.systemd1.Manager",
  member: "StartTransientUnit",
  destination: "org.freedesktop.systemd1",
  signature: "ssa(sv)a(sa(sv))",
} as const;
const recordedBody: readonly DbusValue[] = [
  "kubepods-burstable.slice",
  "replace",
  [
    ["Wants", { signature: "as", value: ["kubepods.slice"] }],
    ["CPUWeight", { signature: "t", value: 39n }],
    ["TasksMax", { signature: "t", value: 2n ** 64n - 1n }],
    ["AllowedCPUs", { signature: "ay", value: [7, 2] }],
  ],
  [],
];

test("a call that sd-bus has sent is understood", () => {
  expect(decode(recorded)).toEqual({ message: expect.objectContaining(recordedHeader), body: recordedBody });
});

test("the same call has the bytes of sd-bus; its header fields are in another order", () => {
  const sent = encodeMessage(recordedHeader, recordedBody);
  expect(decode(sent).message.body).toEqual(decode(recorded).message.body);
  expect(sent.toSorted()).toEqual(recorded.with(2, 0).toSorted());
});

describe("the values of every type arrive as they were sent", () => {
  const rows: readonly (readonly [signature: string, values: readonly DbusValue[]])[] = [
    ["", []],
    ["ybnqiuxtds", [255, true, -2, 65_535, -3, 2 ** 32 - 1, -(2n ** 63n), 2n ** 64n - 1n, 0.5, "ü"]],
    ["og", ["/a/b", "a(sv)"]],
    ["as", [["", "a", "bc"]]],
    ["aay", [[[1], [], [2, 3]]]],
    [
      "a(sv)",
      [
        [
          ["A", { signature: "t", value: 1n }],
          ["B", { signature: "as", value: ["x"] }],
        ],
      ],
    ],
    ["a{sv}", [[["A", { signature: "v", value: { signature: "b", value: false } }]]]],
    ["y(yt)a(x)", [1, [2, 3n], []]],
    ["a(sa(sv))s", [[], "end"]],
  ];
  for (const [signature, values] of rows)
    test(signature === "" ? "no value" : signature, () => {
      const bytes = encodeMessage({ kind: "call", serial: 7, path: "/", member: "M", signature }, values);
      expect(decode(bytes)).toMatchObject({
        message: { kind: "call", serial: 7, path: "/", member: "M" },
        body: values,
      });
    });
});

test("a message is taken when its last byte has arrived, and leaves those behind it", () => {
  const first = encodeMessage({ kind: "signal", serial: 1, member: "JobRemoved", signature: "s" }, ["a"]);
  const both = new Uint8Array([...first, ...encodeMessage({ kind: "return", serial: 2, replySerial: 1 })]);
  for (let length = 0; length < first.length; length++)
    expect(decodeMessage(first.subarray(0, length))).toBeUndefined();
  expect(decodeMessage(both)?.length).toBe(first.length);
  expect(decodeMessage(both.subarray(first.length))?.message).toMatchObject({ kind: "return", replySerial: 1 });
});

test("bytes that are no message are refused", () => {
  const message = encodeMessage({ kind: "return", serial: 1, replySerial: 1, signature: "s" }, ["text"]);
  const changed = (at: number, byte: number) => message.with(at, byte);
  expect(() => decodeMessage(new Uint8Array(Buffer.from("HTTP/1.1 400 Bad Request")))).toThrow("no message of D-Bus");
  expect(() => decodeMessage(changed(0, "B".charCodeAt(0)))).toThrow("little-endian");
  expect(() => decodeMessage(changed(7, 127))).toThrow("D-Bus allows 134217728");
  expect(() => bodyOf({ signature: "s", body: fromHex("ff000000", "61") })).toThrow("longer than its message");
  expect(() => bodyOf({ signature: "as", body: fromHex("ff000000") })).toThrow("longer than its message");
  for (const signature of ["a", "(s", "z", "a()"])
    expect(() => bodyOf({ signature, body: fromHex("04000000", "00000000") })).toThrow();
});

test("a value that is missing is refused", () => {
  expect(() => encodeMessage({ kind: "call", serial: 1, signature: "ss" }, ["one"])).toThrow(
    "more types than there are values",
  );
});

/** The bytes of a return whose header field `code` has a value of another type, or of its own. */
function withField(code: number, field: DbusVariant): Uint8Array {
  const replySerial: DbusValue = [5, { signature: "u", value: 1 }];
  const fields: DbusValue = [...(code === 5 ? [] : [replySerial]), [code, field]];
  const { body } = decode(
    encodeMessage({ kind: "call", serial: 1, signature: "(yyyyuua(yv))" }, [[108, 2, 0, 1, 0, 1, fields]]),
  ).message;
  return Buffer.concat([body, new Uint8Array((8 - (body.length % 8)) % 8)]);
}

describe("a header field has the type that D-Bus gives it", () => {
  const [ofPath, ofText, ofSignature] = [
    { signature: "o", value: "/a" },
    { signature: "s", value: "a.b" },
    { signature: "g", value: "s" },
  ];
  const ofNumber = { signature: "u", value: 7 };
  const rows: readonly (readonly [code: number, name: keyof DbusMessage, right: DbusVariant])[] = [
    [1, "path", ofPath],
    [2, "interface", ofText],
    [3, "member", ofText],
    [4, "errorName", ofText],
    [5, "replySerial", ofNumber],
    [6, "destination", ofText],
    [7, "sender", ofText],
    [8, "signature", ofSignature],
  ];
  const all = [
    ofPath,
    ofText,
    ofSignature,
    ofNumber,
    { signature: "v", value: ofText },
    { signature: "ay", value: [] },
  ];
  for (const [code, name, right] of rows)
    test(name, () => {
      expect(decodeMessage(withField(code, right))?.message[name]).toBe(right.value as string | number);
      for (const { signature, value } of all.filter((each) => each.signature !== right.signature))
        expect(() => decodeMessage(withField(code, { signature, value }))).toThrow(
          `header field ${code} of D-Bus has the type "${signature}", not "${right.signature}"`,
        );
    });
  test("one that Berth does not know is ignored, whatever its type is", () => {
    expect(decodeMessage(withField(9, ofNumber))?.message).toMatchObject({ kind: "return", replySerial: 1 });
    expect(decodeMessage(withField(200, ofText))?.message).toMatchObject({ kind: "return", replySerial: 1 });
  });
});

test("bytes that break the rules of a value are refused", () => {
  const refused: readonly (readonly [signature: string, hex: string, why: string])[] = [
    ["u", "010000", "a number of D-Bus is longer than its message"],
    ["s", "010000006161", "does not end with a zero byte"],
    // The array has six bytes, its second element ends behind them.
    ["au", "060000000100000002000000", "an element of an array of D-Bus is longer than the array"],
    ["v", "02737300", "a variant of D-Bus has more than one type"],
    ["v", "0000", "ends within a type"],
    ["v", "017600".repeat(65), "too many levels"],
  ];
  for (const [signature, hex, why] of refused)
    expect(() => bodyOf({ signature, body: fromHex(hex) }), hex).toThrow(why);
  const nested = fromHex("017600".repeat(63), "01790005");
  expect(bodyOf({ signature: "v", body: nested })).toHaveLength(1);
});
