import { FFIType } from "bun:ffi";
import { closeSync, constants, openSync } from "node:fs";
import { isatty } from "node:tty";
import { onAbort } from "./async/abort.ts";
import { type Clock, sleepUnlessAborted } from "./clock.ts";
import { FilesError, toFilesError } from "./fs/files.ts";
import { libcProblem, openLibc } from "./libc.ts";

export interface KernelLogListener {
  /** Receives one message, without the kernel's prefix. */
  readonly onMessage: (message: string) => void;
  /** The kernel's ring buffer has overflowed: messages are lost. */
  readonly onLoss: () => void;
}

/** The kernel's log, as dmesg(1) shows it. */
export interface KernelLog {
  /**
   * Reports new messages until the signal aborts or the log ends (the kernel's own never ends). Rejects with
   * `FilesError` if the file does not exist, cannot be read, or is a terminal.
   */
  follow(listener: KernelLogListener, signal: AbortSignal): Promise<void>;
}

/**
 * `path` is a kmsg device (Linux: Documentation/ABI/testing/dev-kmsg). Bun's event loop polls it like a socket, so that
 * it needs no thread and no CPU while the kernel is silent. The first message is reported at once, later ones within
 * two seconds.
 */
export function createKernelLog(clock: Clock, path = "/dev/kmsg"): KernelLog {
  return {
    async follow(listener, signal) {
      let log: number | undefined;
      try {
        // O_NOCTTY: in some containers /dev/kmsg is a link to a terminal, which must not become our controlling
        // terminal.
        const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
        log = descriptor;
        // Nor may we read the terminal's input.
        if (isatty(descriptor)) throw new FilesError("ENODEV", path, `${path} is a terminal and not a kernel log`);
        seekToEnd(descriptor, path);
        await readStreams(() => Bun.file(descriptor).stream(), listener, clock, signal);
      } catch (error) {
        throw toFilesError(path, error);
      } finally {
        if (log !== undefined) closeSync(log);
      }
    },
  };
}

const SEEK_END = 2;

function seekToEnd(log: number, path: string): void {
  const { i32, i64 } = FFIType;
  const libc = openLibc({ lseek: { args: [i32, i64, i32], returns: i64 } });
  if (libc === undefined) throw new FilesError("ENOSYS", path, `${path} cannot be read from its end: ${libcProblem()}`);
  // Without a check: a pipe cannot seek, and has no old messages.
  libc.symbols.lseek(log, 0, SEEK_END);
  libc.close();
}

/**
 * The pause between two reads: each pod start causes a dozen messages about network links, each of which would wake us.
 * And a flood of messages must not use a whole CPU.
 */
const PAUSE_MS = 1_000;
/** After a chunk of this size there is no pause: more messages follow, and the kernel's buffer may overflow. */
const LARGE_CHUNK_BYTES = 4_096;

/**
 * Reads streams one after the other: EPIPE means lost messages, and the next stream continues. Rejects with any other
 * error.
 *
 * @internal
 */
export async function readStreams(
  open: () => ReadableStream<Uint8Array>,
  listener: KernelLogListener,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await readStream(open(), listener.onMessage, clock, signal);
      return;
    } catch (error) {
      const isLoss = error instanceof Error && "code" in error && error.code === "EPIPE";
      if (!isLoss) throw error;
      listener.onLoss();
      await sleepUnlessAborted(clock, PAUSE_MS, signal);
    }
  }
}

/** The longest incomplete line that is kept. Kernel messages are shorter, so a longer one is not a message. */
const MAX_INCOMPLETE_CHARS = 65_536;

async function readStream(
  stream: ReadableStream<Uint8Array>,
  onMessage: KernelLogListener["onMessage"],
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const reader = stream.getReader();
  const remove = onAbort(signal, () => void reader.cancel());
  const decoder = new TextDecoder();
  let incompleteLine = "";
  try {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
      const lines = (incompleteLine + decoder.decode(value, { stream: true })).split("\n");
      incompleteLine = lines.pop() ?? "";
      if (incompleteLine.length > MAX_INCOMPLETE_CHARS) incompleteLine = "";
      for (const line of lines) {
        const message = messageOf(line);
        if (message !== undefined && !signal.aborted) onMessage(message);
      }
      // Without a pending read Bun does not poll the descriptor.
      if (value !== undefined && value.length < LARGE_CHUNK_BYTES) await sleepUnlessAborted(clock, PAUSE_MS, signal);
    }
  } finally {
    remove();
  }
}

/**
 * The message of a line such as `6,339,5140900,-;NET: Registered protocol family 10`; undefined for other lines, such
 * as continuation lines.
 */
function messageOf(line: string): string | undefined {
  return /^\d+,\d+,\d+,[^;]*;(.*)$/.exec(line)?.[1];
}
