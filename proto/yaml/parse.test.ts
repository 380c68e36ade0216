import { describe, expect, test } from "bun:test";
import { YamlError } from "./error.ts";
import { parseYaml } from "./parse.ts";
import { type Json, toJson } from "./value-node.ts";

function read(text: string): Json | undefined {
  const node = parseYaml(text, "f");
  return node === undefined ? undefined : toJson(node);
}

describe("a scalar has the kubelet's interpretation:", () => {
  const rows: readonly (readonly [string, string, Json])[] = [
    ["yes, on and y are true", "[yes, On, y, TRUE]", [true, true, true, true]],
    ["no, off and n are false", "[no, OFF, n, False]", [false, false, false, false]],
    ["~, null and the empty scalar are null", "[~, null, Null]", [null, null, null]],
    ["a leading zero is octal", "[0644, 0o17, -010]", [420, 15, -8]],
    ["0x and 0b are integers", "[0x1F, 0b101]", [31, 5]],
    ["underscores separate digits", "[1_000]", [1000]],
    ["base 60 is not supported", "[1:20, 190:20:30]", ["1:20", "190:20:30"]],
    ["timestamps remain strings", "[2001-12-14, 2001-12-14t21:59:43Z]", ["2001-12-14", "2001-12-14t21:59:43Z"]],
    ["floats", "[1.5, 1e3, .5, -2.]", [1.5, 1000, 0.5, -2]],
    ["089 is a decimal, since it cannot be octal", "[089]", [89]],
    ["durations and quantities remain strings", "[1m30s, 10Mi, 5%]", ["1m30s", "10Mi", "5%"]],
    ["quoted scalars are strings", `["yes", '1', "null"]`, ["yes", "1", "null"]],
    ["a tag selects the type", "[!!str 5, !!int '7', !!float '1', !!bool 'yes']", ["5", 7, 1, true]],
  ];
  for (const [name, text, expected] of rows) test(name, () => expect(read(text)).toEqual(expected));
});

describe("a document", () => {
  const rows: readonly (readonly [string, string, Json | undefined])[] = [
    ["may be JSON, tabs and escapes included", '{\n\t"a": [true, "\\u00e9\\/"]\n}', { a: [true, "é/"] }],
    ["may have document markers", "---\na: 1\n---\n", { a: 1 }],
    ["may repeat a value by an alias", "a: &x [1]\nb: *x\n", { a: [1], b: [1] }],
    [
      "may merge maps, where own keys win",
      "a: &x {p: 1, q: 1}\nb: {q: 2, <<: *x}\n",
      { a: { p: 1, q: 1 }, b: { q: 2, p: 1 } },
    ],
    ["converts keys to strings", "1: a\ntrue: b\n", { 1: "a", true: "b" }],
    ["may be empty", "# only a comment\n", undefined],
    ["keeps the key __proto__", '"__proto__": 1', JSON.parse('{"__proto__": 1}')],
  ];
  for (const [name, text, expected] of rows) test(name, () => expect(read(text)).toEqual(expected as Json));
});

describe("is rejected with its line:", () => {
  const rows: readonly (readonly [string, string, string])[] = [
    ["a repeated key", "a: 1\nb: 2\na: 3\n", "f:3: the key a is repeated; it was first set at f:1"],
    ["a second document", "a: 1\n---\nb: 1\n", "f:3: a second document begins here; a file holds one"],
    ["an open bracket", "a: 1\nb: [1\n", "f:3: not YAML: Flow sequence in block collection"],
    ["a tab as indentation", "a:\n\tb: 1\n", "f:2: not YAML: Tabs are not allowed as indentation"],
    ["an alias without anchor", "a: *x\n", "f:1: the alias *x has no anchor"],
    ["an alias inside its own anchor", "a: &x [*x]\n", "f:1: the alias *x contains itself"],
    ["a map as a key", "? {a: 1}\n: 2\n", "f:1: a key must be a scalar"],
    ["an unknown tag", "a: !mine 1\n", 'f:1: "1" cannot be read as !mine'],
    ["<< with a scalar", "<<: 1\n", "f:1: << takes a map or a list of maps"],
  ];
  for (const [name, text, expected] of rows) test(name, () => expect(messageOf(text)).toStartWith(expected));

  test("aliases that expand exponentially", () => {
    const levels = ["a", "b", "c", "d", "e", "f"].map((name, index, names) => {
      const items = Array.from({ length: 10 }, () => (index === 0 ? "x" : `*${names[index - 1]}`));
      return `${name}: &${name} [${items.join(", ")}]`;
    });
    expect(messageOf(levels.join("\n"))).toBe("f:5: the file unfolds to more than 50000 values");
  });

  for (const text of ["[".repeat(100_000), "{a: ".repeat(50_000), "- ".repeat(100_000), "? ".repeat(100_000)])
    test(`a hundred thousand times ${JSON.stringify(text.slice(0, 4))}, within 3 s of CPU time`, () => {
      const before = process.cpuUsage();
      expect(messageOf(text)).toContain("nested deeper than 50 levels");
      // CPU time, since a busy machine delays the wall clock.
      expect(process.cpuUsage(before).user / 1000).toBeLessThan(3000);
    });
});

function messageOf(text: string): string {
  try {
    parseYaml(text, "f");
  } catch (error) {
    expect(error).toBeInstanceOf(YamlError);
    return (error as Error).message;
  }
  throw new Error("it was accepted");
}
