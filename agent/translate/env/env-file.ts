import { utf8 } from "../../../proto/utf8.ts";

/** The variables of an env file, as far as it can be parsed. */
export interface EnvFile {
  /** All variables before the first invalid line. When a name occurs twice, the first value wins. */
  readonly variables: ReadonlyMap<string, string>;
  /** What is wrong with the first invalid line, in the kubelet's wording. */
  readonly problem?: string;
}

type Assignment =
  | { readonly name: string; readonly value: string; readonly lastLine: number }
  | { readonly problem: string };

/** The longest line that the kubelet reads. */
const MAX_LINE_BYTES = 65_535;

/**
 * Parses an env file: one `NAME='value'` per line. Nothing is expanded or escaped between the quotes, and a value may
 * span lines. Blank lines and `#` comments are skipped. A blank after the equals sign makes an empty value, as in a
 * shell. Never throws: returns the variables before the first error, and the error.
 * https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-via-file/
 */
export function parseEnvFile(text: string): EnvFile {
  const variables = new Map<string, string>();
  const lines = splitLines(text);
  for (let at = 0; at < lines.length; at++) {
    const line = trimStart(lines[at] ?? "");
    const tooLong = lengthProblem(lines, at);
    if (tooLong !== undefined) return { variables, problem: tooLong };
    if (line === "" || line.startsWith("#")) continue;
    const assignment = parseAssignment(lines, at, line);
    if ("problem" in assignment) return { variables, problem: assignment.problem };
    const { name, value, lastLine } = assignment;
    if (!variables.has(name)) variables.set(name, value);
    at = lastLine;
  }
  return { variables };
}

function parseAssignment(lines: readonly string[], at: number, line: string): Assignment {
  const invalidLine = (what: string) => problemAt(at, what);
  const equals = line.indexOf("=");
  if (equals < 0) return invalidLine("missing '='");
  const name = line.slice(0, equals);
  if (name === "") return invalidLine("empty variable name");
  if (name.endsWith(" ") || name.endsWith("\t")) return invalidLine("whitespace before '=' is not allowed");
  const quoted = line.slice(equals + 1);
  if (quoted !== trimStart(quoted)) return { name, value: "", lastLine: at };
  if (!quoted.startsWith("'")) return invalidLine("value must be enclosed in single quotes");
  return parseQuotedValue(lines, at, name, quoted.slice(1));
}

/** Reads the value up to its closing quote, on this line or a later one. */
function parseQuotedValue(lines: readonly string[], first: number, name: string, rest: string): Assignment {
  const parts: string[] = [];
  for (let at = first; at < lines.length; at++) {
    const tooLong = lengthProblem(lines, at);
    if (tooLong !== undefined) return { problem: tooLong };
    const line = at === first ? rest : (lines[at] ?? "");
    const end = line.indexOf("'");
    if (end < 0) {
      parts.push(line);
      continue;
    }
    const afterQuote = trimStart(line.slice(end + 1));
    if (afterQuote !== "" && !afterQuote.startsWith("#"))
      return problemAt(at, "unexpected content after closing quote");
    return { name, value: [...parts, line.slice(0, end)].join("\n"), lastLine: at };
  }
  return { problem: `invalid environment variable format starting at line ${first + 1}: unclosed single quote` };
}

function problemAt(at: number, what: string): { readonly problem: string } {
  return { problem: `invalid environment variable format at line ${at + 1}: ${what}` };
}

function lengthProblem(lines: readonly string[], at: number): string | undefined {
  const line = lines[at] ?? "";
  // A UTF-16 unit takes at most three bytes of UTF-8, so most lines need no byte count.
  if (line.length * 3 <= MAX_LINE_BYTES) return undefined;
  if (line.length <= MAX_LINE_BYTES && utf8(line).length <= MAX_LINE_BYTES) return undefined;
  return problemAt(at, `longer than ${MAX_LINE_BYTES} bytes`).problem;
}

function splitLines(text: string): readonly string[] {
  const lines = text.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}

const trimStart = (text: string) => text.replace(/^[ \t]+/, "");
