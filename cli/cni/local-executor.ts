import { createExecutor, type Executor, type ExecutorOptions } from "../../cni/executor.ts";
import { createClock } from "../../host/clock.ts";
import { createExec } from "../../host/exec.ts";
import { createFiles, type Files } from "../../host/fs/files.ts";
import { createNetlink } from "../../host/netlink/netlink.ts";

export interface LocalExecutorOptions {
  readonly binDirs: readonly string[];
  readonly cacheDir: string;
}

/**
 * Executes networks in this process, with its environment. `program` is its name in texts for people. When a call has waited long for a
 * lock, `onLongWait` gets what is locked and who has locked it.
 */
export function createLocalExecutor(
  { binDirs, cacheDir }: LocalExecutorOptions,
  program: string,
  onLongWait?: ExecutorOptions["onLongWait"],
): { readonly files: Files; readonly executor: Executor } {
  const files = createFiles("/");
  const executor = createExecutor({
    ...{ files, binDirs },
    exec: createExec(),
    cacheFiles: createFiles(cacheDir),
    netlink: createNetlink(),
    clock: createClock(),
    env: process.env,
    onLongWait,
    description: `${program}, pid ${process.pid}`,
    onUnreadable: ({ asideName, reason }) =>
      process.stderr.write(`${program}: a cache file is unreadable and was set aside as ${asideName}: ${reason}\n`),
  });
  return { files, executor };
}
