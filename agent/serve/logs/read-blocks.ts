import { createSemaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import { outputBytes } from "./cri-log-lines.ts";

/** The memory of one read of a log, and of what it is converted to. */
export interface ReadBlock {
  readonly input: Buffer;
  readonly output: Buffer;
}

/** Lends blocks to readers, which hold one only while they read and convert: a follower that waits holds none. */
export interface ReadBlocks {
  /** Settles as `work` does; rejects with the signal's reason if that aborts while it waits for a block. */
  use<T>(work: (block: ReadBlock) => Promise<T>, signal: AbortSignal): Promise<T>;
}

const INPUT_BYTES = 128 * 1024;
/** A block that is not used any more costs memory; a new one costs little time. */
const MAX_IDLE = 2;
/** How many logs are read at once: the followers of a thousand containers do not take a block each. */
const MAX_USED = 8;
/** The read of a disk that hangs does not keep the logs on other disks from being read. */
const STUCK_AFTER_MS = 10_000;

export function createReadBlocks(clock: Clock): ReadBlocks {
  const idle: ReadBlock[] = [];
  const used = createSemaphore({ permits: MAX_USED, stuckAfter: { clock, ms: STUCK_AFTER_MS } });

  async function lend<T>(work: (block: ReadBlock) => Promise<T>): Promise<T> {
    const block = idle.pop() ?? {
      input: Buffer.allocUnsafeSlow(INPUT_BYTES),
      output: Buffer.allocUnsafeSlow(outputBytes(INPUT_BYTES)),
    };
    try {
      return await work(block);
    } finally {
      if (idle.length < MAX_IDLE) idle.push(block);
    }
  }

  return {
    use: (work, signal) => used.run(() => lend(work), signal),
  };
}
