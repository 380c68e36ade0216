import { outputBytes } from "./log-lines.ts";

/** The memory of one read of a log, and of what it is converted to. */
export interface ReadBlock {
  readonly input: Buffer;
  readonly output: Buffer;
}

/** Lends blocks to readers, which hold one only while they read and convert: a follower that waits holds none. */
export interface ReadBlocks {
  use<T>(work: (block: ReadBlock) => Promise<T>): Promise<T>;
}

const INPUT_BYTES = 128 * 1024;
/** A block that is not used any more costs memory; a new one costs little time. */
const MAX_IDLE = 2;

export function createReadBlocks(): ReadBlocks {
  const idle: ReadBlock[] = [];
  return {
    async use(work) {
      const block = idle.pop() ?? {
        input: Buffer.allocUnsafeSlow(INPUT_BYTES),
        output: Buffer.allocUnsafeSlow(outputBytes(INPUT_BYTES)),
      };
      try {
        return await work(block);
      } finally {
        if (idle.length < MAX_IDLE) idle.push(block);
      }
    },
  };
}
