import { expect, test } from "bun:test";
import { fromUtf8, truncateUtf8, utf8, utf8Length } from "./utf8.ts";

const rows: readonly [sentence: string, text: string][] = [
  ["the empty text", ""],
  ["a null byte", "\0"],
  ["the last character of one byte", "\u{7f}"],
  ["the first character of two bytes", "\u{80}"],
  ["the last character of two bytes", "\u{7ff}"],
  ["the first character of three bytes", "\u{800}"],
  ["the last character of three bytes", "\u{ffff}"],
  ["the first character of four bytes", "\u{10000}"],
  ["the last character of four bytes", "\u{10ffff}"],
  ["a mixed text", "Grüße, 世界 👋🏽!"],
];
for (const [sentence, text] of rows)
  test(`utf8 encodes ${sentence} like TextEncoder`, () => {
    expect(utf8(text)).toEqual(new TextEncoder().encode(text));
  });

test("utf8Length counts the bytes that utf8 returns, invalid bytes included", () => {
  const texts = [...rows.map(([, text]) => text), "a\u{d800}b", fromUtf8(Uint8Array.of(0x61, 0xff, 0xe4, 0xb8))];
  expect(texts.map(utf8Length)).toEqual(texts.map((text) => utf8(text).length));
});

test("utf8 encodes a lone surrogate as the replacement character", () => {
  expect(utf8("a\u{d800}b")).toEqual(new TextEncoder().encode("a\u{d800}b"));
});

for (const [sentence, text] of rows)
  test(`fromUtf8 decodes ${sentence}`, () => {
    expect(fromUtf8(new TextEncoder().encode(text))).toBe(text);
  });

const invalidBytes: readonly [sentence: string, bytes: readonly number[]][] = [
  ["every byte value", Array.from({ length: 256 }, (_, value) => value)],
  ["a truncated character", [0x61, 0xe4, 0xb8]],
  ["an overlong slash", [0xc0, 0xaf]],
  ["an encoded surrogate", [0xed, 0xa0, 0x80]],
  ["a code point above U+10FFFF", [0xf4, 0x90, 0x80, 0x80]],
];
for (const [sentence, bytes] of invalidBytes)
  test(`utf8 restores ${sentence} after fromUtf8 decoded it`, () => {
    expect([...utf8(fromUtf8(Uint8Array.from(bytes)))]).toEqual([...bytes]);
  });

const truncations: readonly [text: string, maxBytes: number, started: string][] = [
  ["short", 5, "short"],
  ["short", 4, "shor"],
  ["☃☃", 6, "☃☃"],
  ["☃☃", 5, "☃"],
  ["☃☃", 2, ""],
  ["a😀b", 4, "a"],
  ["a😀b", 5, "a😀"],
  ["x", 0, ""],
];
for (const [text, maxBytes, truncated] of truncations)
  test(`${JSON.stringify(text)} truncated to ${maxBytes} bytes is ${JSON.stringify(truncated)}`, () => {
    expect(truncateUtf8(text, maxBytes)).toBe(truncated);
  });
