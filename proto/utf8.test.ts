import { expect, test } from "bun:test";
import { beginningOf, fromUtf8, utf8, utf8Length } from "./utf8.ts";

const rows: readonly [sentence: string, text: string][] = [
  ["nothing", ""],
  ["a null byte", "\0"],
  ["the last character of one byte", "\u{7f}"],
  ["the first of two bytes", "\u{80}"],
  ["the last of two bytes", "\u{7ff}"],
  ["the first of three bytes", "\u{800}"],
  ["the last of three bytes", "\u{ffff}"],
  ["the first of four bytes", "\u{10000}"],
  ["the last of four bytes", "\u{10ffff}"],
  ["a text of all kinds", "Grüße, 世界 👋🏽!"],
];
for (const [sentence, text] of rows)
  test(`${sentence} is encoded as the platform does it`, () => {
    expect(utf8(text)).toEqual(new TextEncoder().encode(text));
  });

test("bytes are counted as they are made, also those that are no text", () => {
  const texts = [...rows.map(([, text]) => text), "a\u{d800}b", fromUtf8(Uint8Array.of(0x61, 0xff, 0xe4, 0xb8))];
  expect(texts.map(utf8Length)).toEqual(texts.map((text) => utf8(text).length));
});

test("half of a surrogate pair, which is no character, becomes the replacement character", () => {
  expect(utf8("a\u{d800}b")).toEqual(new TextEncoder().encode("a\u{d800}b"));
});

for (const [sentence, text] of rows)
  test(`${sentence} is read back`, () => {
    expect(fromUtf8(new TextEncoder().encode(text))).toBe(text);
  });

const binary: readonly [sentence: string, bytes: readonly number[]][] = [
  ["every byte there is", Array.from({ length: 256 }, (_, value) => value)],
  ["a character that is cut off", [0x61, 0xe4, 0xb8]],
  ["a slash that is longer than it may be", [0xc0, 0xaf]],
  ["half of a surrogate pair", [0xed, 0xa0, 0x80]],
  ["more than the last character", [0xf4, 0x90, 0x80, 0x80]],
];
for (const [sentence, bytes] of binary)
  test(`${sentence} is no text, and comes back byte for byte`, () => {
    expect([...utf8(fromUtf8(Uint8Array.from(bytes)))]).toEqual([...bytes]);
  });

const beginnings: readonly [text: string, maxBytes: number, beginning: string][] = [
  ["short", 5, "short"],
  ["short", 4, "shor"],
  ["☃☃", 6, "☃☃"],
  ["☃☃", 5, "☃"],
  ["☃☃", 2, ""],
  ["a😀b", 4, "a"],
  ["a😀b", 5, "a😀"],
  ["x", 0, ""],
];
for (const [text, maxBytes, beginning] of beginnings)
  test(`of ${JSON.stringify(text)} ${maxBytes} bytes hold ${JSON.stringify(beginning)}`, () => {
    expect(beginningOf(text, maxBytes)).toBe(beginning);
  });
