import { FFIType } from "bun:ffi";
import { constants, fstatSync, openSync, writeSync } from "node:fs";
import { openLibc } from "../libc.ts";

/** Where the lines of the log go. */
export interface LogOutput {
  /**
   * Writes a line before it returns, or drops and counts it. If the output takes only a part, the rest precedes the next
   * line. `droppedLine` makes the line that says how many were dropped, and precedes the next one.
   */
  write(line: string, droppedLine: (count: number) => string): void;
  /** For how long, in milliseconds, lines have been waiting or dropped; 0 if none is. Tries to write them, and does not wait. */
  blockedMs(): number;
  /** The process is about to end: from now on no line waits for the reader. */
  stopWaiting(): void;
}

/** How many bytes were written, maybe 0: the reader must read first. Undefined if the write failed. */
export type TryWrite = (bytes: Uint8Array) => number | undefined;

export interface LogOutputOptions {
  readonly tryWrite: TryWrite;
  readonly monotonicMs: () => number;
  /** Blocks the process. */
  readonly sleepMs: (ms: number) => void;
}

/** The longest time that the log may block the agent; in the long run it may block a tenth of the time. */
const MAX_WAIT_MS = 1_000;
const WAIT_SHARE = 0.1;
const RETRY_MS = 5;

/**
 * A reader that stops reading must not stop the agent. While the output takes nothing, lines are dropped at once; only
 * the first one waits, for a reader that is slow.
 *
 * @internal
 */
export function createLogOutput({ tryWrite, monotonicMs, sleepMs }: LogOutputOptions): LogOutput {
  const encoder = new TextEncoder();
  /** The rest of a line whose beginning was written. */
  let rest: Uint8Array = new Uint8Array();
  let dropped = 0;
  /** The line that says how many were dropped. */
  let formatDropped = (_count: number) => "";
  /** The monotonic time since which a line was not written; undefined if the last one was. */
  let stalledSinceMs: number | undefined;
  let isEnding = false;
  let waitLeftMs = MAX_WAIT_MS;
  let waitCountedAt = monotonicMs();

  function writeRest(): void {
    while (rest.length > 0) {
      const written = tryWrite(rest);
      if (written === undefined) return;
      rest = rest.subarray(written);
      if (written === 0 && !waitForReader()) return;
    }
  }

  /** False if no time to wait is left. */
  function waitForReader(): boolean {
    if (stalledSinceMs !== undefined || isEnding || waitLeftMs <= 0) return false;
    const startedAt = monotonicMs();
    sleepMs(RETRY_MS);
    waitLeftMs -= monotonicMs() - startedAt;
    return true;
  }

  /** True if the line was written, at least its beginning: the rest follows before the next line. */
  function writeLine(line: string): boolean {
    writeRest();
    if (rest.length > 0) return false;
    const bytes = encoder.encode(line);
    rest = bytes;
    writeRest();
    const isStarted = rest.length < bytes.length;
    if (!isStarted) rest = new Uint8Array();
    return isStarted;
  }

  function writeDropped(): void {
    if (dropped > 0 && writeLine(formatDropped(dropped))) dropped = 0;
  }

  function updateStalled(): void {
    const isStalled = dropped > 0 || rest.length > 0;
    stalledSinceMs = isStalled ? (stalledSinceMs ?? monotonicMs()) : undefined;
  }

  return {
    write(line, droppedLine) {
      const now = monotonicMs();
      waitLeftMs = Math.min(MAX_WAIT_MS, waitLeftMs + (now - waitCountedAt) * WAIT_SHARE);
      waitCountedAt = now;
      formatDropped = droppedLine;
      writeDropped();
      if (dropped > 0 || !writeLine(line)) dropped += 1;
      updateStalled();
    },
    blockedMs() {
      if (stalledSinceMs === undefined) return 0;
      writeDropped();
      writeRest();
      updateStalled();
      return stalledSinceMs === undefined ? 0 : monotonicMs() - stalledSinceMs;
    },
    stopWaiting() {
      isEnding = true;
    },
  };
}

/** The log on standard error. */
export function createStderrOutput(): LogOutput {
  return createLogOutput({
    tryWrite: nonBlockingWrite(2),
    monotonicMs: () => performance.now(),
    sleepMs: Bun.sleepSync,
  });
}

/**
 * Writes to a descriptor without waiting for its reader. O_NONBLOCK would change the descriptor for all processes that
 * share it, so a pipe and a terminal are opened again, and a socket gets a flag with each call. Anything else, such as a
 * file, never waits for a reader.
 *
 * @internal
 */
export function nonBlockingWrite(fd: number): TryWrite {
  const kind = fstatSync(fd);
  if (kind.isSocket()) return sendTo(fd) ?? writeTo(fd);
  return writeTo(kind.isFIFO() || kind.isCharacterDevice() ? (openAgain(fd) ?? fd) : fd);
}

/** Undefined if /proc is missing, or a pipe has no reader. */
function openAgain(fd: number): number | undefined {
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK | constants.O_NOCTTY;
  try {
    return openSync(`/proc/self/fd/${fd}`, flags);
  } catch {
    // The log goes to the descriptor as it is.
    return undefined;
  }
}

function writeTo(fd: number): TryWrite {
  return (bytes) => {
    try {
      return writeSync(fd, bytes);
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      return code === "EAGAIN" || code === "EINTR" ? 0 : undefined;
    }
  };
}

const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;

/** Undefined without glibc. */
function sendTo(fd: number): TryWrite | undefined {
  const { ptr, u64, i32, i64_fast } = FFIType;
  const libc = openLibc({ send: { args: [i32, ptr, u64, i32], returns: i64_fast } });
  if (libc === undefined) return undefined;
  // A closed socket counts as a full one, because errno may have changed after the call: it costs one wait.
  return (bytes) => Math.max(0, Number(libc.symbols.send(fd, bytes, bytes.length, MSG_DONTWAIT | MSG_NOSIGNAL)));
}
