import { isUnchanged, mayStopAnswering } from "../../cni/delegate/file-changes.ts";
import { findRuntimeFolderProblem } from "../../cni/delegate/runtime-folder.ts";
import { containerdCni, containerdConfig } from "../../cri/containerd-config.ts";
import { CriError } from "../../cri/error.ts";
import type { CriCallOptions, Runtime } from "../../cri/runtime.ts";
import type { RuntimeControl } from "../../cri/runtime-control.ts";
import { createLogOnChange } from "../../host/async/log-once.ts";
import { type FileStat, type Files, FilesError } from "../../host/fs/files.ts";
import type { Mounts } from "../../host/fs/mounts.ts";
import type { StatSync } from "../../host/fs/stat-sync.ts";
import type { Log } from "../../host/log/log.ts";
import { withUnusedDelegate } from "../observed/node/network-condition.ts";

export interface RuntimeFolderCheckOptions {
  readonly runtime: Pick<RuntimeControl, "verboseStatus">;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "list" | "read" | "realPath" | "stat" | "readLink">;
  readonly statSync: StatSync;
  readonly mounts: Pick<Mounts, "list">;
  readonly delegateDir: string;
}

/** Whether the container runtime reads the folder of the delegate, where the agent executes the network. */
export interface RuntimeFolderCheck {
  /**
   * Why it does not, and what to do; undefined if it does, and for a runtime that does not say which folder it reads. After a success it
   * makes one call of stat(2) until something has changed. Rejects with `CriError` and with `FilesError`.
   */
  findProblem(options?: CriCallOptions): Promise<string | undefined>;
  /** The next call reads again: after an outage the runtime may have another configuration. */
  invalidate(): void;
}

/** What the last look without a problem has found. */
interface PassedCheck {
  /** How many outages there had been; -1 before the first such look. */
  outages: number;
  /** The folder of the delegate; undefined if stat(2) of it might never return. */
  folder: FileStat | undefined;
}

/**
 * A runtime reads `conf_dir` when it starts, and the files of that folder whenever they change. So the check is repeated after an
 * outage, when the delegate's folder has changed, and while there is a problem.
 */
export function createRuntimeFolderCheck(options: RuntimeFolderCheckOptions): RuntimeFolderCheck {
  const { runtime, files, statSync, delegateDir } = options;
  let outages = 0;
  const passed: PassedCheck = { outages: -1, folder: undefined };

  function isStillRight(): boolean {
    if (passed.outages !== outages) return false;
    return passed.folder === undefined || isUnchanged(statSync, delegateDir, passed.folder);
  }

  return {
    async findProblem(callOptions) {
      if (isStillRight()) return undefined;
      const startedAfter = outages;
      // Before its files are read, so that a change meanwhile shows in the next comparison.
      const folder = await files.stat(delegateDir);
      const confDir = containerdCni(containerdConfig(await runtime.verboseStatus(callOptions)))?.confDir;
      const problem = confDir === undefined ? undefined : await findRuntimeFolderProblem(files, confDir, delegateDir);
      if (problem !== undefined) return `${problem.found}: ${problem.cure}`;
      const isWatched = !(await mayStopAnswering(options, [delegateDir]));
      passed.outages = startedAfter;
      passed.folder = isWatched ? folder : undefined;
      return undefined;
    },
    invalidate() {
      outages += 1;
    },
  };
}

/**
 * A runtime's status, whose network is not ready while the runtime does not read the delegate's folder: pods would get another network
 * than the agent's, and no networks of their annotations. Rejects as `status`.
 */
export function withRuntimeFolder(
  status: Runtime["status"],
  check: RuntimeFolderCheck,
  log: Pick<Log, "debug" | "warn">,
): Runtime["status"] {
  const logged = createLogOnChange();
  return async (options) => {
    const response = await status(options);
    try {
      const problem = await check.findProblem(options);
      if (problem === undefined) logged.clear();
      else if (logged.shouldLog(problem))
        log.warn(
          { reason: problem },
          "the agent does not execute the network of pods, since the container runtime does not call it",
        );
      return withUnusedDelegate(response, problem);
    } catch (error) {
      if (!(error instanceof CriError || error instanceof FilesError)) throw error;
      log.debug(
        { err: error },
        "cannot find out which networks the container runtime reads; the next status tries again",
      );
      return response;
    }
  };
}
