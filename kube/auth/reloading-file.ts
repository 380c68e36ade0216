import type { Clock, Instant } from "../../host/clock.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log.ts";
import { KubeError } from "../error.ts";

/** What stands in files that others may replace at any time. */
export interface Kept<T> {
  /**
   * What stands there now: read again when a file has changed. The same object as before where nothing has. Rejects with `KubeError`
   * of code CREDENTIALS while it has never been of use.
   */
  latest(): Promise<T>;
  /** The next look is not put off. */
  doubt(): void;
}

export interface KeptOptions<T> {
  /** Begins a sentence: `the kubeconfig`. */
  readonly what: string;
  /** Those that are read: as far as is known before it is read, and afterwards. */
  readonly paths: () => readonly string[];
  readonly read: () => Promise<T>;
  readonly isEqual: (one: T, other: T) => boolean;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "stat">;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

/** Within this time of a look nobody looks again: hundreds of requests may be made in a second. */
const LOOK_EVERY_MS = 1_000;

/**
 * A file that has changed is taken up with the next request; while it cannot be used, half replaced perhaps, what it held before
 * stays, and that is said once.
 */
export function createKept<T>({ what, paths, read, isEqual, files, clock, log }: KeptOptions<T>): Kept<T> {
  let kept: { readonly value: T; readonly versions: string } | undefined;
  let lookedAt: Instant | undefined;
  let looking: Promise<T> | undefined;
  let told: string | undefined;

  function isFresh(): boolean {
    if (paths().length === 0) return true;
    const agoMs = lookedAt === undefined ? -1 : clock.now() - lookedAt;
    return agoMs >= 0 && agoMs < LOOK_EVERY_MS;
  }
  async function versionsNow(): Promise<string> {
    return (await Promise.all(paths().map((path) => versionOf(files, path)))).join(" ");
  }

  async function look(): Promise<T> {
    const versions = await versionsNow();
    lookedAt = clock.now();
    if (kept?.versions === versions) return kept.value;
    try {
      const value = await read();
      // What was only touched is no reason for a new connection.
      const before = kept?.value;
      kept = { value: before !== undefined && isEqual(before, value) ? before : value, versions };
      if (told !== undefined) log.info({}, `${what} can be used again`);
      told = undefined;
    } catch (error) {
      if (kept === undefined || !(error instanceof KubeError)) throw error;
      if (told !== error.message)
        log.warn({}, `${what} cannot be used any more, and what was read before stays: ${error.message}`);
      told = error.message;
    }
    return kept.value;
  }

  return {
    async latest() {
      if (kept !== undefined && isFresh()) return kept.value;
      looking ??= look().finally(() => {
        looking = undefined;
      });
      return await looking;
    },
    doubt() {
      lookedAt = undefined;
    },
  };
}

/** What cannot be looked at is read all the same, which says why. */
async function versionOf(files: Pick<Files, "stat">, path: string): Promise<string> {
  try {
    const stat = await files.stat(path);
    return stat === undefined ? "absent" : `${stat.inode}:${stat.modifiedMs}:${stat.sizeBytes}`;
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    return error.code;
  }
}
