import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { createCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import { FilesError } from "../../../host/fs/files.ts";
import { createLogReader, type LogFile, type LogRead, type LogReaderDeps, placeOf } from "./log-reader.ts";
import { findTailStart } from "./log-tail.ts";
import { openCurrentLog } from "./open-current-log.ts";

/** Waits for the end of the container whose log is followed. */
export interface FollowedContainer {
  readonly isRunning: boolean;
  /** Calls `ended` when it does not run any more. */
  readonly onEnd: (ended: () => void) => void;
}

/** Sends a log as it is now. */
async function readLog(deps: LogReaderDeps, read: LogRead, isRunning: boolean): Promise<void> {
  const reader = createLogReader(deps, read);
  const log = await openFirst(deps, read, isRunning);
  try {
    await seekTail(deps, read, log);
    await reader.drain(log);
    reader.end();
  } finally {
    await log.file.close();
  }
}

async function openFirst(deps: LogReaderDeps, { path, signal }: LogRead, isRunning: boolean): Promise<LogFile> {
  return { file: await (isRunning ? openCurrentLog(deps, path, signal) : deps.logs.open(path)), position: 0 };
}

async function seekTail({ blocks }: LogReaderDeps, { options, signal }: LogRead, log: LogFile): Promise<void> {
  const { tailLines } = options;
  if (tailLines === undefined) return;
  log.position = await blocks.use(({ input }) => findTailStart(log.file, tailLines, input), signal);
}

/**
 * How many new files of a log wait to be read by a slow client. More are left out, so that such a client does not hold the
 * space of logs that have been removed.
 */
const MAX_WAITING_FILES = 2;

/** Bun's watch leaves out an event that comes within a millisecond of the one before: the log is read once more after this. */
const REREAD_MS = 20;

/**
 * How long the old file is read after the new one was opened. containerd may still write to it what it has read of a stream
 * (`defaultBufSize`, 4 KiB).
 */
const REPLACED_READ_MS = 20;

/**
 * Sends a log as it is now, and then what is written to it, until the container has ended or the client has all that it
 * wanted. Rejects with `FilesError`, `LogFormatError`, as `write` does, and with the signal's reason when that aborts.
 *
 * A rotation renames the file and asks the runtime to open a new one, and the runtime writes to the old one until it has:
 *
 * 1. The directory's watch reports a new file of the log's name. It is opened at once: a slow client may read it when it
 *    has been renamed or removed as well.
 * 2. The old file is read to its end, and for 20 ms more; then the new one is read.
 * 3. The runtime may still write lines to the old file that it had buffered, and replaces the files of stdout and stderr
 *    one after the other: the old file stays open, and is read again with each event, until the next rotation.
 * 4. The event of a new line or file may be lost. Some time after each event the log is read once more, and a new file is
 *    looked for when the current one has nothing.
 */
export async function followLog(deps: LogReaderDeps, read: LogRead, container: FollowedContainer): Promise<void> {
  if (!container.isRunning || !read.options.follow) return await readLog(deps, read, container.isRunning);
  const { signal } = read;
  const reader = createLogReader(deps, read);
  const changed = createAutoResetEvent(deps.clock);
  const following = new AbortController();
  let hasEnded = false;
  const end = () => {
    hasEnded = true;
    changed.set();
  };
  container.onEnd(end);
  const files = createFollowedFiles(deps, read, changed.set);
  const { folder, name } = placeOf(read.path);
  try {
    deps.logs.watch(
      folder,
      (file, isInPlace) => {
        // Also of rotated files, to which the runtime writes until it has opened the new one.
        if (file === undefined || file.startsWith(name)) changed.set();
        if (!isInPlace && (file === undefined || file === name)) files.onReplaced();
      },
      end,
      following.signal,
    );
    await files.openFirst();
    await seekTail(deps, read, files.current());
    let hadEvent = true;
    for (;;) {
      const wasLast = hasEnded;
      const nowMs = deps.clock.monotonicMs();
      if (wasLast) await files.findNext();
      const { position } = files.current();
      for (const log of files.open()) await reader.drain(log);
      if (reader.isDone()) return;
      const hasRead = files.current().position !== position;
      if (!hasRead) await files.findNext();
      const openedMs = files.nextOpenedMs();
      const leftMs = openedMs === undefined ? Number.POSITIVE_INFINITY : openedMs + REPLACED_READ_MS - nowMs;
      if (leftMs <= 0 || (wasLast && openedMs !== undefined)) {
        files.moveOn();
        continue;
      }
      if (wasLast) return reader.end();
      const now = deps.clock.now();
      const rereadAt: number = hadEvent || hasRead ? now + REREAD_MS : Number.POSITIVE_INFINITY;
      const wakeAt = Math.min(rereadAt, now + leftMs);
      hadEvent = (await changed.wait(wakeAt, signal)) || wakeAt < rereadAt;
      signal.throwIfAborted();
    }
  } finally {
    following.abort();
    await files.close();
  }
}

/** The files of a followed log: the one before, the current one, and those that came after it. */
function createFollowedFiles(deps: LogReaderDeps, read: LogRead, onOpened: () => void) {
  let previous: LogFile | undefined;
  let current: LogFile | undefined;
  const waiting: (LogFile & { readonly openedMs: number })[] = [];
  let failure: unknown;
  let isClosed = false;
  const opener = createCoalescingWorker(async () => {
    try {
      await openNext();
    } catch (error) {
      // Between the rename and the new file there is none; its creation is an event, too.
      if (error instanceof FilesError && error.code === "ENOENT") return;
      failure = error;
      onOpened();
    }
  });

  async function openNext(): Promise<void> {
    if (isClosed || current === undefined) return;
    const next = { file: await deps.logs.open(read.path), position: 0, openedMs: deps.clock.monotonicMs() };
    const newest = waiting.at(-1) ?? current;
    if (isClosed || next.file.inode === newest.file.inode) return await next.file.close();
    if (waiting.length === MAX_WAITING_FILES) await waiting.pop()?.file.close();
    waiting.push(next);
    onOpened();
  }

  const currentFile = (): LogFile => {
    if (failure !== undefined) throw failure;
    if (current === undefined) throw new Error("no file of the log is open");
    return current;
  };

  return {
    onReplaced: opener.wake,
    /** Opens a new file whose event has not arrived yet, or is lost. */
    async findNext() {
      opener.wake();
      await opener.settled();
    },
    current: currentFile,
    open: (): readonly LogFile[] => [...(previous === undefined ? [] : [previous]), currentFile()],
    async openFirst() {
      current = await openFirst(deps, read, true);
      // It may have been replaced before `current` was known.
      opener.wake();
    },
    /** When the next file was opened, on the monotonic clock; undefined if there is none. */
    nextOpenedMs: () => waiting[0]?.openedMs,
    /** Makes the next file the current one, which is read to its end before. */
    moveOn() {
      const next = waiting.shift();
      if (next === undefined) return;
      void previous?.file.close();
      previous = current;
      current = next;
    },
    async close() {
      isClosed = true;
      await opener.settled();
      for (const log of [previous, current, ...waiting]) await log?.file.close();
    },
  };
}
