import { expect, test } from "bun:test";
import { readCanonicalJson } from "./canonical-json.ts";

const value = { kind: "Pod", spec: { containers: [{ name: "a", args: ["\n", "é"] }], n: 12 } };

const taken: readonly [sentence: string, text: string][] = [
  ["compact", JSON.stringify(value)],
  ["with a newline at its end", `${JSON.stringify(value)}\n`],
  ["indented by two", JSON.stringify(value, null, 2)],
  ["indented by four, as kubectl does", `${JSON.stringify(value, null, 4)}\n`],
  ["indented by tabs", JSON.stringify(value, null, "\t")],
];
for (const [sentence, text] of taken)
  test(`JSON that is ${sentence} is read`, () => {
    expect(readCanonicalJson(text)).toEqual(value);
  });

test("brackets in strings are no nesting", () => {
  const text = JSON.stringify(["[".repeat(60), '\\"[['.repeat(60)]);
  expect(readCanonicalJson(text)).toEqual(JSON.parse(text));
});

const left: readonly [sentence: string, text: string][] = [
  ["a key twice", '{"a":1,"a":2}'],
  ["a number that would lose digits", '{"a":12345678901234567890}'],
  ["a number in another form", '{"a":1.0}'],
  ["blanks of another kind", '{ "a":1}'],
  ["a comment", '{"a":1} # one'],
  ["a second value", '{"a":1}\n{"a":2}'],
  ["only a word", '"a"'],
  ["YAML", "a: 1\n"],
  ["half of it", '{"a":'],
  ["nothing", ""],
  ["51 lists in each other", "[".repeat(51) + "]".repeat(51)],
  ["a nesting that would exhaust a stack", "[".repeat(200_000)],
];
for (const [sentence, text] of left)
  test(`a text with ${sentence} is left to the reader of YAML`, () => {
    expect(readCanonicalJson(text)).toBeUndefined();
  });
