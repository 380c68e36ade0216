import { findRuntimeFolderProblem } from "../../cni/delegate/runtime-folder.ts";
import { containerdCni, containerdConfig } from "../../cri/containerd-config.ts";
import { CriError } from "../../cri/error.ts";
import type { CriCallOptions, Runtime } from "../../cri/runtime.ts";
import type { RuntimeControl } from "../../cri/runtime-control.ts";
import { createLogOnChange } from "../../host/async/log-once.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import { withUnusedDelegate } from "../observed/node/network-condition.ts";

export interface RuntimeFolderCheckOptions {
  readonly runtime: Pick<RuntimeControl, "verboseStatus">;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "list" | "read" | "realPath">;
  readonly delegateDir: string;
}

/** Whether the container runtime reads the folder of the delegate, where the agent executes the network. */
export interface RuntimeFolderCheck {
  /**
   * Why it does not, and what to do; undefined if it does, and for a runtime that does not say which folder it reads. Reads nothing
   * after a success. Rejects with `CriError` and with `FilesError`.
   */
  findProblem(options?: CriCallOptions): Promise<string | undefined>;
  /** The next call reads again: after an outage the runtime may have another configuration. */
  invalidate(): void;
}

/** A runtime reads its configuration when it starts, so the check is repeated after an outage alone, and while there is a problem. */
export function createRuntimeFolderCheck({
  runtime,
  files,
  delegateDir,
}: RuntimeFolderCheckOptions): RuntimeFolderCheck {
  let outages = 0;
  let passedAfter: number | undefined;
  return {
    async findProblem(options) {
      const startedAfter = outages;
      if (passedAfter === outages) return undefined;
      const confDir = containerdCni(containerdConfig(await runtime.verboseStatus(options)))?.confDir;
      const problem = confDir === undefined ? undefined : await findRuntimeFolderProblem(files, confDir, delegateDir);
      if (problem === undefined) passedAfter = startedAfter;
      return problem && `${problem.found}: ${problem.cure}`;
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
