import type { Clock } from "../clock.ts";
import type { Exec } from "../exec.ts";
import type { GroupChange } from "./change-group.ts";
import { FILE_CALL, type FileCall, type FileCallFailure, type FileCallOutput } from "./file-call.ts";
import { type FileStat, FilesError, type GroupChangeResult } from "./files.ts";
import { createKillablePrograms, KillableProgramError } from "./killable-program.ts";
import type { BindOptions } from "./mounts.ts";

/**
 * The calls of `Files` and `Mounts` on file systems that may stop answering (`networkMountOf`). Each runs in a process of
 * its own, which is killed when the signal aborts or when the file system does not answer for a minute (`ETIMEDOUT`): a
 * call in this process would keep one of its few I/O threads as long, and mount(2) the whole agent. All paths are absolute.
 * Each method rejects with `FilesError`, or with the signal's reason.
 */
export interface NetworkFiles {
  stat(path: string, signal: AbortSignal): Promise<FileStat | undefined>;
  realPath(path: string, signal: AbortSignal): Promise<string | undefined>;
  makeFolder(path: string, mode: number, signal: AbortSignal): Promise<void>;
  makeEmptyFile(path: string, mode: number, signal: AbortSignal): Promise<void>;
  changeGroup(path: string, change: GroupChange): Promise<GroupChangeResult>;
  bind(source: string, target: string, options: BindOptions, signal: AbortSignal): Promise<void>;
  bindBeneath(folder: string, path: string, target: string, signal: AbortSignal): Promise<void>;
  unmount(path: string, signal: AbortSignal): Promise<void>;
}

export interface NetworkFilesOptions {
  readonly exec: Exec;
  readonly path: string;
  readonly clock: Clock;
  /** Berth's own program. */
  readonly berth: readonly [string, ...string[]];
}

/**
 * A server that answers does so within milliseconds.
 *
 * @internal
 */
export const FILE_CALL_TIMEOUT_MS = 60_000;

interface CallInput {
  /** What the call looks at first. */
  readonly path: string;
  readonly call: FileCall;
  readonly signal: AbortSignal;
  readonly onProgress?: ((count: number) => void) | undefined;
}

export function createNetworkFiles({ berth, ...options }: NetworkFilesOptions): NetworkFiles {
  const run = createKillablePrograms(options);

  async function perform({ path, call, signal, onProgress }: CallInput): Promise<unknown> {
    const name = JSON.stringify(call);
    const argv = [...berth, FILE_CALL, name] as const;
    let outcome: FileCallOutput | undefined;
    const onOutput = readLines((line) => {
      const output: FileCallOutput = JSON.parse(line);
      if ("progress" in output) onProgress?.(output.progress);
      else outcome = output;
    });
    try {
      await run({ what: call[0], name, argv, timeoutMs: FILE_CALL_TIMEOUT_MS, onOutput }, signal);
    } catch (error) {
      if (!(error instanceof KillableProgramError)) throw error;
      const { isTimeout, status, message } = error;
      if (!isTimeout) throw new FilesError("EIO", path, `${path}: ${message}`, { cause: error });
      throw new FilesError("ETIMEDOUT", path, `${path} does not answer: ${call[0]} ${status}`, { cause: error });
    }
    if (outcome === undefined) throw new FilesError("EIO", path, `${path}: ${call[0]} has ended without an answer`);
    if ("failure" in outcome) throw toFilesError(outcome.failure);
    return "result" in outcome ? outcome.result : undefined;
  }

  return {
    stat: async (path, signal) => (await perform({ path, call: ["stat", path], signal })) as FileStat | undefined,
    realPath: async (path, signal) => (await perform({ path, call: ["realPath", path], signal })) as string | undefined,
    async makeFolder(path, mode, signal) {
      await perform({ path, call: ["makeFolder", path, mode], signal });
    },
    async makeEmptyFile(path, mode, signal) {
      await perform({ path, call: ["makeEmptyFile", path, mode], signal });
    },
    async changeGroup(path, { signal, onProgress, ...change }) {
      const result = await perform({ path, call: ["changeGroup", path, change], signal, onProgress });
      const { count, failure } = result as { readonly count: number; readonly failure?: FileCallFailure };
      return { count, failure: failure && toFilesError(failure) };
    },
    async bind(source, target, bindOptions, signal) {
      await perform({ path: source, call: ["bind", source, target, bindOptions], signal });
    },
    async bindBeneath(folder, path, target, signal) {
      await perform({ path: folder, call: ["bindBeneath", folder, path, target], signal });
    },
    async unmount(path, signal) {
      await perform({ path, call: ["unmount", path], signal });
    },
  };
}

const toFilesError = ({ code, path, message }: FileCallFailure) => new FilesError(code, path, message);

/** Returns a function that takes a text in pieces, and calls `onLine` with each whole line. */
function readLines(onLine: (line: string) => void): (text: string) => void {
  let rest = "";
  return (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    lines.forEach(onLine);
  };
}
