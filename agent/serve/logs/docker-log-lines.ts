import { quoteGo } from "../../../proto/go-quote.ts";
import { isObject } from "../../../proto/is-object.ts";
import { LogFormatError, type LogLines, type LogLinesOptions, unsupportedFormat } from "./cri-log-lines.ts";
import { createTimeReader } from "./log-time.ts";

const NEWLINE = 10;
const NOTHING = Buffer.alloc(0);

/**
 * A longer line is left out. Docker divides messages into parts of 16 KiB, and a byte takes six at most in JSON; labels of the
 * container may be in each line, too.
 */
const MAX_LINE_BYTES = 1024 * 1024;

/** Longer than any time with its space. */
const TIME_BYTES = 64;

/**
 * Reads the format of Docker's driver `json-file`: `{"log":"text\n","stream":"stdout","time":"2026-01-02T03:04:05Z"}`. A part
 * of a message has no `\n` at its end. Docker writes a line together with its end, so the beginning of one is held until that
 * arrives. Rules: cri-client ReadLogs, parseDockerJSONLog and logWriter. A line that cannot be read is left out; one of
 * another stream than stdout and stderr is an error.
 */
export function createDockerLogLines(options: LogLinesOptions): LogLines {
  const { timestamps, limitBytes, since, stream: wanted, maxLines } = options;
  const held = createHeldLine();
  const time = createTimeReader();
  const timeText = Buffer.alloc(TIME_BYTES);
  let hasFormat = false;
  /** The next entry begins a line of the container. */
  let isNewLine = true;
  let linesLeft = maxLines ?? Number.POSITIVE_INFINITY;
  let bytesLeft = limitBytes ?? Number.POSITIVE_INFINITY;

  const isDone = () => linesLeft <= 0 || bytesLeft <= 0;

  function readEntry(line: Buffer): DockerLogEntry | undefined {
    const entry = parseEntry(line);
    const bytes = Buffer.from(entry?.time ?? "");
    const isValid = entry !== undefined && time.read(bytes, 0, bytes.length);
    if (!isValid && !hasFormat) throw unsupportedFormat(Buffer.concat([line, Buffer.of(NEWLINE)]));
    hasFormat = true;
    return isValid ? entry : undefined;
  }

  /** What the client gets of an entry, without a limit. */
  function textOf({ log, stream }: DockerLogEntry): string {
    if (since !== undefined && time.isBefore(since)) return "";
    if (stream !== "stdout" && stream !== "stderr")
      throw new LogFormatError(`unexpected stream type ${quoteGo(stream)}`);
    if (wanted !== "All" && (wanted === "Stderr") !== (stream === "stderr")) return "";
    if (!timestamps || !isNewLine) return log;
    return timeText.toString("latin1", 0, time.write(timeText, 0)) + log;
  }

  function convertLine(line: Buffer): Buffer {
    const entry = readEntry(line);
    if (entry === undefined) return NOTHING;
    const text = Buffer.from(textOf(entry));
    const sent = text.subarray(0, Math.min(text.length, bytesLeft));
    bytesLeft -= sent.length;
    linesLeft--;
    isNewLine = entry.log === "" || entry.log.endsWith("\n");
    return sent;
  }

  return {
    convert(input) {
      const pieces: Buffer[] = [];
      for (let read = 0; read < input.length && !isDone(); ) {
        const newline = input.indexOf(NEWLINE, read);
        if (newline < 0) {
          held.add(input.subarray(read));
          break;
        }
        pieces.push(convertLine(held.complete(input.subarray(read, newline))));
        read = newline + 1;
      }
      return Buffer.concat(pieces);
    },
    isDone,
    startFile: held.drop,
    end() {
      const line = held.complete(NOTHING);
      if (!hasFormat && line.length > 0) throw unsupportedFormat(line);
    },
  };
}

interface DockerLogEntry {
  readonly log: string;
  readonly stream: string;
  readonly time: string;
}

/** Undefined for a line that is not in this format. What is missing has Go's zero value. */
function parseEntry(line: Buffer): DockerLogEntry | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line.toString());
  } catch {
    // The caller leaves the line out, or refuses the log.
    return undefined;
  }
  if (!isObject(value)) return undefined;
  const { log, stream, time } = value as Readonly<Record<keyof DockerLogEntry, unknown>>;
  const entry = { log: log ?? "", stream: stream ?? "", time: time ?? "0001-01-01T00:00:00Z" };
  return Object.values(entry).every((each) => typeof each === "string") ? (entry as DockerLogEntry) : undefined;
}

/** The beginning of a line whose end has not arrived yet. */
function createHeldLine() {
  let parts: Buffer[] = [];
  let bytes = 0;
  const drop = () => {
    parts = [];
    bytes = 0;
  };
  return {
    /** Copies the part: its memory is the caller's. */
    add(part: Buffer): void {
      bytes += part.length;
      if (bytes <= MAX_LINE_BYTES) parts.push(Buffer.from(part));
      else parts = [];
    },
    /** Returns the line that ends with `rest`, or nothing if it is too long. Holds nothing any more. */
    complete(rest: Buffer): Buffer {
      if (bytes === 0) return rest;
      const line = bytes + rest.length > MAX_LINE_BYTES ? NOTHING : Buffer.concat([...parts, rest]);
      drop();
      return line;
    },
    drop,
  };
}
