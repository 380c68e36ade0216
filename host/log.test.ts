import { expect, test } from "bun:test";
import { createLog, type Log, type LogFields, type LogSettings } from "./log.ts";

function createScene(format: LogSettings["format"], level: LogSettings["level"] = "debug") {
  const lines: string[] = [];
  const log = createLog({ format, level, write: (line) => lines.push(line) });
  return { log, lines };
}

/** What one line says: as an object, or in text without its time. */
function jsonOf(fields: LogFields, message = "it happened"): Record<string, unknown> {
  const { log, lines } = createScene("json");
  log.warn(fields, message);
  return JSON.parse(lines[0]!);
}
function textOf(fields: LogFields, message = "it happened"): string {
  const { log, lines } = createScene("text");
  log.warn(fields, message);
  return lines[0]!.replace(/^\d\d:\d\d:\d\d\.\d{3} /, "");
}

class CodedError extends Error {
  override readonly name = "CodedError";
  readonly code = "ENOENT";
}

test("a line of JSON has the time, the level by name, the message and the fields, and ends with a newline", () => {
  const { log, lines } = createScene("json");
  log.info({ pod: "shop/web", ms: 12 }, "started");
  expect(lines).toHaveLength(1);
  expect(lines[0]).toEndWith("}\n");
  const { time, ...rest } = JSON.parse(lines[0]!);
  expect(rest).toEqual({ level: "info", pod: "shop/web", ms: 12, msg: "started" });
  expect(Math.abs(Date.parse(time) - Date.now())).toBeLessThan(60_000);
});

const texts: readonly [sentence: string, fields: LogFields, line: string][] = [
  ["nothing but a message", {}, "warn  it happened\n"],
  ["plain words", { pod: "shop/web", n: 3 }, "warn  it happened  pod=shop/web n=3\n"],
  ["words with spaces are quoted", { why: "it is gone" }, 'warn  it happened  why="it is gone"\n'],
  ["an empty word is quoted", { why: "" }, 'warn  it happened  why=""\n'],
  ["a newline cannot begin a line of its own", { why: "a\nb" }, 'warn  it happened  why="a\\nb"\n'],
  ["an error is its message", { err: new Error("no such file") }, 'warn  it happened  err="no such file"\n'],
  [
    "an error with its causes",
    { err: new Error("cannot start", { cause: new Error("no such file") }) },
    'warn  it happened  err="cannot start: no such file"\n',
  ],
  [
    "a cause that says the same behind a code of its own is not told twice",
    { err: new Error("Version: no answer", { cause: new Error("14 UNAVAILABLE: no answer") }) },
    'warn  it happened  err="Version: no answer"\n',
  ],
  [
    "nor one that says it in more words",
    { err: new Error("Version: no answer", { cause: new Error("14 UNAVAILABLE: Last error: no answer (again)") }) },
    'warn  it happened  err="Version: no answer"\n',
  ],
  [
    "a cause that the error tells already is not told twice",
    { err: new Error("cannot start: no such file", { cause: new Error("no such file") }) },
    'warn  it happened  err="cannot start: no such file"\n',
  ],
];
for (const [sentence, fields, line] of texts)
  test(`text: ${sentence}`, () => {
    expect(textOf(fields)).toBe(line);
  });

test("a message of two lines stays one line of text", () => {
  expect(textOf({}, "one\ntwo\r\u001b[2J")).toBe("warn  one\\ntwo\\r\\u001b[2J\n");
  // JSON leaves these two as they are, and terminals obey them.
  expect(textOf({ why: "\u009b2J" }, "three\u009b2J\u007f")).toBe('warn  three\\u009b2J\\u007f  why="\\u009b2J"\n');
});

test("an error in JSON has its type, message, code and causes, and no stack", () => {
  const err = new Error("cannot start", { cause: new CodedError("no such file", { cause: "a word" }) });
  expect(jsonOf({ err })["err"]).toEqual({
    type: "Error",
    message: "cannot start",
    cause: { type: "CodedError", message: "no such file", code: "ENOENT", cause: "a word" },
  });
});

test("what was thrown and is no error is told as text", () => {
  expect(jsonOf({ err: "a word" })["err"]).toBe("a word");
  expect(jsonOf({ err: undefined })["msg"]).toBe("it happened");
});

const circle: Record<string, unknown> = { name: "circle" };
circle["self"] = circle;
const ownCause = new Error("a snake");
ownCause.cause = ownCause;
const odd: readonly [sentence: string, fields: LogFields][] = [
  ["an object that holds itself", { circle }],
  ["an error that is its own cause", { err: ownCause }],
  ["a number beyond all numbers", { n: 12n }],
  ["a function", { f: () => 1 }],
  ["something that refuses to be told", { f: { toJSON: () => JSON.parse("{") } }],
  ["an invalid date", { at: new Date(Number.NaN) }],
];
for (const [sentence, fields] of odd)
  for (const format of ["json", "text"] as const)
    test(`${sentence} does not keep a line of ${format} from being written`, () => {
      const { log, lines } = createScene(format);
      log.error(fields, "it happened");
      expect(lines).toHaveLength(1);
      expect(lines[0]).toContain("it happened");
      expect(lines[0]!.length).toBeLessThan(10_000);
    });

test("a level silences those below it", () => {
  const { log, lines } = createScene("text", "warn");
  for (const level of ["debug", "info", "warn", "error"] as const) log[level]({}, level);
  expect(lines.map((line) => line.trim().split(" ").at(-1))).toEqual(["warn", "error"]);
});

test("a child's lines carry its fields, the parent's do not", () => {
  const { log, lines } = createScene("json");
  const child: Log = log.child({ pod: "shop/web" });
  child.info({ n: 1 }, "child");
  log.info({}, "parent");
  expect(JSON.parse(lines[0]!)).toMatchObject({ pod: "shop/web", n: 1 });
  expect(lines[1]).not.toContain("shop/web");
});
