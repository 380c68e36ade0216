import { describe, expect, test } from "bun:test";
import { YamlError } from "./error.ts";
import { parseYaml } from "./parse.ts";
import { type Json, jsonOf } from "./value-node.ts";

function read(text: string): Json | undefined {
  const node = parseYaml(text, "f");
  return node === undefined ? undefined : jsonOf(node);
}

describe("a scalar means what it means to the kubelet", () => {
  const rows: readonly (readonly [string, string, Json])[] = [
    ["yes, on and y are true", "[yes, On, y, TRUE]", [true, true, true, true]],
    ["no, off and n are false", "[no, OFF, n, False]", [false, false, false, false]],
    ["~, null and nothing are null", "[~, null, Null]", [null, null, null]],
    ["a leading zero is octal", "[0644, 0o17, -010]", [420, 15, -8]],
    ["0x and 0b are integers", "[0x1F, 0b101]", [31, 5]],
    ["underscores part digits", "[1_000]", [1000]],
    ["base 60 does not exist", "[1:20, 190:20:30]", ["1:20", "190:20:30"]],
    ["times stay strings", "[2001-12-14, 2001-12-14t21:59:43Z]", ["2001-12-14", "2001-12-14t21:59:43Z"]],
    ["floats", "[1.5, 1e3, .5, -2.]", [1.5, 1000, 0.5, -2]],
    ["089 is a decimal, since it cannot be octal", "[089]", [89]],
    ["durations and quantities stay strings", "[1m30s, 10Mi, 5%]", ["1m30s", "10Mi", "5%"]],
    ["quotes make strings", `["yes", '1', "null"]`, ["yes", "1", "null"]],
    ["tags decide where they fit", "[!!str 5, !!int '7', !!float '1', !!bool 'yes']", ["5", 7, 1, true]],
  ];
  for (const [name, text, expected] of rows) test(name, () => expect(read(text)).toEqual(expected));
});

describe("a document", () => {
  const rows: readonly (readonly [string, string, Json | undefined])[] = [
    ["may be JSON, tabs and escapes included", '{\n\t"a": [true, "\\u00e9\\/"]\n}', { a: [true, "é/"] }],
    ["may stand between document markers", "---\na: 1\n---\n", { a: 1 }],
    ["may repeat a value by an alias", "a: &x [1]\nb: *x\n", { a: [1], b: [1] }],
    [
      "may merge maps, own keys first",
      "a: &x {p: 1, q: 1}\nb: {q: 2, <<: *x}\n",
      { a: { p: 1, q: 1 }, b: { q: 2, p: 1 } },
    ],
    ["turns keys that are no strings into strings", "1: a\ntrue: b\n", { 1: "a", true: "b" }],
    ["may hold nothing", "# only a comment\n", undefined],
    ["keeps a key that JavaScript treats specially", '"__proto__": 1', JSON.parse('{"__proto__": 1}')],
  ];
  for (const [name, text, expected] of rows) test(name, () => expect(read(text)).toEqual(expected as Json));
});

describe("is refused with its line", () => {
  const rows: readonly (readonly [string, string, string])[] = [
    ["a key that stands there twice", "a: 1\nb: 2\na: 3\n", "f:3: a stands here a second time; it was set at f:1"],
    ["a second document", "a: 1\n---\nb: 1\n", "f:3: a second document begins here; a file holds one"],
    ["an open bracket", "a: 1\nb: [1\n", "f:3: not YAML: Flow sequence in block collection"],
    ["a tab as indentation", "a:\n\tb: 1\n", "f:2: not YAML: Tabs are not allowed as indentation"],
    ["an alias of nothing", "a: *x\n", "f:1: the alias *x has no anchor"],
    ["an alias inside its own anchor", "a: &x [*x]\n", "f:1: the alias *x contains itself"],
    ["a map as a key", "? {a: 1}\n: 2\n", "f:1: a key must be a single word"],
    ["an unknown tag", "a: !mine 1\n", 'f:1: "1" cannot be read as !mine'],
    ["<< with a word", "<<: 1\n", "f:1: << takes a map or a list of maps"],
  ];
  for (const [name, text, expected] of rows) test(name, () => expect(messageOf(text)).toStartWith(expected));

  test("aliases that unfold without end", () => {
    const levels = ["a", "b", "c", "d", "e", "f"].map((name, index, names) => {
      const items = Array.from({ length: 10 }, () => (index === 0 ? "x" : `*${names[index - 1]}`));
      return `${name}: &${name} [${items.join(", ")}]`;
    });
    expect(messageOf(levels.join("\n"))).toBe("f:5: the file unfolds to more than 50000 values");
  });

  for (const text of ["[".repeat(100_000), "{a: ".repeat(50_000), "- ".repeat(100_000), "? ".repeat(100_000)])
    test(`a hundred thousand times ${JSON.stringify(text.slice(0, 4))}, quickly`, () => {
      const before = process.cpuUsage();
      expect(messageOf(text)).toContain("nested deeper than 50 levels");
      // Of the processor, which a busy machine gives to others too.
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
