import { utf8 } from "../../../proto/utf8.ts";

/** What a file of variables says, as far as it can be understood. */
export interface EnvFile {
  /** Up to the first line that is wrong; of a name given twice the first value counts. */
  readonly variables: ReadonlyMap<string, string>;
  /** What is wrong with that line, in the kubelet's words. */
  readonly problem?: string;
}

type Assignment =
  | { readonly name: string; readonly value: string; readonly lastLine: number }
  | { readonly problem: string };

/** As long a line as the kubelet reads. */
const LONGEST_LINE_BYTES = 65_535;

/**
 * Reads a file of variables: `NAME='value'` on lines of their own, the value in single quotes, within which everything stands for itself,
 * line ends too; blank lines, and comments behind `#`. A blank behind the equals sign makes an empty value, as in a shell. Total: of a file
 * that is wrong it tells what stands before.
 * https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-via-file/
 */
export function parseEnvFile(text: string): EnvFile {
  const variables = new Map<string, string>();
  const lines = linesOf(text);
  for (let at = 0; at < lines.length; at++) {
    const line = trimStart(lines[at] ?? "");
    const tooLong = lengthProblem(lines, at);
    if (tooLong !== undefined) return { variables, problem: tooLong };
    if (line === "" || line.startsWith("#")) continue;
    const assignment = assignmentAt(lines, at, line);
    if ("problem" in assignment) return { variables, problem: assignment.problem };
    const { name, value, lastLine } = assignment;
    if (!variables.has(name)) variables.set(name, value);
    at = lastLine;
  }
  return { variables };
}

function assignmentAt(lines: readonly string[], at: number, line: string): Assignment {
  const wrong = (what: string) => problemAt(at, what);
  const equals = line.indexOf("=");
  if (equals < 0) return wrong("missing '='");
  const name = line.slice(0, equals);
  if (name === "") return wrong("empty variable name");
  if (name.endsWith(" ") || name.endsWith("\t")) return wrong("whitespace before '=' is not allowed");
  const quoted = line.slice(equals + 1);
  if (quoted !== trimStart(quoted)) return { name, value: "", lastLine: at };
  if (!quoted.startsWith("'")) return wrong("value must be enclosed in single quotes");
  return quotedFrom(lines, at, name, quoted.slice(1));
}

/** The value up to its closing quote, on this line or on a later one. */
function quotedFrom(lines: readonly string[], first: number, name: string, rest: string): Assignment {
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
    const behind = trimStart(line.slice(end + 1));
    if (behind !== "" && !behind.startsWith("#")) return problemAt(at, "unexpected content after closing quote");
    return { name, value: [...parts, line.slice(0, end)].join("\n"), lastLine: at };
  }
  return { problem: `invalid environment variable format starting at line ${first + 1}: unclosed single quote` };
}

function problemAt(at: number, what: string): { readonly problem: string } {
  return { problem: `invalid environment variable format at line ${at + 1}: ${what}` };
}

function lengthProblem(lines: readonly string[], at: number): string | undefined {
  const line = lines[at] ?? "";
  // Most lines are so short that nobody has to count their bytes.
  if (line.length * 3 <= LONGEST_LINE_BYTES) return undefined;
  if (line.length <= LONGEST_LINE_BYTES && utf8(line).length <= LONGEST_LINE_BYTES) return undefined;
  return problemAt(at, `longer than ${LONGEST_LINE_BYTES} bytes`).problem;
}

function linesOf(text: string): readonly string[] {
  const lines = text.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}

const trimStart = (text: string) => text.replace(/^[ \t]+/, "");
