import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { CpuSample } from "./foreign-cpu.ts";

/** Watches what other processes and other machines use of the CPUs. */
export interface ForeignCpuWatch {
  /** What they have used since the previous call. Undefined once the watch has ended: what was measured meanwhile is worth hours. */
  take(): Promise<readonly CpuSample[] | undefined>;
  stop(): void;
}

const MARKER = "BERTH_BENCH_RUN";

/** From now on everything that this process starts has a variable by which the watch knows it. */
export async function watchForeignCpu(): Promise<ForeignCpuWatch> {
  const value = `${process.pid}-${Date.now()}`;
  process.env[MARKER] = value;
  const watcher = fork(join(import.meta.dirname, "foreign-cpu-process.ts"), [`${process.pid}`, `${MARKER}=${value}`]);
  const ended = new Promise<undefined>((resolve) => {
    for (const event of ["error", "exit", "disconnect"] as const) watcher.once(event, () => resolve(undefined));
  });
  const take = async () => {
    if (!watcher.connected) return undefined;
    const answered = once(watcher, "message");
    // An error has the same cause as `ended`.
    watcher.send("take", () => undefined);
    const answer = await Promise.race([answered, ended]);
    return answer?.[0] as readonly CpuSample[] | undefined;
  };
  // It has read everything once, so that nothing from before counts.
  if ((await take()) === undefined) throw new Error("the watch of foreign processes has ended at its start");
  const stop = () => {
    if (watcher.connected) watcher.disconnect();
  };
  return { take, stop };
}
