import { expect, test } from "bun:test";
import { parseEnvFile } from "./env-file.ts";

const accepted: readonly [sentence: string, text: string, variables: Readonly<Record<string, string>>][] = [
  ["an empty file has no variables", "", {}],
  ["one variable", "A='1'\n", { A: "1" }],
  ["the last line may lack its line end", "A='1'\nB='2'", { A: "1", B: "2" }],
  ["CRLF line ends are accepted", "A='1'\r\nB='2'\r\n", { A: "1", B: "2" }],
  ["blanks before a name are skipped", "  \tA='1'", { A: "1" }],
  ["blank lines and comments are skipped", "# one\n\n \t \n  # two ='\nA='1'\n#end", { A: "1" }],
  ["only # starts a comment after the value", "A='1' # it's one\nB='2'# two", { A: "1", B: "2" }],
  ["blanks after the value are skipped", "A='1' \t", { A: "1" }],
  [
    "nothing is expanded or escaped between quotes",
    `A='$B \${C} \\n "x" # = $(D)'`,
    { A: `$B \${C} \\n "x" # = $(D)` },
  ],
  ["blanks between quotes are kept", "A='  1  '", { A: "  1  " }],
  ["a value may be empty", "A=''", { A: "" }],
  ["a blank after the equals sign makes an empty value, as in a shell", "A= '1'\nB=\t'2'", { A: "", B: "" }],
  ["a value may span lines, also blank ones", "A='1\n\n  2 # no comment\n3' # one", { A: "1\n\n  2 # no comment\n3" }],
  ["CRLF in a value becomes LF", "A='1\r\n2'", { A: "1\n2" }],
  ["a value may contain equals signs", "A='b=c=d'", { A: "b=c=d" }],
  ["the first value of a repeated name wins", "A='1'\nA='2'", { A: "1" }],
  [
    "a name may have any characters",
    "export A='1'\na.b-c='2'\n__proto__='3'",
    { "export A": "1", "a.b-c": "2", ["__proto__"]: "3" },
  ],
  ["characters outside ASCII are kept", "A='中文 🌍'", { A: "中文 🌍" }],
];
for (const [sentence, text, variables] of accepted)
  test(`parseEnvFile: ${sentence}`, () => {
    expect(parseEnvFile(text)).toEqual({ variables: new Map(Object.entries(variables)) });
  });

const rejected: readonly [
  sentence: string,
  text: string,
  variables: Readonly<Record<string, string>>,
  problem: string,
][] = [
  ["a line without an equals sign", "A='1'\nB\nC='3'", { A: "1" }, "at line 2: missing '='"],
  ["an empty name", "\n  ='1'", {}, "at line 2: empty variable name"],
  ["a blank before the equals sign", "A ='1'", {}, "at line 1: whitespace before '=' is not allowed"],
  ["a value without quotes", "A=1", {}, "at line 1: value must be enclosed in single quotes"],
  ["no value at all", "A=", {}, "at line 1: value must be enclosed in single quotes"],
  ["double quotes", 'A="1"', {}, "at line 1: value must be enclosed in single quotes"],
  ["text after the value", "A='1'2", {}, "at line 1: unexpected content after closing quote"],
  ["two values side by side", "A='1''2'", {}, "at line 1: unexpected content after closing quote"],
  ["text after a value of several lines", "A='1\n2'3", {}, "at line 2: unexpected content after closing quote"],
  ["an unclosed quote", "A='1'\nB='2\n3\n", { A: "1" }, "starting at line 2: unclosed single quote"],
  ["a line above the limit", `A='1'\n#${"ä".repeat(32_768)}`, { A: "1" }, "at line 2: longer than 65535 bytes"],
  ["a line above the limit in a value", `A='1\n${"x".repeat(65_536)}'`, {}, "at line 2: longer than 65535 bytes"],
];
for (const [sentence, text, variables, problem] of rejected)
  test(`parseEnvFile reports ${sentence} and keeps the variables before it`, () => {
    expect(parseEnvFile(text)).toEqual({
      variables: new Map(Object.entries(variables)),
      problem: `invalid environment variable format ${problem}`,
    });
  });

test("parseEnvFile accepts a line of the kubelet's maximal length", () => {
  const value = "x".repeat(65_535 - "A=''".length);
  expect(parseEnvFile(`A='${value}'\n`).variables.get("A")).toBe(value);
});

/** A quadratic parser would take minutes; a busy machine may take seconds for a linear one. */
const LIMIT_MS = 20_000;
test(
  "parseEnvFile takes linear time for hostile input",
  () => {
    const began = performance.now();
    for (const text of [`a${" ".repeat(60_000)}b=`, "'".repeat(60_000), "A='\n".repeat(100_000)]) parseEnvFile(text);
    expect(performance.now() - began).toBeLessThan(LIMIT_MS);
  },
  3 * LIMIT_MS,
);
