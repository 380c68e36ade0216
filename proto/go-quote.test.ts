import { expect, test } from "bun:test";
import { quoteGo } from "./go-quote.ts";

test.each<[string, string]>([
  ["web", '"web"'],
  ['say "hi"', String.raw`"say \"hi\""`],
  ["a\\b", String.raw`"a\\b"`],
  ["one\ntwo\ttab\rreturn", String.raw`"one\ntwo\ttab\rreturn"`],
  ["\u0000\u0007\u001b\u007f", String.raw`"\x00\a\x1b\x7f"`],
  ["größe 日本 🙂 €", '"größe 日本 🙂 €"'],
  ["no-break\u00a0space, zero\u200bwidth", String.raw`"no-break\u00a0space, zero\u200bwidth"`],
  ["\u{e0001}", String.raw`"\U000e0001"`],
  ["\ud800", '"\ufffd"'],
])("%j is quoted as strconv.Quote does", (text, quoted) => {
  expect(quoteGo(text)).toBe(quoted);
});
