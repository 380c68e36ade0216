import { FFIType } from "bun:ffi";
import { closeSync, constants, openSync } from "node:fs";
import { isatty } from "node:tty";
import { type Clock, sleep } from "./clock.ts";
import { FilesError, toFilesError } from "./fs/files.ts";
import { NO_LIBC, openLibc } from "./libc.ts";

export interface KernelListener {
  /** One message, without what the kernel puts before it. */
  readonly heard: (message: string) => void;
  /** The kernel has said more than it keeps: some of it nobody will hear. */
  readonly lost: () => void;
}

/** What the kernel says, as dmesg(1) shows it. */
export interface KernelLog {
  /**
   * Calls back with what is said from now on, until the signal aborts or the log has an end, as the kernel's own never does. Rejects with
   * `FilesError` where there is none, it may not be read, or a terminal stands in its place.
   */
  follow(listener: KernelListener, signal: AbortSignal): Promise<void>;
}

/**
 * `path` is a kmsg (Linux: Documentation/ABI/testing/dev-kmsg). The engine's loop waits for it beside all its sockets, so that it costs
 * no thread, and nothing while nothing is said. A first message is heard at once, those behind it within two seconds.
 */
export function createKernelLog(clock: Clock, path = "/dev/kmsg"): KernelLog {
  return {
    async follow(listener, signal) {
      let log: number | undefined;
      try {
        // Some containers have a link to a terminal in its place, which must not become ours.
        const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
        log = descriptor;
        // Nor may we take from it what somebody types there.
        if (isatty(descriptor)) throw new FilesError("ENODEV", path, `${path} is a terminal, and no log of a kernel`);
        goToEnd(descriptor, path);
        await hearAll(() => Bun.file(descriptor).stream(), listener, clock, signal);
      } catch (error) {
        throw toFilesError(path, error);
      } finally {
        if (log !== undefined) closeSync(log);
      }
    },
  };
}

const SEEK_END = 2;

function goToEnd(log: number, path: string): void {
  const { i32, i64 } = FFIType;
  const libc = openLibc({ lseek: { args: [i32, i64, i32], returns: i64 } });
  if (libc === undefined) throw new FilesError("ENOSYS", path, `${path} cannot be read from its end: ${NO_LIBC}`);
  // A pipe has no end to go to, and nothing that was said before.
  libc.symbols.lseek(log, 0, SEEK_END);
  libc.close();
}

/**
 * Each pod that starts makes a dozen messages of links, each of which would wake us. Nor must whoever could not keep up with the kernel spend
 * all of a CPU on trying to.
 */
const REST_MS = 1_000;
/** A chunk this large has more behind it, which the kernel does not keep for long. */
const MUCH = 4_096;

/** Hears stream after stream: each that breaks off because of a loss has another one behind it. Rejects with what else it breaks off with. */
export async function hearAll(
  open: () => ReadableStream<Uint8Array>,
  listener: KernelListener,
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await hearStream(open(), listener.heard, clock, signal);
      return;
    } catch (error) {
      const isLoss = error instanceof Error && "code" in error && error.code === "EPIPE";
      if (!isLoss) throw error;
      listener.lost();
      await rest(clock, signal);
    }
  }
}

async function rest(clock: Clock, signal: AbortSignal): Promise<void> {
  await sleep(clock, REST_MS, signal).catch(() => {
    // Nobody wants to hear any more.
  });
}

/** No message of the kernel's is as long; what is has no end, and is none. */
const MOST_WAITING = 65_536;

async function hearStream(
  stream: ReadableStream<Uint8Array>,
  heard: KernelListener["heard"],
  clock: Clock,
  signal: AbortSignal,
): Promise<void> {
  const reader = stream.getReader();
  const end = () => void reader.cancel();
  signal.addEventListener("abort", end, { once: true });
  const decoder = new TextDecoder();
  let begun = "";
  try {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
      const lines = (begun + decoder.decode(value, { stream: true })).split("\n");
      begun = lines.pop() ?? "";
      if (begun.length > MOST_WAITING) begun = "";
      for (const line of lines) {
        const message = messageOf(line);
        if (message !== undefined && !signal.aborted) heard(message);
      }
      // While nobody asks for more, the engine does not wait for it either.
      if (value !== undefined && value.length < MUCH) await rest(clock, signal);
    }
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/** Of a line such as `6,339,5140900,-;NET: Registered protocol family 10`; a line that is not like it belongs to the one before, or is none. */
function messageOf(line: string): string | undefined {
  return /^\d+,\d+,\d+,[^;]*;(.*)$/.exec(line)?.[1];
}
