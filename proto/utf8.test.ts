import { expect, test } from "bun:test";
import { utf8 } from "./utf8.ts";

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

test("half of a surrogate pair, which is no character, becomes the replacement character", () => {
  expect(utf8("a\u{d800}b")).toEqual(new TextEncoder().encode("a\u{d800}b"));
});
