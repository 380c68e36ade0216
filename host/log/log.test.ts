import { expect, test } from "bun:test";
import { createLog, type Log, type LogFields, type LogOptions } from "./log.ts";

async function createFixture(format: LogOptions["format"], level: LogOptions["level"] = "debug") {
  const lines: string[] = [];
  const log = await createLog({ format, level, write: (line) => lines.push(line) });
  return { log, lines };
}

/** The content of one line: as an object, or as text without its time. */
async function jsonOf(fields: LogFields, message = "it happened"): Promise<Record<string, unknown>> {
  const { log, lines } = await createFixture("json");
  log.warn(fields, message);
  return JSON.parse(lines[0]!);
}
async function textOf(fields: LogFields, message = "it happened"): Promise<string> {
  const { log, lines } = await createFixture("text");
  log.warn(fields, message);
  return lines[0]!.replace(/^\d\d:\d\d:\d\d\.\d{3} /, "");
}

class CodedError extends Error {
  override readonly name = "CodedError";
  readonly code = "ENOENT";
}

test("a JSON line has the time, the level by name, the message and the fields, and ends with a newline", async () => {
  const { log, lines } = await createFixture("json");
  log.info({ pod: "shop/web", ms: 12 }, "started");
  expect(lines).toHaveLength(1);
  expect(lines[0]).toEndWith("}\n");
  const { time, ...rest } = JSON.parse(lines[0]!);
  expect(rest).toEqual({ level: "info", pod: "shop/web", ms: 12, msg: "started" });
  expect(Math.abs(Date.parse(time) - Date.now())).toBeLessThan(60_000);
});

const texts: readonly [sentence: string, fields: LogFields, line: string][] = [
  ["a message without fields", {}, "warn  it happened\n"],
  ["plain values", { pod: "shop/web", n: 3 }, "warn  it happened  pod=shop/web n=3\n"],
  ["values with spaces are quoted", { why: "it is gone" }, 'warn  it happened  why="it is gone"\n'],
  [
    "fields that pino or its printer give a meaning of their own",
    { pid: 7, name: "web", hostname: "node1", caller: "x", type: "Error", stack: "at" },
    "warn  it happened  pid=7 name=web hostname=node1 caller=x type=Error stack=at\n",
  ],
  [
    "numbers, booleans and objects",
    { n: 0.5, ok: false, at: { x: [1] } },
    'warn  it happened  n=0.5 ok=false at={"x":[1]}\n',
  ],
  ["an absent value is left out", { pod: undefined, n: 3 }, "warn  it happened  n=3\n"],
  ["an empty value is quoted", { why: "" }, 'warn  it happened  why=""\n'],
  ["a newline in a value is escaped", { why: "a\nb" }, 'warn  it happened  why="a\\nb"\n'],
  ["an error is shown by its message", { err: new Error("no such file") }, 'warn  it happened  err="no such file"\n'],
  [
    "an error with its causes",
    { err: new Error("cannot start", { cause: new Error("no such file") }) },
    'warn  it happened  err="cannot start: no such file"\n',
  ],
  [
    "a cause with the same message after a prefix is not repeated",
    { err: new Error("Version: no answer", { cause: new Error("14 UNAVAILABLE: no answer") }) },
    'warn  it happened  err="Version: no answer"\n',
  ],
  [
    "a cause that repeats the error's message with more text is left out",
    { err: new Error("Version: no answer", { cause: new Error("14 UNAVAILABLE: Last error: no answer (again)") }) },
    'warn  it happened  err="Version: no answer"\n',
  ],
  [
    "a cause that the error's message contains is not repeated",
    { err: new Error("cannot start: no such file", { cause: new Error("no such file") }) },
    'warn  it happened  err="cannot start: no such file"\n',
  ],
];
for (const [sentence, fields, line] of texts)
  test(`text: ${sentence}`, async () => {
    expect(await textOf(fields)).toBe(line);
  });

test("a message of two lines stays one line of text", async () => {
  expect(await textOf({}, "one\ntwo\r\u001b[2J")).toBe("warn  one\\ntwo\\r\\u001b[2J\n");
  // JSON does not escape these two characters, and terminals obey them.
  expect(await textOf({ why: "\u009b2J" }, "three\u009b2J\u007f")).toBe(
    'warn  three\\u009b2J\\u007f  why="\\u009b2J"\n',
  );
});

test("a percent sign in a message is kept", async () => {
  expect(await textOf({}, "100 %d %s %% of it")).toBe("warn  100 %d %s %% of it\n");
});

test("a text line begins with the time of day", async () => {
  const { log, lines } = await createFixture("text");
  log.child({ pod: "shop/web" }).error({ n: 1 }, "it failed");
  expect(lines).toEqual([expect.stringMatching(/^\d\d:\d\d:\d\d\.\d{3} error it failed {2}pod=shop\/web n=1\n$/)]);
});

test("an error in JSON has its type, message, code and causes, and no stack", async () => {
  const err = new Error("cannot start", { cause: new CodedError("no such file", { cause: "a word" }) });
  expect((await jsonOf({ err }))["err"]).toEqual({
    type: "Error",
    message: "cannot start",
    cause: { type: "CodedError", message: "no such file", code: "ENOENT", cause: "a word" },
  });
});

test("a thrown value that is not an error is logged as text", async () => {
  expect((await jsonOf({ err: "a word" }))["err"]).toBe("a word");
  expect((await jsonOf({ err: undefined }))["msg"]).toBe("it happened");
});

const circle: Record<string, unknown> = { name: "circle" };
circle["self"] = circle;
const ownCause = new Error("a snake");
ownCause.cause = ownCause;
const unloggable: readonly [sentence: string, fields: LogFields][] = [
  ["a circular object", { circle }],
  ["an error that is its own cause", { err: ownCause }],
  ["a bigint", { n: 12n }],
  ["a function", { f: () => 1 }],
  ["a value whose toJSON throws", { f: { toJSON: () => JSON.parse("{") } }],
  ["an invalid date", { at: new Date(Number.NaN) }],
];
for (const [sentence, fields] of unloggable)
  for (const format of ["json", "text"] as const)
    test(`${sentence} does not prevent a ${format} line`, async () => {
      const { log, lines } = await createFixture(format);
      log.error(fields, "it happened");
      expect(lines).toHaveLength(1);
      expect(lines[0]).toContain("it happened");
      expect(lines[0]!.length).toBeLessThan(10_000);
    });

test("a level suppresses the levels below it", async () => {
  const { log, lines } = await createFixture("text", "warn");
  for (const level of ["debug", "info", "warn", "error"] as const) log[level]({}, level);
  expect(lines.map((line) => line.trim().split(" ").at(-1))).toEqual(["warn", "error"]);
});

test("a new level holds for the log and for the children that it has", async () => {
  const { log, lines } = await createFixture("json", "info");
  const child = log.child({ pod: "shop/web" });
  const debugLines = () => {
    lines.length = 0;
    for (const each of [log, child]) each.debug({}, "it happened");
    return lines.length;
  };
  expect(debugLines()).toBe(0);
  log.setLevel("debug");
  expect(debugLines()).toBe(2);
  log.setLevel("info");
  expect(debugLines()).toBe(0);
});

test("dropped lines are counted in a line of the log's own format", async () => {
  for (const format of ["json", "text"] as const) {
    const lines: string[] = [];
    const log = await createLog({
      format,
      level: "error",
      write: (line, droppedLine) => lines.push(droppedLine(7), line),
    });
    log.error({}, "it happened");
    const [dropped = "", line = ""] = lines;
    const message = "dropped log lines: the log's reader did not read them in time, or they could not be written";
    if (format === "json") expect(JSON.parse(dropped)).toMatchObject({ level: "warn", lines: 7, msg: message });
    else expect(dropped).toEndWith(` warn  ${message}  lines=7\n`);
    expect(line).toContain("it happened");
  }
});

test("a child logger's lines have its fields, the parent's lines do not", async () => {
  const { log, lines } = await createFixture("json");
  const child: Log = log.child({ pod: "shop/web" });
  child.info({ n: 1 }, "child");
  log.info({}, "parent");
  expect(JSON.parse(lines[0]!)).toMatchObject({ pod: "shop/web", n: 1 });
  expect(lines[1]).not.toContain("shop/web");
});
