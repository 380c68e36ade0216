import { basename, dirname } from "node:path/posix";
import { createCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import {
  type LogMeasurement,
  type LogRotationSettings,
  MIN_LOOK_INTERVAL_MS,
  measureLog,
  nextLookAt,
} from "../../decide/logs/log-rotation.ts";
import type { LogRotator, RotatedLog } from "./log-rotator.ts";

/** The log of a container, which is kept below its limit while the container runs. */
export interface LimitedLog {
  /** The container has ended: what rotations have left is compressed. */
  end(): void;
  /** The runtime does not have the container any more, or the agent stops. */
  drop(): void;
  settled(): Promise<void>;
}

export interface LimitedLogDeps {
  readonly logs: Pick<Files, "stat" | "watch" | "path">;
  readonly rotator: LogRotator;
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: LogRotationSettings;
}

export interface LimitedLogOptions {
  readonly rotated: RotatedLog;
  readonly isRunning: boolean;
  /** An earlier agent may have died while it rotated the log. */
  readonly isOlder: boolean;
}

/**
 * Starts to keep a log below its limit. While the log grows, its size is checked when it can have reached the limit. A log
 * that has not grown is watched: the first write ends the watch, and from then on the log counts as one that grows. Nothing
 * runs while nothing is written.
 */
export function limitLogSize(deps: LimitedLogDeps, { rotated, isRunning, isOlder }: LimitedLogOptions): LimitedLog {
  const { logs, rotator, clock, log, settings } = deps;
  const dropped = new AbortController();
  let measurement: LogMeasurement | undefined;
  let hasEnded = !isRunning;
  let needsCleanUp = isOlder;
  let isFailureLogged = false;
  const wait = createWait(deps, rotated.path);
  const looks = createCoalescingWorker(look);
  const cleanUps = createCoalescingWorker(cleanUp);
  const isOver = () => hasEnded || dropped.signal.aborted;

  function logFailure(error: unknown): void {
    if (isOver()) return;
    const level = isFailureLogged ? "debug" : "warn";
    isFailureLogged = true;
    log[level]({ err: error, file: logs.path(rotated.path) }, "cannot rotate the log of a container");
  }

  async function look(): Promise<void> {
    wait.stop();
    if (isOver()) return;
    try {
      const measured = await measureAndRotate(deps, rotated, measurement);
      measurement = measured;
      isFailureLogged = false;
      if (measured.wasRotated) {
        needsCleanUp = true;
        cleanUps.wake();
      }
      const lookAt = nextLookAt(measured, settings);
      if (lookAt === undefined) await waitForWrite(measured);
      else lookAgainAt(lookAt);
    } catch (error) {
      logFailure(error);
      lookAgainAt(clock.now() + settings.monitorIntervalMs);
    }
  }

  function lookAgainAt(at: number): void {
    if (!isOver()) wait.until(at, looks.wake);
  }

  async function waitForWrite({ sizeBytes }: LogMeasurement): Promise<void> {
    const onWritten = () => {
      const now = clock.now();
      if (measurement !== undefined) measurement = { ...measurement, at: now };
      lookAgainAt(now + MIN_LOOK_INTERVAL_MS);
    };
    wait.forWrite(onWritten);
    // What was written before the watch began.
    const found = await logs.stat(rotated.path);
    if (found?.sizeBytes !== sizeBytes) onWritten();
  }

  async function cleanUp(): Promise<void> {
    try {
      await rotator.cleanUp(rotated, hasEnded, dropped.signal);
    } catch (error) {
      // The next rotation repeats it.
      logFailure(error);
    }
  }

  if (isRunning) looks.wake();
  if (isOlder) cleanUps.wake();
  return {
    end() {
      if (isOver()) return;
      hasEnded = true;
      wait.stop();
      if (needsCleanUp) cleanUps.wake();
    },
    drop() {
      dropped.abort();
      wait.stop();
    },
    async settled() {
      await looks.settled();
      await cleanUps.settled();
    },
  };
}

/** Measures the log, and rotates it if it has reached its limit. Rejects with `FilesError` or `CriError`. */
async function measureAndRotate(
  { logs, rotator, clock, settings }: LimitedLogDeps,
  rotated: RotatedLog,
  before: LogMeasurement | undefined,
): Promise<LogMeasurement & { readonly wasRotated: boolean }> {
  let found = await logs.stat(rotated.path);
  if (found === undefined) {
    // The agent died between the rename and the reopening, or another program has removed the log.
    await rotator.reopen(rotated);
    found = await logs.stat(rotated.path);
  }
  const measurement = measureLog(before, found?.sizeBytes ?? 0, clock.now());
  if (measurement.sizeBytes < settings.maxSizeBytes) return { ...measurement, wasRotated: false };
  await rotator.rotate(rotated);
  return { ...measurement, sizeBytes: 0, wasRotated: true };
}

/** Waits for one thing at a time: a time, or the next write to a log. */
function createWait({ logs, clock }: Pick<LimitedLogDeps, "logs" | "clock">, path: string) {
  let stop = () => {};
  return {
    stop: () => stop(),
    until(at: number, wake: () => void): void {
      stop();
      stop = clock.wakeAt(at, wake);
    },
    /** Calls `onWritten` once. Throws `FilesError` if the log's directory cannot be watched. */
    forWrite(onWritten: () => void): void {
      stop();
      const watching = new AbortController();
      stop = () => watching.abort();
      const onEvent = (file?: string) => {
        if (watching.signal.aborted || (file !== undefined && file !== basename(path))) return;
        watching.abort();
        onWritten();
      };
      logs.watch(dirname(path), onEvent, onEvent, watching.signal);
    },
  };
}
