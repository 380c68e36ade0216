import { expect, test } from "bun:test";
import { parseCanonicalJson } from "./canonical-json.ts";

const value = { kind: "Pod", spec: { containers: [{ name: "a", args: ["\n", "é"] }], n: 12 } };

const accepted: readonly [sentence: string, text: string][] = [
  ["compact", JSON.stringify(value)],
  ["compact with a final newline", `${JSON.stringify(value)}\n`],
  ["indented by two blanks", JSON.stringify(value, null, 2)],
  ["indented by four blanks, as kubectl does", `${JSON.stringify(value, null, 4)}\n`],
  ["indented by tabs", JSON.stringify(value, null, "\t")],
];
for (const [sentence, text] of accepted)
  test(`parseCanonicalJson parses JSON that is ${sentence}`, () => {
    expect(parseCanonicalJson(text)).toEqual(value);
  });

test("brackets in strings do not count as nesting", () => {
  const text = JSON.stringify(["[".repeat(60), '\\"[['.repeat(60)]);
  expect(parseCanonicalJson(text)).toEqual(JSON.parse(text));
});

const rejected: readonly [sentence: string, text: string][] = [
  ["a repeated key", '{"a":1,"a":2}'],
  ["a number that would lose digits", '{"a":12345678901234567890}'],
  ["a number in another notation", '{"a":1.0}'],
  ["other blanks", '{ "a":1}'],
  ["a comment", '{"a":1} # one'],
  ["a second value", '{"a":1}\n{"a":2}'],
  ["only a string", '"a"'],
  ["YAML", "a: 1\n"],
  ["truncated JSON", '{"a":'],
  ["no content", ""],
  ["51 nested lists", "[".repeat(51) + "]".repeat(51)],
  ["a nesting that would overflow the stack", "[".repeat(200_000)],
];
for (const [sentence, text] of rejected)
  test(`parseCanonicalJson leaves a text with ${sentence} to the YAML parser`, () => {
    expect(parseCanonicalJson(text)).toBeUndefined();
  });
