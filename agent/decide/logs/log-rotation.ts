import { formatTime } from "../../../proto/kubernetes/values/time.ts";

/** How the logs of containers are rotated. */
export interface LogRotationSettings {
  /** `containerLogMaxSize`: a log of this size is rotated. */
  readonly maxSizeBytes: number;
  /** `containerLogMaxFiles`: how many files one container has at most, the current log among them. */
  readonly maxFiles: number;
  /** `containerLogMaxWorkers`: how many logs are compressed at once. */
  readonly maxWorkers: number;
  /** `containerLogMonitorInterval`: the longest time between two checks of a log that grows. */
  readonly monitorIntervalMs: number;
}

/** The size of a log at a time, and how it has grown since the measurement before; times in epoch milliseconds. */
export interface LogMeasurement {
  readonly sizeBytes: number;
  readonly at: number;
  /** How long ago the measurement before was. */
  readonly elapsedMs: number;
  readonly hasGrown: boolean;
  readonly bytesPerMs: number;
}

/** The shortest time between two checks of a log, also of one that is written to without a pause. */
export const MIN_LOOK_INTERVAL_MS = 100;

/**
 * Measures a log. A log that is smaller than before has been rotated or truncated. After a burst the rate falls by half at
 * most with each measurement, because another burst may follow.
 */
export function measureLog(before: LogMeasurement | undefined, sizeBytes: number, now: number): LogMeasurement {
  if (before === undefined) return { sizeBytes, at: now, elapsedMs: 0, hasGrown: false, bytesPerMs: 0 };
  const written = sizeBytes < before.sizeBytes ? sizeBytes : sizeBytes - before.sizeBytes;
  const elapsedMs = Math.max(1, now - before.at);
  const bytesPerMs = Math.max(written / elapsedMs, before.bytesPerMs / 2);
  return { sizeBytes, at: now, elapsedMs, hasGrown: written > 0, bytesPerMs };
}

/**
 * Returns when to check a log again: when it can have reached its limit at the rate at which it grows, and at the latest
 * after twice the time between the last two measurements, because the rate may rise. Undefined for a log that has not grown:
 * it is checked when something is written to it.
 */
export function nextLookAt(
  { sizeBytes, at, elapsedMs, hasGrown, bytesPerMs }: LogMeasurement,
  { maxSizeBytes, monitorIntervalMs }: LogRotationSettings,
): number | undefined {
  if (!hasGrown) return undefined;
  const waitMs = Math.min((maxSizeBytes - sizeBytes) / bytesPerMs, 2 * elapsedMs, monitorIntervalMs);
  return at + Math.max(MIN_LOOK_INTERVAL_MS, waitMs);
}

const COMPRESSED = ".gz";
const TEMPORARY = ".tmp";

/** The name of a rotated file once it is compressed. */
export const compressedName = (file: string): string => file + COMPRESSED;
/** The name of a compressed file until it is complete. */
export const temporaryName = (file: string): string => file + TEMPORARY;

/** What is done with the rotated files of a log, oldest first. */
export interface RotatedFilesPlan {
  readonly remove: readonly string[];
  readonly compress: readonly string[];
}

export interface RotatedFilesInput {
  /** The name of the log, such as `0.log`. */
  readonly log: string;
  /** The files of its directory. */
  readonly files: readonly string[];
  /** How many rotated files stay. */
  readonly maxRotated: number;
  /** The newest one is not compressed: a log collector may still read it, and the runtime may still write to it. */
  readonly keepsNewest: boolean;
  /** A file that is being compressed stays as it is. */
  readonly busy?: string | undefined;
}

/**
 * Removes what an interrupted compression has left, and the oldest files; the rest is compressed. Rules: kubelet
 * filterUnusedLogs, removeExcessLogs and rotateLog.
 */
export function planRotatedFiles({ log, files, maxRotated, keepsNewest, busy }: RotatedFilesInput): RotatedFilesPlan {
  const isBusy = (file: string) => busy !== undefined && (file === busy || file === temporaryName(busy));
  const rotated = files.filter((file) => file.startsWith(`${log}.`));
  const isUnused = (file: string) => file.endsWith(TEMPORARY) || rotated.includes(compressedName(file));
  const used = rotated.filter((file) => !isUnused(file)).toSorted(byAge);
  const kept = used.slice(Math.max(0, used.length - Math.max(0, maxRotated)));
  const compressible = keepsNewest ? kept.slice(0, -1) : kept;
  return {
    remove: [...rotated.filter(isUnused), ...used.filter((file) => !kept.includes(file))].filter(
      (file) => !isBusy(file),
    ),
    compress: compressible.filter((file) => !file.endsWith(COMPRESSED) && !isBusy(file)),
  };
}

/** The rotated file that is not compressed and is newer than all others; undefined if there is none. */
export function newestRotated(log: string, files: readonly string[]): string | undefined {
  const newest = files
    .filter((file) => file.startsWith(`${log}.`) && !file.endsWith(TEMPORARY))
    .toSorted(byAge)
    .at(-1);
  return newest?.endsWith(COMPRESSED) ? undefined : newest;
}

/** The name that a log gets when it is rotated: `0.log.20060102-150405`, with milliseconds if that is in use. */
export function rotatedName(log: string, now: number, files: readonly string[]): string {
  const name = `${log}.${formatTime(now).replaceAll(/[-:Z]/g, "").replace("T", "-")}`;
  const isInUse = files.some((file) => withoutSuffix(file) === name);
  return isInUse ? `${name}.${String(Math.floor(now) % 1000).padStart(3, "0")}` : name;
}

const withoutSuffix = (file: string) => file.replace(/\.(gz|tmp)$/, "");

const byAge = (a: string, b: string) => (withoutSuffix(a) < withoutSuffix(b) ? -1 : 1);
