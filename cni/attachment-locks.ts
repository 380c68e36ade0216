import { type Clock, sleep } from "../host/clock.ts";
import type { Files } from "../host/fs/files.ts";
import { inFolder } from "../host/fs/in-folder.ts";
import { type LockMode, takeLock } from "../host/lock.ts";
import { holdersOf } from "../host/lock-holders.ts";
import { joinWithAnd } from "../proto/join-with-and.ts";
import { formatTime } from "../proto/kubernetes/values/time.ts";
import { type AttachmentKey, cacheFileName, keyOfFileName } from "./cache-entry.ts";
import { CniError, cniCodes } from "./error.ts";

/**
 * Locks across processes: one executor per attachment, and GC only while no ADD and DEL of its network runs. Specification,
 * section 3, "Lifecycle & Ordering". The kernel releases a lock when its process and all plugins that share it have ended; a process that
 * is stopped keeps it.
 */
export interface AttachmentLocks {
  /** Runs `work` while no other process works on this attachment, nor collects the garbage of its network. */
  withAttachment<T>(key: AttachmentKey, work: (shareLocks: ShareLocks) => Promise<T>, wait: LockWait): Promise<T>;
  /** Runs `work` while no other process works on any attachment of this network. */
  withNetwork<T>(
    network: string,
    work: (shareLocks: ShareLocks, abandoned: AbandonedLocks) => Promise<T>,
    wait: LockWait,
  ): Promise<T>;
}

/**
 * The locks of a network's attachments that executors left when they were killed or the machine lost power. An executor that ends by
 * itself removes its lock, and no process holds one while the network is locked. Rejects with `FilesError`.
 */
export interface AbandonedLocks {
  list(): Promise<readonly AttachmentKey[]>;
  /** Absent is success. */
  remove(key: AttachmentKey): Promise<void>;
}

/** How long to wait for a lock that is held: until the signal aborts, whose reason is then the error, or until no time is left. */
export interface LockWait {
  readonly signal: AbortSignal;
  /** The time of the caller that is left, in milliseconds; unlimited without it. At its end the error has code 11, and names the holder. */
  readonly leftMs?: () => number;
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
  readonly files: Pick<Files, "path" | "makeFolder" | "stat" | "list" | "remove">;
  readonly clock: Clock;
  /** Written into the file of a lock that one process alone holds, so that `head /var/lib/cni/locks/*` shows its holder. */
  readonly description: string;
  /** Called once when a call has waited two seconds for a lock, with what is locked and who has locked it. */
  readonly onLongWait?: ((text: string) => void) | undefined;
}

const FOLDER = "locks";
/** flock(2) without waiting, since one that waits would block the process. It hardly ever waits, so few tries follow. */
const FIRST_WAIT_MS = 5;
const MAX_WAIT_MS = 200;
const LONG_WAIT_MS = 2_000;
const forever = () => Number.POSITIVE_INFINITY;

export function createAttachmentLocks(deps: AttachmentLocksDeps): AttachmentLocks {
  const { files, clock, description } = deps;

  async function take(name: string, mode: LockMode, what: string, { signal, leftMs = forever }: LockWait) {
    const startedMs = clock.monotonicMs();
    let { onLongWait } = deps;
    for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(MAX_WAIT_MS, waitMs * 2)) {
      signal.throwIfAborted();
      const lock = await inFolder(files, FOLDER, () => takeLock(files.path(FOLDER, name), description, mode));
      if (lock.held) return lock;
      const left = leftMs();
      const describe = () => describeHolders(name, lock.holder, what);
      if (left <= 0) throw new CniError(cniCodes.tryAgainLater, `${await describe()}, longer than this call may wait`);
      if (onLongWait !== undefined && clock.monotonicMs() - startedMs >= LONG_WAIT_MS) {
        onLongWait(await describe());
        onLongWait = undefined;
      }
      await sleep(clock, Math.min(waitMs, left), signal);
    }
  }

  /** Who has locked what, and since when: a plugin may have outlived the process that has taken it. `description`: what that has written. */
  async function describeHolders(name: string, description: string, what: string): Promise<string> {
    // Shared holders write nothing.
    const heldSince = description === "" ? undefined : (await files.stat(`${FOLDER}/${name}`))?.modifiedMs;
    const holders = (await holdersOf(files.path(FOLDER, name))).map(
      (holder) => `pid ${holder.pid}${holder.name === "" ? "" : ` (${holder.name})`}`,
    );
    const who = holders.length === 0 ? description || "another process" : joinWithAnd(holders);
    const since = heldSince === undefined ? "" : ` since ${formatTime(heldSince)}`;
    return `${who} ${holders.length > 1 ? "have" : "has"} locked ${what}${since}`;
  }

  return {
    async withAttachment(key, work, wait) {
      const network = await take(networkFile(key.network), "shared", `the network ${key.network}`, wait);
      try {
        const what = `${key.ifName} of ${key.containerId} in the network ${key.network}`;
        const own = await take(cacheFileName(key), "exclusive", what, wait);
        try {
          return await work(() => [network.share(), own.share()]);
        } finally {
          own.remove();
        }
      } finally {
        network.release();
      }
    },
    async withNetwork(name, work, wait) {
      const lock = await take(networkFile(name), "exclusive", `the network ${name}`, wait);
      try {
        return await work(() => [lock.share()], abandonedLocksOf(files, name));
      } finally {
        lock.release();
      }
    },
  };
}

/** No attachment has such a name: a network's name begins with a letter or a digit. */
const networkFile = (network: string) => `.${network}`;

function abandonedLocksOf(files: Pick<Files, "list" | "remove">, network: string): AbandonedLocks {
  return {
    async list() {
      const found = (await files.list(FOLDER)) ?? [];
      return found.flatMap(({ name, kind }) => (kind === "file" && keyOfLock(name, network)) || []);
    },
    remove: (key) => files.remove(`${FOLDER}/${cacheFileName(key)}`),
  };
}

/**
 * The attachment of a network that the name of a lock means; undefined for another network. Container runtimes give ids without a hyphen,
 * so `pods-blue-3f2a-eth0` is of the network `pods-blue`, which an executor may hold while `pods` is locked.
 */
function keyOfLock(name: string, network: string): AttachmentKey | undefined {
  const key = keyOfFileName(name, network);
  return key?.containerId.includes("-") === true ? undefined : key;
}
