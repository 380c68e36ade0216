import { quoteGo } from "../../../proto/go-quote.ts";
import { BROKEN, type CriLogHeader, createCriLogHeader, INCOMPLETE, MAX_HEADER_BYTES } from "./cri-log-header.ts";
import type { LogOptions } from "./log-options.ts";

/** A log is in none of the formats that clients can be sent. The message is the kubelet's. */
export class LogFormatError extends Error {
  override readonly name = "LogFormatError";
}

/** Turns a log into what a client gets. It takes the log in pieces of any length. */
export interface LogLines {
  /**
   * Returns what the client gets of the next bytes of the log, in memory of its own. `block` is what it is put together in, and
   * needs `outputBytes(input.length)`. Throws `LogFormatError`.
   */
  convert(input: Buffer, block: Buffer): Buffer;
  /** Whether the client has all that it wanted. */
  isDone(): boolean;
  /** The bytes that follow are those of another file, or of another place of the same one: they begin with a line. */
  startFile(): void;
  /** The log has ended. Throws `LogFormatError` if it has nothing but the beginning of a line. */
  end(): void;
}

/** How many bytes of output a number of bytes of input can cause: with timestamps a line grows by 16 bytes at most. */
export const outputBytes = (inputBytes: number): number => 2 * (inputBytes + MAX_HEADER_BYTES);

const NEWLINE = 10;

/** The error for a log whose first line has no known format. */
export function unsupportedFormat(line: Buffer): LogFormatError {
  const text = quoteGo(line.subarray(0, line.indexOf(NEWLINE) + 1 || MAX_HEADER_BYTES).toString());
  return new LogFormatError(`failed to get parse function: unsupported log format: ${text}`);
}

export interface LogLinesOptions extends Pick<LogOptions, "timestamps" | "limitBytes" | "since" | "stream"> {
  /** How many lines are read; undefined: all. */
  readonly maxLines: number | undefined;
}

/**
 * Reads CRI's format. It passes a message on before its end is there, so that a line of any length costs no memory. Rules:
 * cri-client ReadLogs, parseCRILog and logWriter. A line that cannot be read is left out.
 */
export function createCriLogLines({ timestamps, limitBytes, since, stream, maxLines }: LogLinesOptions): LogLines {
  const header = createCriLogHeader();
  const headers = createHeaderReader(header);
  let place: "header" | "message" | "broken" = "header";
  /** Of the message that is being read. */
  let isWanted = false;
  let isEmpty = true;
  /** The next line begins a line of the container. */
  let isNewLine = true;
  let linesLeft = maxLines ?? Number.POSITIVE_INFINITY;
  let bytesLeft = limitBytes ?? Number.POSITIVE_INFINITY;

  const isDone = () => linesLeft <= 0 || bytesLeft <= 0;

  /** Returns how many of these bytes the client may still get. */
  function spend(length: number): number {
    const sent = Math.min(length, bytesLeft);
    bytesLeft -= sent;
    return sent;
  }

  function beginMessage(output: Buffer, at: number): number {
    place = "message";
    isEmpty = true;
    isWanted =
      (stream === "All" || (stream === "Stderr") === header.isStderr()) &&
      (since === undefined || !header.isBefore(since));
    if (!isWanted || !timestamps || !isNewLine) return at;
    return at + spend(header.writeTime(output, at) - at);
  }

  function endLine(): void {
    if (place === "message") {
      linesLeft--;
      isNewLine = !header.isPartial() || isEmpty;
    }
    place = "header";
  }

  function convert(input: Buffer, block: Buffer): Buffer {
    let read = 0;
    let written = 0;
    while (read < input.length && !isDone()) {
      if (place === "header") {
        const message = headers.read(input, read);
        if (message === INCOMPLETE) break;
        if (message === BROKEN) place = "broken";
        else {
          read = message;
          written = beginMessage(block, written);
        }
      }
      const newline = input.indexOf(NEWLINE, read);
      const end = newline < 0 ? input.length : newline;
      if (end > read) isEmpty = false;
      if (isWanted && place === "message") {
        const length = spend((newline >= 0 && !header.isPartial() ? end + 1 : end) - read);
        input.copy(block, written, read, read + length);
        written += length;
      }
      read = end + 1;
      if (newline >= 0) endLine();
    }
    return Buffer.from(block.subarray(0, written));
  }

  function startFile(): void {
    headers.drop();
    place = "header";
  }

  return { convert, isDone, startFile, end: headers.end };
}

/** Reads headers that may be cut by the end of the input. */
function createHeaderReader(header: CriLogHeader) {
  /** The beginning of a line whose header is not complete. */
  const carried = Buffer.alloc(MAX_HEADER_BYTES);
  let carriedBytes = 0;
  let hasFormat = false;

  function checkFormat(message: number, line: Buffer): number {
    if (message >= 0) hasFormat = true;
    if (message !== BROKEN || hasFormat) return message;
    throw unsupportedFormat(line);
  }

  return {
    /**
     * Returns where the message begins, `INCOMPLETE` if the header goes on in the next input, or `BROKEN`. Throws
     * `LogFormatError` if the first line is broken.
     */
    read(input: Buffer, start: number): number {
      const known = carriedBytes;
      if (known === 0) {
        const message = header.read(input, start, input.length);
        if (message === INCOMPLETE) carriedBytes = input.copy(carried, 0, start);
        return message === BROKEN || !hasFormat ? checkFormat(message, input.subarray(start)) : message;
      }
      const total = known + input.copy(carried, known, start);
      const message = header.read(carried, 0, total);
      carriedBytes = message === INCOMPLETE ? total : 0;
      const result = checkFormat(message, carried.subarray(0, total));
      return result >= 0 ? start + result - known : result;
    },
    drop() {
      carriedBytes = 0;
    },
    /** Throws `LogFormatError` if the log has no more than the beginning of a line. */
    end() {
      if (carriedBytes > 0) checkFormat(BROKEN, carried.subarray(0, carriedBytes));
    },
  };
}
