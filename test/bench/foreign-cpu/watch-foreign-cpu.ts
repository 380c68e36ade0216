import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { CpuSample } from "./foreign-cpu.ts";

/** Watches what other processes and other machines use of the CPUs. */
export interface ForeignCpuWatch {
  /** What they have used since the previous call. */
  take(): Promise<readonly CpuSample[]>;
  stop(): void;
}

const MARKER = "BERTH_BENCH_RUN";

/** From now on everything that this process starts has a variable by which the watch knows it. */
export async function watchForeignCpu(): Promise<ForeignCpuWatch> {
  const value = `${process.pid}-${Date.now()}`;
  process.env[MARKER] = value;
  const watcher = fork(join(import.meta.dirname, "foreign-cpu-process.ts"), [`${process.pid}`, `${MARKER}=${value}`]);
  const ended = once(watcher, "exit").then(() => {
    throw new Error("the watch of foreign processes has ended");
  });
  // Only a call of take awaits it.
  ended.catch(() => undefined);
  const take = async () => {
    const answered = once(watcher, "message");
    watcher.send("take");
    const [samples] = await Promise.race([answered, ended]);
    return samples as readonly CpuSample[];
  };
  // It has read everything once, so that nothing from before counts.
  await take();
  return { take, stop: () => watcher.disconnect() };
}
