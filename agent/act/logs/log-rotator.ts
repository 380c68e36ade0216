import { basename, dirname } from "node:path/posix";
import type { Runtime } from "../../../cri/runtime.ts";
import type { Semaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import {
  compressedName,
  type LogRotationSettings,
  newestRotated,
  planRotatedFiles,
  rotatedName,
  temporaryName,
} from "../../decide/logs/log-rotation.ts";

export interface LogRotatorDeps {
  /** Rooted at the directory of the pods' logs. */
  readonly logs: Pick<Files, "list" | "stat" | "readLink" | "rename" | "remove" | "gzip" | "path">;
  readonly runtime: Pick<Runtime, "reopenContainerLog">;
  readonly clock: Pick<Clock, "now">;
  readonly settings: LogRotationSettings;
  /** Limits how many logs are compressed at once. */
  readonly workers: Semaphore;
}

/** The log of one container instance. */
export interface RotatedLog {
  readonly id: ContainerId;
  /** `<pod's directory>/<container>/<attempt>.log`, relative to the directory of the pods' logs. */
  readonly path: string;
  /** The rotated file that is being compressed. */
  compressing?: string | undefined;
}

/**
 * Rotates logs. The agent may die after each step; the next one finds the same state by the files alone:
 *
 * 1. The oldest rotated files are removed.
 * 2. The log is renamed. Without a log, the next agent asks the runtime to reopen it, or gives the log of a container
 *    that has ended its name back.
 * 3. The runtime creates the new log. If it refuses, the log gets its name back.
 * 4. The other rotated files are compressed, by way of a temporary file that the next agent removes.
 */
export interface LogRotator {
  /** Rotates the log of a running container. Rejects with `FilesError` or `CriError`. */
  rotate(log: RotatedLog): Promise<void>;
  /** Asks the runtime to create a log that is missing. Rejects with `CriError`. */
  reopen(log: RotatedLog): Promise<void>;
  /**
   * Removes and compresses what a rotation, or an agent that died, has left. Of a container that has ended, all rotated
   * files are compressed. Rejects with `FilesError`, or with the signal's reason when that aborts.
   */
  cleanUp(log: RotatedLog, hasEnded: boolean, signal: AbortSignal): Promise<void>;
}

export function createLogRotator({ logs, runtime, clock, settings, workers }: LogRotatorDeps): LogRotator {
  /** The regular files beside a log; none where a symlink leads to another directory. */
  async function filesBeside({ path }: RotatedLog): Promise<readonly string[]> {
    const folder = dirname(path);
    const links = await Promise.all([dirname(folder), folder].map((each) => logs.readLink(each)));
    if (links.some((target) => target !== undefined)) return [];
    return ((await logs.list(folder)) ?? []).flatMap(({ name, kind }) => (kind === "file" ? [name] : []));
  }

  const inFolder =
    ({ path }: RotatedLog) =>
    (file: string) =>
      `${dirname(path)}/${file}`;

  async function removeExcess(log: RotatedLog, maxRotated: number): Promise<void> {
    const files = await filesBeside(log);
    const input = { log: basename(log.path), files, maxRotated, keepsNewest: true, busy: log.compressing };
    for (const file of planRotatedFiles(input).remove) await logs.remove(inFolder(log)(file));
  }

  async function compress(log: RotatedLog, keepsNewest: boolean, signal: AbortSignal): Promise<void> {
    if (log.compressing !== undefined) return;
    const at = inFolder(log);
    const input = { log: basename(log.path), maxRotated: settings.maxFiles - 1, keepsNewest };
    const planned = async () => planRotatedFiles({ ...input, files: await filesBeside(log) }).compress[0];
    for (let file = await planned(); file !== undefined && !signal.aborted; file = await planned()) {
      const source = file;
      log.compressing = source;
      try {
        await workers.run(async () => {
          await logs.gzip(at(source), at(temporaryName(source)));
          await logs.rename(at(temporaryName(source)), at(compressedName(source)));
          await logs.remove(at(source));
        }, signal);
      } catch (error) {
        await logs.remove(at(temporaryName(source)));
        // A rotation meanwhile may have removed it as the oldest one, and the next one in that second has used its name again.
        const wasRemoved = error instanceof FilesError && error.code === "ENOENT";
        if (!wasRemoved && (await logs.stat(at(source))) !== undefined) throw error;
      } finally {
        log.compressing = undefined;
      }
    }
  }

  /** A container that has ended has lost its log if the agent died between the rename and the reopening. */
  async function restore(log: RotatedLog): Promise<void> {
    const files = await filesBeside(log);
    const name = basename(log.path);
    const newest = newestRotated(name, files);
    if (!files.includes(name) && newest !== undefined) await logs.rename(inFolder(log)(newest), log.path);
  }

  return {
    async rotate(log) {
      await removeExcess(log, settings.maxFiles - 2);
      const files = await filesBeside(log);
      if (!files.includes(basename(log.path))) return;
      const rotated = inFolder(log)(rotatedName(basename(log.path), clock.now(), files));
      await logs.rename(log.path, rotated);
      try {
        await runtime.reopenContainerLog(log.id);
      } catch (error) {
        // A call that failed may have created the new log, to which the container writes from then on.
        if ((await logs.stat(log.path)) !== undefined) return;
        await logs.rename(rotated, log.path);
        throw error;
      }
    },
    reopen: ({ id }) => runtime.reopenContainerLog(id),
    async cleanUp(log, hasEnded, signal) {
      if (hasEnded) await restore(log);
      await removeExcess(log, settings.maxFiles - 1);
      await compress(log, !hasEnded, signal);
    },
  };
}
