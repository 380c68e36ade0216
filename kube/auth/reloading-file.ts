import { createLogOnChange } from "../../host/async/log-once.ts";
import type { Clock, Instant } from "../../host/clock.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import { KubeError } from "../error.ts";

/** A value read from files that other programs may replace at any time, such as a rotated client certificate. */
export interface ReloadingFile<T> {
  /**
   * The current value: read again when a file has changed, else the same object as before. Rejects with `KubeError` of
   * code CREDENTIALS if no valid version has been read yet.
   */
  latest(): Promise<T>;
  /** The next `latest` checks the files at once. */
  invalidate(): void;
}

export interface ReloadingFileOptions<T> {
  /** The subject of log messages: `the kubeconfig`. */
  readonly subject: string;
  /** The files that `read` reads. The list may grow after the first read. */
  readonly paths: () => readonly string[];
  readonly read: () => Promise<T>;
  readonly isEqual: (one: T, other: T) => boolean;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "stat">;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

/** The files are checked at most this often: there may be hundreds of requests a second. */
const CHECK_INTERVAL_MS = 1_000;

/**
 * The next request after a change reads the files again. While they cannot be used, perhaps because they are half
 * replaced, the previous value stays in use, and that is logged once.
 */
export function createReloadingFile<T>({
  subject,
  paths,
  read,
  isEqual,
  files,
  clock,
  log,
}: ReloadingFileOptions<T>): ReloadingFile<T> {
  let current: { readonly value: T; readonly versions: string } | undefined;
  // No TTL cache: the value outlives its check, and only a changed file replaces it.
  let checkedAt: Instant | undefined;
  /** Why there is no valid version yet. */
  let failure: unknown;
  let checking: Promise<T> | undefined;
  const logged = createLogOnChange();

  function hasJustChecked(): boolean {
    const agoMs = checkedAt === undefined ? -1 : clock.now() - checkedAt;
    return agoMs >= 0 && agoMs < CHECK_INTERVAL_MS;
  }
  async function versionsNow(): Promise<string> {
    return (await Promise.all(paths().map((path) => versionOf(files, path)))).join(" ");
  }

  async function check(): Promise<T> {
    const versions = await versionsNow();
    checkedAt = clock.now();
    if (current?.versions === versions) return current.value;
    try {
      const value = await read();
      // An unchanged value stays the same object: touching a file must not cause a new connection.
      const before = current?.value;
      current = { value: before !== undefined && isEqual(before, value) ? before : value, versions };
      failure = undefined;
      if (!logged.isEmpty()) log.info({}, `${subject} can be used again`);
      logged.clear();
    } catch (error) {
      if (current === undefined) failure = error;
      if (current === undefined || !(error instanceof KubeError)) throw error;
      if (logged.shouldLog(error.message))
        log.warn({}, `${subject} cannot be used; keeping what was read before: ${error.message}`);
    }
    return current.value;
  }

  return {
    async latest() {
      if (current !== undefined && (paths().length === 0 || hasJustChecked())) return current.value;
      if (failure !== undefined && checking === undefined && hasJustChecked()) throw failure;
      checking ??= check().finally(() => {
        checking = undefined;
      });
      return await checking;
    },
    invalidate() {
      checkedAt = undefined;
    },
  };
}

/** Identifies a file's version. A failing stat counts as a version too: the read that follows reports the error. */
async function versionOf(files: Pick<Files, "stat">, path: string): Promise<string> {
  try {
    const stat = await files.stat(path);
    return stat === undefined ? "absent" : `${stat.inode}:${stat.modifiedMs}:${stat.sizeBytes}`;
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    return error.code;
  }
}
