import { expect, test } from "bun:test";
import { type LogLinesOptions, outputBytes } from "./cri-log-lines.ts";
import { createLogLines } from "./log-lines.ts";

const all: LogLinesOptions = {
  timestamps: false,
  limitBytes: undefined,
  since: undefined,
  stream: "All",
  maxLines: undefined,
};

/** What a client gets of a log that arrives in pieces of this length. */
function convert(log: string | Buffer, options: Partial<LogLinesOptions> = {}, pieceBytes = Number.POSITIVE_INFINITY) {
  const bytes = Buffer.from(log as string);
  const lines = createLogLines({ ...all, ...options });
  const pieces: Buffer[] = [];
  const length = Math.max(1, Math.min(pieceBytes, bytes.length));
  for (let at = 0; at < bytes.length && !lines.isDone(); at += length) {
    const input = bytes.subarray(at, at + length);
    pieces.push(lines.convert(input, Buffer.alloc(outputBytes(input.length))));
  }
  lines.end();
  return Buffer.concat(pieces).toString("latin1");
}

const T = "2026-01-02T03:04:05.123456789Z";
const rows: readonly (readonly [sentence: string, log: string, text: string, options?: Partial<LogLinesOptions>])[] = [
  ["lines of both streams, in their order", `${T} stdout F a\n${T} stderr F b\n`, "a\nb\n"],
  ["an empty log", "", ""],
  ["empty lines", `${T} stdout F \n${T} stdout P \n${T} stdout F a\n`, "\na\n"],
  ["parts of a line", `${T} stdout P a\n${T} stdout P b\n${T} stdout F c\n`, "abc\n"],
  ["spaces and tags in a message", `${T} stdout F  a P b \n`, " a P b \n"],
  ["a carriage return", `${T} stdout F a\r\n`, "a\r\n"],
  ["later tags of a later format", `${T} stdout P:x:y a\n${T} stdout F:z b\n${T} stdout ? c\n`, "ab\nc\n"],
  ["a last line without an end", `${T} stdout F a\n${T} stdout F b`, "a\nb"],
  ["a last line that breaks off in its header", `${T} stdout F a\n${T} std`, "a\n"],
  ["a line without tags is left out", `${T} stdout F a\n${T} stdout F\n${T} stdout F b\n`, "a\nb\n"],
  ["a line without a stream is left out", `${T} stdout F a\n${T}\n${T} stdio F b\n${T} stdout F c\n`, "a\nc\n"],
  ["a line without a time is left out", `${T} stdout F a\nno time here\n\n${T} stdout F c\n`, "a\nc\n"],
  [
    "a line with a time that does not exist is left out",
    [
      "2026-02-30T00:00:00Z",
      "2026-01-02T24:00:00Z",
      "2026-01-02 03:04:05Z",
      "2026-01-02T03:04:05",
      `${T}Z`,
      "2026-1-02T03:04:05Z",
    ]
      .map((time) => `${time} stdout F x\n`)
      .reduce((log, line) => log + line, `${T} stdout F a\n`),
    "a\n",
  ],
  [
    "a header that never ends is left out",
    `${T} stdout F a\n${T} stdout ${"F".repeat(300)} b\n${T} stdout F c\n`,
    "a\nc\n",
  ],
  [
    "times have nine digits",
    `2026-01-02T03:04:05Z stdout F a\n2026-01-02T03:04:05.1Z stdout F b\n2026-01-02T03:04:06,12345678987Z stdout F c\n`,
    "2026-01-02T03:04:05.000000000Z a\n2026-01-02T03:04:05.100000000Z b\n2026-01-02T03:04:06.123456789Z c\n",
    { timestamps: true },
  ],
  [
    "times keep their offset, and an offset of zero is Z",
    `2026-01-02T03:04:05.5+02:00 stdout F a\n2026-01-02T03:04:05-00:00 stdout F b\n`,
    "2026-01-02T03:04:05.500000000+02:00 a\n2026-01-02T03:04:05.000000000Z b\n",
    { timestamps: true },
  ],
  [
    "only the first part of a line has its time",
    `${T} stdout P a\n${T} stdout F b\n${T} stdout F c\n`,
    `${T} ab\n${T} c\n`,
    { timestamps: true },
  ],
  ["a limit cuts the last line", `${T} stdout F abc\n${T} stdout F def\n`, "abc\nd", { limitBytes: 5 }],
  ["a limit counts the times", `${T} stdout F abc\n`, `${T} a`, { limitBytes: 32, timestamps: true }],
  ["a limit may cut a time", `${T} stdout F abc\n`, "2026-", { limitBytes: 5, timestamps: true }],
  ["a limit counts what is sent", `${T} stderr F abc\n${T} stdout F d\n`, "d\n", { limitBytes: 2, stream: "Stdout" }],
  ["stderr alone", `${T} stdout F a\n${T} stderr F b\n`, "b\n", { stream: "Stderr" }],
  ["a number of lines", `${T} stdout F a\n${T} stdout P b\n${T} stdout F c\n`, "a\nb", { maxLines: 2 }],
  ["no lines", `${T} stdout F a\n`, "", { maxLines: 0 }],
  ["broken lines do not count", `${T} stdout F a\nx\n${T} stdout F b\n${T} stdout F c\n`, "a\nb\n", { maxLines: 2 }],
  [
    "lines since a time, to the nanosecond",
    ["4.999999999Z", "5Z", "5.000000001Z", "6+00:01", "6-00:01"]
      .map((end) => `2026-01-02T03:04:0${end} stdout F ${end}\n`)
      .join(""),
    "5.000000001Z\n6-00:01\n",
    { since: { seconds: Date.UTC(2026, 0, 2, 3, 4, 5) / 1000, nanos: 1 } },
  ],
  [
    "leap days",
    "2024-02-29T00:00:00Z stdout F a\n2023-02-29T00:00:00Z stdout F b\n2000-02-29T00:00:00Z stdout F c\n",
    "a\nc\n",
  ],
];
for (const [sentence, log, text, options] of rows)
  test(`the lines of a log: ${sentence}`, () => {
    for (const pieceBytes of [Number.POSITIVE_INFINITY, 1, 2, 7, 40])
      expect(convert(log, options, pieceBytes)).toBe(text);
  });

const entry = (log: string, stream = "stdout", time = "2026-01-02T03:04:05.57606443Z") =>
  `${JSON.stringify({ log, stream, time })}\n`;
const D = "2026-01-02T03:04:05.576064430Z";
const dockerRows: typeof rows = [
  ["lines of both streams, in their order", entry("a\n") + entry("b\n", "stderr"), "a\nb\n"],
  ["parts of a line", entry("a") + entry("b") + entry("c\n") + entry("d\n"), "abc\nd\n"],
  [
    "only the first part of a line has its time",
    entry("a") + entry("b\n") + entry("c\n"),
    `${D} ab\n${D} c\n`,
    { timestamps: true },
  ],
  [
    "characters that JSON escapes",
    entry('"\t\u0001\u2028\\{}\n'),
    Buffer.from('"\t\u0001\u2028\\{}\n').toString("latin1"),
  ],
  ["empty messages", entry("\n") + entry("") + entry("a\n"), "\na\n"],
  ["stderr alone", entry("a\n") + entry("b\n", "stderr"), "b\n", { stream: "Stderr" }],
  ["a number of lines", entry("a\n") + entry("b\n", "stderr") + entry("c\n"), "a\nb\n", { maxLines: 2 }],
  ["no lines", entry("a\n"), "", { maxLines: 0 }],
  ["a limit cuts the last line", entry("abc\n") + entry("def\n"), "abc\nd", { limitBytes: 5 }],
  ["a limit may cut a time", entry("abc\n"), "2026-", { limitBytes: 5, timestamps: true }],
  ["a limit counts what is sent", entry("abc\n", "stderr") + entry("d\n"), "d\n", { limitBytes: 2, stream: "Stdout" }],
  [
    "lines since a time",
    entry("a\n", "stdout", "2026-01-02T03:04:04Z") + entry("b\n"),
    "b\n",
    { since: { seconds: Date.UTC(2026, 0, 2, 3, 4, 5) / 1000, nanos: 0 } },
  ],
  [
    "fields in any order, others besides, and an offset",
    `{"time":"2026-01-02T03:04:05+02:00","attrs":{"tag":"x"},"stream":"stdout","log":"a\\n"}\n`,
    "2026-01-02T03:04:05.000000000+02:00 a\n",
    { timestamps: true },
  ],
  [
    "lines that cannot be read are left out",
    `${entry("a\n")}x\n\n[]\n{"log":1}\n${T} stdout F b\n${entry("c\n")}`,
    "a\nc\n",
  ],
  ["a last line that breaks off", `${entry("a\n")}{"log":"b`, "a\n"],
  ["a line of more than a megabyte is left out", entry("a\n") + entry("x".repeat(1_048_577)) + entry("b\n"), "a\nb\n"],
];
for (const [sentence, log, text, options] of dockerRows)
  test(`the lines of a log of Docker: ${sentence}`, () => {
    const pieces = log.length > 10_000 ? [65_536] : [Number.POSITIVE_INFINITY, 1, 2, 7, 40];
    for (const pieceBytes of pieces) expect(convert(log, options, pieceBytes)).toBe(text);
  });

test("a log of Docker is refused by its first line, and by another stream than stdout and stderr", () => {
  const refusal = (message: string) => expect.objectContaining({ name: "LogFormatError", message });
  const unsupported = "failed to get parse function: unsupported log format: ";
  expect(() => convert('{"log":1}\n')).toThrow(refusal(`${unsupported}"{\\"log\\":1}\\n"`));
  expect(() => convert('{"log":"a')).toThrow(refusal(`${unsupported}"{\\"log\\":\\"a"`));
  expect(() => convert(entry("a\n") + entry("b\n", "stdin"))).toThrow(refusal('unexpected stream type "stdin"'));
});

test("a log of Docker stays one when another file follows, without the beginning of a line", () => {
  const lines = createLogLines(all);
  const take = (text: string) => lines.convert(Buffer.from(text), Buffer.alloc(0)).toString();
  expect(take(`${entry("a\n")}{"lo`)).toBe("a\n");
  lines.startFile();
  expect(take(entry("b\n"))).toBe("b\n");
});

test("characters that a piece cuts, and bytes that are no characters, arrive as they are", () => {
  const message = Buffer.concat([Buffer.from("ä€😀"), Buffer.from([0xff, 0x00, 0xc3])]);
  const log = Buffer.concat([Buffer.from(`${T} stdout F `), message, Buffer.from("\n")]);
  for (let pieceBytes = 1; pieceBytes < log.length; pieceBytes++)
    expect(convert(log, {}, pieceBytes)).toBe(`${message.toString("latin1")}\n`);
});

test("a line of 10 MB without an end is passed on piece by piece", () => {
  const lines = createLogLines(all);
  const output = Buffer.alloc(outputBytes(65_536));
  let sent = lines.convert(Buffer.from(`${T} stdout F `), output).length;
  for (let piece = 0; piece < 160; piece++) sent += lines.convert(Buffer.alloc(65_536, "x"), output).length;
  expect(sent).toBe(160 * 65_536);
});

test("a log that is in no known format is refused by its first line", () => {
  const error = {
    name: "LogFormatError",
    message: 'failed to get parse function: unsupported log format: "no log\\n"',
  };
  expect(() => convert("no log\nat all\n")).toThrow(expect.objectContaining(error));
  expect(() => convert("no log\nat all\n", {}, 3)).toThrow(expect.objectContaining({ name: "LogFormatError" }));
  expect(() => convert("2026-01")).toThrow(expect.objectContaining({ name: "LogFormatError" }));
  expect(() => convert(Buffer.alloc(100_000, "x"))).toThrow(expect.objectContaining({ name: "LogFormatError" }));
});

test("the beginning of a line is left out when another file follows", () => {
  const lines = createLogLines(all);
  const output = Buffer.alloc(10_000);
  const take = (text: string) => lines.convert(Buffer.from(text), output).toString();
  expect(take(`${T} stdout F a\n${T} std`)).toBe("a\n");
  lines.startFile();
  expect(take(`${T} stdout F b\n`)).toBe("b\n");
});
