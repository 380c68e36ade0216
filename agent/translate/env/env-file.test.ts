import { expect, test } from "bun:test";
import { parseEnvFile } from "./env-file.ts";

const understood: readonly [sentence: string, text: string, variables: Readonly<Record<string, string>>][] = [
  ["nothing is nothing", "", {}],
  ["one variable", "A='1'\n", { A: "1" }],
  ["the last line needs no end", "A='1'\nB='2'", { A: "1", B: "2" }],
  ["lines may end as on Windows", "A='1'\r\nB='2'\r\n", { A: "1", B: "2" }],
  ["blanks before a name are none of it", "  \tA='1'", { A: "1" }],
  ["blank lines and comments say nothing", "# one\n\n \t \n  # two ='\nA='1'\n#end", { A: "1" }],
  ["what follows the value is a comment only behind #", "A='1' # it's one\nB='2'# two", { A: "1", B: "2" }],
  ["blanks may follow the value", "A='1' \t", { A: "1" }],
  ["in quotes everything stands for itself", `A='$B \${C} \\n "x" # = $(D)'`, { A: `$B \${C} \\n "x" # = $(D)` }],
  ["blanks in quotes stay", "A='  1  '", { A: "  1  " }],
  ["a value may be empty", "A=''", { A: "" }],
  ["a blank behind the equals sign makes an empty value, as in a shell", "A= '1'\nB=\t'2'", { A: "", B: "" }],
  [
    "a value may go on for lines, which may be blank",
    "A='1\n\n  2 # no comment\n3' # one",
    { A: "1\n\n  2 # no comment\n3" },
  ],
  ["a value with line ends of Windows keeps plain ones", "A='1\r\n2'", { A: "1\n2" }],
  ["equals signs in a value are part of it", "A='b=c=d'", { A: "b=c=d" }],
  ["of a name given twice the first value counts", "A='1'\nA='2'", { A: "1" }],
  [
    "a name may be anything",
    "export A='1'\na.b-c='2'\n__proto__='3'",
    { "export A": "1", "a.b-c": "2", ["__proto__"]: "3" },
  ],
  ["what is no ASCII stays", "A='中文 🌍'", { A: "中文 🌍" }],
];
for (const [sentence, text, variables] of understood)
  test(`a file of variables: ${sentence}`, () => {
    expect(parseEnvFile(text)).toEqual({ variables: new Map(Object.entries(variables)) });
  });

const wrong: readonly [sentence: string, text: string, variables: Readonly<Record<string, string>>, problem: string][] =
  [
    ["a line without an equals sign", "A='1'\nB\nC='3'", { A: "1" }, "at line 2: missing '='"],
    ["a value without a name", "\n  ='1'", {}, "at line 2: empty variable name"],
    ["a blank before the equals sign", "A ='1'", {}, "at line 1: whitespace before '=' is not allowed"],
    ["a value without quotes", "A=1", {}, "at line 1: value must be enclosed in single quotes"],
    ["no value at all", "A=", {}, "at line 1: value must be enclosed in single quotes"],
    ["double quotes", 'A="1"', {}, "at line 1: value must be enclosed in single quotes"],
    ["a text behind the value", "A='1'2", {}, "at line 1: unexpected content after closing quote"],
    ["two values side by side", "A='1''2'", {}, "at line 1: unexpected content after closing quote"],
    ["a text behind a value of several lines", "A='1\n2'3", {}, "at line 2: unexpected content after closing quote"],
    ["a value that never ends", "A='1'\nB='2\n3\n", { A: "1" }, "starting at line 2: unclosed single quote"],
    ["a line that is too long", `A='1'\n#${"ä".repeat(32_768)}`, { A: "1" }, "at line 2: longer than 65535 bytes"],
    ["such a line in a value", `A='1\n${"x".repeat(65_536)}'`, {}, "at line 2: longer than 65535 bytes"],
  ];
for (const [sentence, text, variables, problem] of wrong)
  test(`a file of variables is wrong by ${sentence}, and what stands before it counts`, () => {
    expect(parseEnvFile(text)).toEqual({
      variables: new Map(Object.entries(variables)),
      problem: `invalid environment variable format ${problem}`,
    });
  });

test("a line may be as long as the kubelet reads", () => {
  const value = "x".repeat(65_535 - "A=''".length);
  expect(parseEnvFile(`A='${value}'\n`).variables.get("A")).toBe(value);
});

/** What grows with the square of a file's length takes minutes; a busy machine may take seconds for the rest. */
const LIMIT_MS = 20_000;
test(
  "a file that is to keep us busy does not",
  () => {
    const began = performance.now();
    for (const text of [`a${" ".repeat(60_000)}b=`, "'".repeat(60_000), "A='\n".repeat(100_000)]) parseEnvFile(text);
    expect(performance.now() - began).toBeLessThan(LIMIT_MS);
  },
  3 * LIMIT_MS,
);
