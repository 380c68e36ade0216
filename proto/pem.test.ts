import { expect, test } from "bun:test";
import { encodeBase64 } from "./base64.ts";
import { formatPemBlock, parsePemBlocks } from "./pem.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const textsOf = (pem: string) => parsePemBlocks(pem).map((each) => new TextDecoder().decode(each));
const block = formatPemBlock("CERTIFICATE", bytes("one"));

const rows: readonly [sentence: string, pem: string, texts: readonly string[]][] = [
  ["nothing", "", []],
  ["a block", block, ["one"]],
  ["two blocks", block + formatPemBlock("X", bytes("two")), ["one", "two"]],
  ["text before, between and after", `# a comment\n${block}\nmore\n${block}the end`, ["one", "one"]],
  ["headers", "-----BEGIN A-----\nProc-Type: 4\nX: y\n\nb25l\n-----END A-----\n", ["one"]],
  ["lines that end as on Windows", block.replaceAll("\n", "\r\n"), ["one"]],
  ["no newline at the end", block.trim(), ["one"]],
  ["a block that never ends, before a whole one", `-----BEGIN CERTIFICATE-----\nb25l\n${block}`, ["one"]],
  ["another end than the beginning", "-----BEGIN A-----\nb25l\n-----END B-----\n", []],
  ["what is not base64", `-----BEGIN A-----\n?\n-----END A-----\n${block}`, ["one"]],
  ["a block without content", "-----BEGIN A-----\n-----END A-----\n", [""]],
];
for (const [sentence, pem, texts] of rows)
  test(`reads the blocks of ${sentence}`, () => {
    expect(textsOf(pem)).toEqual([...texts]);
  });

test("a block has lines of 64 characters, and no headers", () => {
  const long = "x".repeat(100);
  const pem = formatPemBlock("CERTIFICATE", bytes(long));
  expect(pem.split("\n").map((line) => line.length)).toEqual([27, 64, 64, 8, 25, 0]);
  expect(textsOf(pem)).toEqual([long]);
});

test("base64 is padded", () => {
  for (const text of ["", "a", "ab", "abc", "abcd"])
    expect(encodeBase64(bytes(text))).toBe(Buffer.from(text).toString("base64"));
});
