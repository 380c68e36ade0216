import { type Clock, sleep } from "../host/clock.ts";
import type { Files } from "../host/fs/files.ts";
import { inFolder } from "../host/fs/in-folder.ts";
import { type LockMode, takeLock } from "../host/lock.ts";
import { type AttachmentKey, cacheFileName } from "./cache-entry.ts";

/**
 * Locks across processes: one executor per attachment, and GC only while no ADD and DEL of its network runs. Specification,
 * section 3, "Lifecycle & Ordering". The kernel releases a lock when its process and all plugins that share it have ended; a process that
 * is stopped keeps it.
 */
export interface AttachmentLocks {
  /** Runs `work` while no other process works on this attachment, nor collects the garbage of its network. */
  withAttachment<T>(key: AttachmentKey, work: (shareLocks: ShareLocks) => Promise<T>, signal: AbortSignal): Promise<T>;
  /** Runs `work` while no other process works on any attachment of this network. */
  withNetwork<T>(network: string, work: (shareLocks: ShareLocks) => Promise<T>, signal: AbortSignal): Promise<T>;
}

/**
 * Returns the descriptors of the locks that are held, for the processes of plugins to inherit. Plugins outlive an executor that is
 * killed, and go on changing the network: the next executor waits until the last of them has ended.
 */
export type ShareLocks = () => readonly number[];

/** For plugins that are called while no lock is held. */
export const shareNoLocks: ShareLocks = () => [];

export interface AttachmentLocksDeps {
  /** Rooted at the cache's folder; the locks are in its folder `locks`, where no other program looks for results. */
  readonly files: Pick<Files, "path" | "makeFolder">;
  readonly clock: Clock;
  /** Written into the file of a lock that one process alone holds, so that `head /var/lib/cni/locks/*` shows its holder. */
  readonly description: string;
}

const FOLDER = "locks";
/** flock(2) without waiting, since one that waits would block the process. It hardly ever waits, so few tries follow. */
const FIRST_WAIT_MS = 5;
const MAX_WAIT_MS = 200;

export function createAttachmentLocks({ files, clock, description }: AttachmentLocksDeps): AttachmentLocks {
  async function take(name: string, mode: LockMode, signal: AbortSignal) {
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(MAX_WAIT_MS, waitMs * 2)) {
      signal.throwIfAborted();
      const lock = await inFolder(files, FOLDER, () => takeLock(files.path(FOLDER, name), description, mode));
      if (lock.held) return lock;
      await sleep(clock, waitMs, signal);
    }
  }

  return {
    async withAttachment(key, work, signal) {
      const network = await take(networkFile(key.network), "shared", signal);
      try {
        const own = await take(cacheFileName(key), "exclusive", signal);
        try {
          return await work(() => [network.share(), own.share()]);
        } finally {
          own.remove();
        }
      } finally {
        network.release();
      }
    },
    async withNetwork(name, work, signal) {
      const lock = await take(networkFile(name), "exclusive", signal);
      try {
        return await work(() => [lock.share()]);
      } finally {
        lock.release();
      }
    },
  };
}

/** No attachment has such a name: a network's name begins with a letter or a digit. */
const networkFile = (network: string) => `.${network}`;
