import { basename, dirname, join } from "node:path/posix";
import { orAborted } from "../../../host/async/abort.ts";
import { createSemaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import { messageOf } from "../../../host/error-message.ts";
import { type Exec, ExecError, type ExecResult } from "../../../host/exec.ts";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import type { Mounts } from "../../../host/fs/mounts.ts";
import { mayStopAnswering } from "../../../host/fs/network-file-systems.ts";
import type { FsStats, MeasurableVolume, VolumeStats } from "../../../proto/kubelet/volume-stats.ts";

export interface VolumeStatsOptions {
  /** The agent's root directory. */
  readonly root: Pick<Files, "path" | "realPath" | "space" | "usage">;
  readonly mounts: Pick<Mounts, "list" | "mountsAt">;
  readonly exec: Exec;
  /** Where `stat` of the node is. */
  readonly path: string;
  readonly clock: Clock;
}

/** Shorter than the five seconds for which `berth pods` waits for an answer. */
const TIME_LIMIT_MS = 4_000;
const MAX_AT_ONCE = 8;

/**
 * Returns a function that measures volumes, in their order. Nothing runs between its calls. What is not measured within
 * four seconds has a `problem` instead of figures, as has a volume that cannot be read; one that is not set up has
 * neither. The function never rejects.
 */
export function createVolumeStats(
  options: VolumeStatsOptions,
): (volumes: readonly MeasurableVolume[]) => Promise<readonly VolumeStats[]> {
  const { root, mounts, clock } = options;
  const statfs = createStatfs(options);
  const turns = createSemaphore({ permits: MAX_AT_ONCE });
  return async (volumes) => {
    const deadline = new AbortController();
    const late = new Error(`no figures within ${TIME_LIMIT_MS / 1000} s: many files, or its server does not answer`);
    const cancel = clock.wakeAt(clock.now() + TIME_LIMIT_MS, () => deadline.abort(late));
    const { signal } = deadline;
    const measure = async ({ folder, measurement }: MeasurableVolume): Promise<FsStats | undefined> => {
      if (folder === undefined || measurement === undefined) return undefined;
      if (measurement === "du") {
        await rejectServers(options, folder);
        return await measureFolder(root, folder, signal);
      }
      const path = root.path(folder);
      return (await mounts.mountsAt(path)).length > 0 ? await statfs(path, signal) : undefined;
    };
    const toStats = async (volume: MeasurableVolume): Promise<VolumeStats> => {
      const { folder: _folder, measurement: _measurement, ...known } = volume;
      try {
        return { ...known, ...(await turns.run(() => orAborted(measure(volume), signal), signal)) };
      } catch (error) {
        return isAbsent(error) ? known : { ...known, problem: problemOf(error) };
      }
    };
    try {
      return await Promise.all(volumes.map(toStats));
    } finally {
      cancel();
    }
  };
}

/**
 * Throws if a container has mounted a file system that may stop answering over a volume or below it: the walk, and statfs,
 * would keep I/O threads of the agent as long. It looks at the folder that the volume is in, never at the volume.
 */
async function rejectServers({ root, mounts }: VolumeStatsOptions, folder: string): Promise<void> {
  const served = (await mounts.list()).filter(mayStopAnswering);
  if (served.length === 0) return;
  const path = join((await root.realPath(dirname(folder))) ?? dirname(root.path(folder)), basename(folder));
  const found = served.find(({ mountPoint }) => mountPoint === path || mountPoint.startsWith(`${path}/`));
  if (found === undefined) return;
  const { source, fsType, mountPoint } = found;
  throw new Error(`${source} (${fsType}) is mounted at ${mountPoint}: its server may not answer`);
}

async function measureFolder(root: VolumeStatsOptions["root"], folder: string, signal: AbortSignal): Promise<FsStats> {
  const [usage, space] = await Promise.all([root.usage(folder, signal), root.space(folder)]);
  return {
    ...usage,
    availableBytes: space.freeBytes,
    capacityBytes: space.totalBytes,
    inodes: space.totalInodes,
    inodesFree: space.freeInodes,
  };
}

/** Blocks in all, free ones, those that users may use, the size of a block, inodes in all, free ones. */
const FORMAT = "%b %f %a %s %c %d";

/**
 * Runs statfs(2) in a child, which is killed when its time is over: a call on a server that is gone lasts until the server
 * is back, and would keep one of the agent's few I/O threads. Clients that ask at once share one child; one that even
 * SIGKILL does not end is the only one of its volume.
 */
function createStatfs({ exec, path: PATH }: VolumeStatsOptions) {
  const running = new Map<string, { readonly run: Promise<ExecResult>; readonly signal: AbortSignal }>();
  return async (folder: string, signal: AbortSignal): Promise<FsStats> => {
    const earlier = running.get(folder);
    if (earlier?.signal.aborted) throw new Error("an earlier call of statfs has not ended: its server does not answer");
    const limits = { timeoutMs: TIME_LIMIT_MS, signal, env: { PATH, LC_ALL: "C" } };
    const start = () => exec.run(["stat", "-f", "-c", FORMAT, folder], limits).finally(() => running.delete(folder));
    const run = earlier?.run ?? start();
    if (earlier === undefined) running.set(folder, { run, signal });
    const { stdout } = await orAborted(run, signal);
    const numbers = stdout.trim().split(" ").map(Number);
    const [blocks = 0, free = 0, available = 0, blockBytes = 0, inodes = 0, inodesFree = 0] = numbers;
    if (numbers.length !== 6 || numbers.some(Number.isNaN))
      throw new Error(`stat -f prints ${JSON.stringify(stdout)}, not six numbers`);
    return {
      usedBytes: (blocks - free) * blockBytes,
      availableBytes: available * blockBytes,
      capacityBytes: blocks * blockBytes,
      inodes,
      inodesFree,
      inodesUsed: inodes - inodesFree,
    };
  };
}

const isAbsent = (error: unknown) => error instanceof FilesError && error.code === "ENOENT";

function problemOf(error: unknown): string {
  return (error instanceof ExecError && error.stderr.trim()) || messageOf(error);
}
