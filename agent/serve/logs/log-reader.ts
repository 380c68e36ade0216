import { basename, dirname } from "node:path/posix";
import type { Clock } from "../../../host/clock.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { ReadableFile } from "../../../host/fs/readable-file.ts";
import type { LogLines } from "./cri-log-lines.ts";
import { createLogLines } from "./log-lines.ts";
import type { LogOptions } from "./log-options.ts";
import type { ReadBlocks } from "./read-blocks.ts";

export interface LogReaderDeps {
  readonly clock: Clock;
  /** Rooted at the directory of the pods' logs. */
  readonly logs: Pick<Files, "open" | "watch">;
  readonly blocks: ReadBlocks;
}

/** The log of one container instance, and how it is read. */
export interface LogRead {
  /** Relative to the directory of the pods' logs. */
  readonly path: string;
  readonly options: LogOptions;
  /** Sends a piece to the client; resolves when it may be sent more. */
  readonly write: (piece: Uint8Array) => Promise<void>;
  /** Aborts when the client goes away, or the agent stops. */
  readonly signal: AbortSignal;
}

/** A file of a log, and how far it has been read. */
export interface LogFile {
  readonly file: ReadableFile;
  position: number;
}

/** Reads one log: converts its lines, and sends them. */
export interface LogReader {
  /** Sends what a file has, to its end, or until the client has all that it wanted. */
  drain(log: LogFile): Promise<void>;
  isDone(): boolean;
  /** The log has ended. Throws `LogFormatError`. */
  end(): void;
}

/** Where the log is in the directory of the pods' logs. */
export const placeOf = (path: string) => ({ folder: dirname(path), name: basename(path) });

export function createLogReader(
  { blocks }: Pick<LogReaderDeps, "blocks">,
  { options, write, signal }: LogRead,
): LogReader {
  const maxLines = options.follow ? undefined : options.tailLines;
  const lines: LogLines = createLogLines({ ...options, maxLines });
  let last: LogFile | undefined;

  /** Reads a piece; undefined at the end of the file. */
  const readPiece = (log: LogFile) =>
    blocks.use(async ({ input, output }) => {
      const length = await log.file.read(input, log.position);
      if (length === 0) return undefined;
      if (last !== log) lines.startFile();
      last = log;
      log.position += length;
      return lines.convert(input.subarray(0, length), output);
    }, signal);

  return {
    async drain(log) {
      while (!lines.isDone()) {
        signal.throwIfAborted();
        const piece = await readPiece(log);
        if (piece === undefined) {
          if ((await log.file.sizeBytes()) >= log.position) return;
          // The file was truncated: what is written to it from now on begins at its beginning.
          log.position = 0;
          lines.startFile();
        } else if (piece.length > 0) await write(piece);
      }
    },
    isDone: lines.isDone,
    end: lines.end,
  };
}
