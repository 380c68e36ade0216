import { expect, test } from "bun:test";
import { createLogLines, type LogLinesOptions, outputBytes } from "./log-lines.ts";

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
    const output = Buffer.alloc(outputBytes(input.length));
    pieces.push(output.subarray(0, lines.convert(input, output)));
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

test("characters that a piece cuts, and bytes that are no characters, arrive as they are", () => {
  const message = Buffer.concat([Buffer.from("ä€😀"), Buffer.from([0xff, 0x00, 0xc3])]);
  const log = Buffer.concat([Buffer.from(`${T} stdout F `), message, Buffer.from("\n")]);
  for (let pieceBytes = 1; pieceBytes < log.length; pieceBytes++)
    expect(convert(log, {}, pieceBytes)).toBe(`${message.toString("latin1")}\n`);
});

test("a line of 10 MB without an end is passed on piece by piece", () => {
  const lines = createLogLines(all);
  const output = Buffer.alloc(outputBytes(65_536));
  let sent = lines.convert(Buffer.from(`${T} stdout F `), output);
  for (let piece = 0; piece < 160; piece++) sent += lines.convert(Buffer.alloc(65_536, "x"), output);
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
  const take = (text: string) => output.subarray(0, lines.convert(Buffer.from(text), output)).toString();
  expect(take(`${T} stdout F a\n${T} std`)).toBe("a\n");
  lines.startFile();
  expect(take(`${T} stdout F b\n`)).toBe("b\n");
});
