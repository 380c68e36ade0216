import { expect, test } from "bun:test";
import { decodeBase64 } from "./base64.ts";

const rows: readonly [sentence: string, bytes: readonly number[]][] = [
  ["nothing", []],
  ["one byte", [0xff]],
  ["two bytes", [0, 0xfe]],
  ["three bytes", [1, 2, 3]],
  ["every byte value", Array.from({ length: 256 }, (_, value) => value)],
];
for (const [sentence, bytes] of rows)
  test(`decodeBase64 decodes ${sentence}, padded or not`, () => {
    const padded = Buffer.from(bytes).toString("base64");
    const expected = Uint8Array.from(bytes);
    expect([decodeBase64(padded), decodeBase64(padded.replaceAll("=", ""))]).toEqual([expected, expected]);
  });

test("decodeBase64 ignores line ends, like Go", () => {
  expect(decodeBase64("aGVs\r\nbG8=\n")).toEqual(new TextEncoder().encode("hello"));
});

for (const text of ["a", "a$bc", "aGk=aGk=", "aGk-", "\u{1f600}aaa"])
  test(`decodeBase64 rejects ${JSON.stringify(text)}`, () => {
    expect(decodeBase64(text)).toBeUndefined();
  });
