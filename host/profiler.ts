import { Session } from "node:inspector/promises";
import type { Clock } from "./clock.ts";
import { sleep } from "./clock.ts";

/** Looks into this process. What it returns may contain secrets that are in memory. */
export interface Profiler {
  /**
   * All objects in memory, in the format of V8's heap snapshots (`.heapsnapshot`). The process stands still meanwhile, and
   * needs several times the memory of its heap.
   */
  heapSnapshot(): string;
  /** The bytes that the objects of this process take, and those that it can still get. */
  memory(): { readonly heapBytes: number; readonly availableBytes: number };
  /** Where the processor's time goes, in the format of `.cpuprofile`. Rejects with the signal's reason if it aborts. */
  cpuProfile(durationMs: number, signal: AbortSignal): Promise<string>;
}

export function createProfiler(clock: Clock): Profiler {
  return {
    heapSnapshot: () => Bun.generateHeapSnapshot("v8"),
    memory: () => ({ heapBytes: process.memoryUsage().heapUsed, availableBytes: process.availableMemory() }),
    async cpuProfile(durationMs, signal) {
      const session = new Session();
      session.connect();
      try {
        await session.post("Profiler.enable");
        await session.post("Profiler.start");
        await sleep(clock, durationMs, signal);
        const { profile } = await session.post("Profiler.stop");
        return JSON.stringify(profile);
      } finally {
        session.disconnect();
      }
    },
  };
}
