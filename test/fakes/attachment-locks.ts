import type { AbandonedLocks, AttachmentLocks, LockWait, ShareLocks } from "../../cni/attachment-locks.ts";
import { type AttachmentKey, cacheFileName } from "../../cni/cache-entry.ts";
import { CniError, cniCodes } from "../../cni/error.ts";
import { type Clock, sleep } from "../../host/clock.ts";
import type { LockMode } from "../../host/lock.ts";

interface FakeLock {
  readonly name: string;
  /** Undefined for the lock of a network. */
  readonly key?: AttachmentKey;
  readonly mode: LockMode;
  /** Aborts when the process ends that has taken it. */
  readonly process: AbortSignal;
  /** How many plugins that run have inherited it. */
  plugins: number;
}

/** Of a machine whose executors have all ended by themselves. */
export const noAbandonedLocks: AbandonedLocks = { list: async () => [], remove: async () => {} };

/** As the real locks. */
const FIRST_WAIT_MS = 5;
const MAX_WAIT_MS = 200;

/** The locks of a machine in memory. A lock ends when its process and all plugins that have inherited it have ended. */
export class FakeAttachmentLocks {
  readonly #clock: Clock;
  readonly #held = new Set<FakeLock>();
  readonly #descriptors = new Map<number, FakeLock>();
  #taken = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The locks as one process takes them; `signal` aborts when that process ends. */
  ofProcess(process: AbortSignal): AttachmentLocks {
    const hold = async <T>(
      lockOf: Pick<FakeLock, "name" | "key" | "mode">,
      wait: LockWait,
      work: (share: ShareLocks) => Promise<T>,
    ): Promise<T> => {
      const [lock, descriptor] = await this.#take({ ...lockOf, process, plugins: 0 }, wait);
      try {
        return await work(() => [descriptor]);
      } finally {
        this.#held.delete(lock);
        if (lock.key !== undefined) this.#removeAbandoned(lock.key);
      }
    };
    return {
      withAttachment: (key, work, wait) =>
        hold({ name: `.${key.network}`, mode: "shared" }, wait, (shareNetwork) =>
          hold({ name: cacheFileName(key), key, mode: "exclusive" }, wait, (share) =>
            work(() => [...shareNetwork(), ...share()]),
          ),
        ),
      withNetwork: (network, work, wait) =>
        hold({ name: `.${network}`, mode: "exclusive" }, wait, (share) => work(share, this.#abandonedOf(network))),
    };
  }

  /** The locks of attachments that dead processes have left. */
  #abandonedOf(network: string): AbandonedLocks {
    return {
      list: async () => [...this.#held].flatMap(({ key }) => (key?.network === network ? [key] : [])),
      remove: async (key) => this.#removeAbandoned(key),
    };
  }

  #removeAbandoned(key: AttachmentKey): void {
    const name = cacheFileName(key);
    for (const lock of this.#held) if (lock.name === name && lock.process.aborted) this.#held.delete(lock);
  }

  /** Runs a plugin that has inherited these descriptors. */
  async inherit<T>(descriptors: readonly number[], run: () => Promise<T>): Promise<T> {
    const locks = descriptors.flatMap((descriptor) => this.#descriptors.get(descriptor) ?? []);
    for (const lock of locks) lock.plugins += 1;
    try {
      return await run();
    } finally {
      for (const lock of locks) lock.plugins -= 1;
    }
  }

  async #take(lock: FakeLock, { signal, leftMs }: LockWait): Promise<readonly [lock: FakeLock, descriptor: number]> {
    for (let waitMs = FIRST_WAIT_MS; this.#isTaken(lock); waitMs = Math.min(MAX_WAIT_MS, waitMs * 2)) {
      const left = leftMs?.() ?? Number.POSITIVE_INFINITY;
      if (left <= 0) throw new CniError(cniCodes.tryAgainLater, `another process has locked ${lock.name}`);
      await sleep(this.#clock, Math.min(waitMs, left), signal);
    }
    signal.throwIfAborted();
    this.#held.add(lock);
    this.#descriptors.set(++this.#taken, lock);
    return [lock, this.#taken];
  }

  #isTaken({ name, mode }: FakeLock): boolean {
    const others = [...this.#held].filter((lock) => !lock.process.aborted || lock.plugins > 0);
    return others.some((lock) => lock.name === name && (mode === "exclusive" || lock.mode === "exclusive"));
  }
}
