import type { Runtime } from "../../../cri/runtime.ts";
import { settledWithin } from "../../../host/async/settled-within.ts";
import type { Clock } from "../../../host/clock.ts";
import type { FileSystemSpace } from "../../../host/fs/file-system-space.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import type { Proc } from "../../../host/proc.ts";
import type { SignalObservations } from "../../decide/node/observed-node.ts";

export interface SignalReaderOptions {
  readonly runtime: Pick<Runtime, "imageFsInfo">;
  readonly proc: Pick<Proc, "memoryAvailability" | "taskAvailability">;
  /** The whole machine. */
  readonly files: Pick<Files, "space">;
  readonly rootDir: string;
  readonly clock: Clock;
  readonly log: Log;
  /** The signals with a threshold; only these are measured. */
  readonly signals: ReadonlySet<string>;
}

/** Measures the eviction signals of the node. */
export interface SignalReader {
  /** Measures each signal by itself. A signal that fails or times out is left out. Never rejects. */
  read(timeoutMs: number): Promise<SignalObservations>;
  /** The runtime may have changed, and with it the file system of its images. */
  invalidateRuntime(): void;
}

/** The timeout for the runtime to report the file system of its images. */
const REQUEST_TIMEOUT_MS = 10_000;

export function createSignalReader({
  runtime,
  proc,
  files,
  rootDir,
  clock,
  log,
  signals,
}: SignalReaderOptions): SignalReader {
  let imageDir: string | undefined;
  const nodefs = createSingleFlight(() => tryMeasure("the root directory's file system", () => files.space(rootDir)));
  const imagefs = createSingleFlight(() => tryMeasure("the file system of images", imageSpace));
  const isNeeded = (...names: readonly string[]) => names.some((name) => signals.has(name));

  async function tryMeasure<T>(what: string, measure: () => Promise<T>): Promise<T | undefined> {
    try {
      return await measure();
    } catch (error) {
      log.debug({ err: error }, `${what} cannot be measured`);
      return undefined;
    }
  }

  async function imageSpace(): Promise<FileSystemSpace | undefined> {
    if (imageDir === undefined) {
      const { imageFilesystems } = await runtime.imageFsInfo({ deadlineMs: REQUEST_TIMEOUT_MS });
      imageDir = imageFilesystems[0]?.fsId?.mountpoint;
    }
    return imageDir === undefined ? undefined : await files.space(imageDir);
  }

  return {
    async read(timeoutMs) {
      const running = [
        ...(isNeeded("nodefs.available", "nodefs.inodesFree") ? [nodefs.start()] : []),
        ...(isNeeded("imagefs.available", "imagefs.inodesFree") ? [imagefs.start()] : []),
      ];
      await settledWithin(Promise.all(running), timeoutMs, clock);
      return {
        "memory.available": isNeeded("memory.available") ? proc.memoryAvailability() : undefined,
        "pid.available": isNeeded("pid.available") ? proc.taskAvailability() : undefined,
        ...spaceSignals("nodefs", nodefs.takeResult()),
        ...spaceSignals("imagefs", imagefs.takeResult()),
      };
    },
    invalidateRuntime() {
      imageDir = undefined;
    },
  };
}

/**
 * Wraps a call that may hang. Only one call runs at a time, so that a hanging file system blocks at most one thread. A
 * result that is late for one measurement is used by the next.
 */
function createSingleFlight<T>(call: () => Promise<T | undefined>) {
  let pending: Promise<void> | undefined;
  let result: T | undefined;
  return {
    /** Starts a call unless one is running. Resolves when it has finished; never rejects. */
    start(): Promise<void> {
      pending ??= call()
        .then((found) => {
          result = found;
        })
        .finally(() => {
          pending = undefined;
        });
      return pending;
    },
    /** Returns and clears the latest result. */
    takeResult(): T | undefined {
      const found = result;
      result = undefined;
      return found;
    },
  };
}

function spaceSignals(name: string, space: FileSystemSpace | undefined): SignalObservations {
  if (space === undefined) return {};
  const { totalBytes, freeBytes, totalInodes, freeInodes } = space;
  return {
    [`${name}.available`]: { capacity: totalBytes, available: freeBytes },
    // Some file systems allocate inodes dynamically and report a total of 0.
    ...(totalInodes > 0 && { [`${name}.inodesFree`]: { capacity: totalInodes, available: freeInodes } }),
  };
}
