import { onAbort } from "../async/abort.ts";
import type { Clock } from "../clock.ts";
import { type Exec, ExecError } from "../exec.ts";
import { BIND_BENEATH, BIND_FAILED } from "./bind-command.ts";
import { FilesError } from "./files.ts";

/** A file system that a server has, and where it is mounted. All paths are absolute. */
export interface NetworkMount {
  /** As mount(8) takes it: `nfs.example.com:/exports/data`. */
  readonly source: string;
  /** An existing folder. */
  readonly target: string;
  readonly fsType: string;
  /** In the words of mount(8): `nfsvers=4.2`. */
  readonly options: readonly string[];
}

/**
 * Mounts of file systems whose server may stop answering. mount(8) and umount(8) do it in processes of their own, which
 * are killed when the signal aborts or after some minutes. No method looks at what is mounted: that may hang. Each
 * rejects with `NetworkMountError`, or with the signal's reason, unless it says otherwise.
 */
export interface NetworkMounts {
  /** Mounts over what may be mounted there already: the caller looks at the mount table before. */
  mount(mount: NetworkMount, signal: AbortSignal): Promise<void>;
  /** Unmounts the newest mount at a path, by force if the server does not answer. `umount` fails where nothing is mounted. */
  unmount(target: string, signal: AbortSignal): Promise<void>;
  /**
   * Makes a path of what is mounted at a folder visible at `target`, as `bindBeneath` of `Mounts` does, in a process of its
   * own. Throws `FilesError`; `ETIMEDOUT`: the server does not answer.
   */
  bindBeneath(folder: string, path: string, target: string, signal: AbortSignal): Promise<void>;
}

/** Why a mount, an unmount or a bind mount has failed. */
export class NetworkMountError extends Error {
  override readonly name = "NetworkMountError";
  /** It did not end in time: the server does not answer. */
  readonly isTimeout: boolean;
  /** How the program has ended, in Go's words: `exit status 32`. */
  readonly status: string;
  /** What the program has printed. */
  readonly output: string;
  constructor(what: string, isTimeout: boolean, status: string, output: string, options?: ErrorOptions) {
    super(`${what}: ${status}${output === "" ? "" : `: ${output.trimEnd()}`}`, options);
    this.isTimeout = isTimeout;
    this.status = status;
    this.output = output;
  }
}

export interface NetworkMountsOptions {
  readonly exec: Exec;
  /** The folders that mount(8) and umount(8) are found in. */
  readonly path: string;
  readonly clock: Clock;
  /** Berth's own program. */
  readonly berth: readonly [string, ...string[]];
}

/**
 * As long as the kubelet waits for the volumes of a pod; mount.nfs gives up a moment before.
 *
 * @internal
 */
export const MOUNT_TIMEOUT_MS = 123_000;
/**
 * As with the kubelet: then the mount is given up, with what was not written.
 *
 * @internal
 */
export const UNMOUNT_TIMEOUT_MS = 60_000;
/**
 * A server that answers does so within milliseconds.
 *
 * @internal
 */
export const BIND_TIMEOUT_MS = 60_000;
/** A process that the kernel does not let end, in spite of SIGKILL, is left alone after this time. */
const KILL_WAIT_MS = 2_000;

export function createNetworkMounts({ exec, path, clock, berth }: NetworkMountsOptions): NetworkMounts {
  /** The programs under way, by target. */
  const running = new Set<string>();

  async function run(
    target: string,
    argv: readonly [string, ...string[]],
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const what = `${argv[0]} ${target}`;
    if (running.has(target))
      throw new NetworkMountError(what, true, "an earlier process has not ended, though it was killed", "");
    const stop = new AbortController();
    const removeListener = onAbort(signal, () => stop.abort());
    const cancelTimer = clock.wakeAt(clock.now() + timeoutMs, () => stop.abort());
    running.add(target);
    // The time limit of the program itself is the later one: the signal shows why it was killed.
    const program = exec.run(argv, { env: { PATH: path }, timeoutMs: timeoutMs + KILL_WAIT_MS, signal: stop.signal });
    const forget = () => running.delete(target);
    program.then(forget, forget);
    try {
      await endOrGiveUp(program, stop.signal, clock);
    } catch (error) {
      signal.throwIfAborted();
      if (stop.signal.aborted)
        throw new NetworkMountError(what, true, `did not end within ${timeoutMs / 1000} s`, "", { cause: error });
      if (!(error instanceof ExecError)) throw error;
      throw new NetworkMountError(what, false, statusOf(error), error.stderr, { cause: error });
    } finally {
      removeListener();
      cancelTimer();
    }
  }

  return {
    mount({ source, target, fsType, options }, signal) {
      const optionArgs = options.length === 0 ? [] : ["-o", options.join(",")];
      // The source is what the author of a pod has written: it must not be taken for an option.
      return run(target, ["mount", "-t", fsType, ...optionArgs, "--", source, target], MOUNT_TIMEOUT_MS, signal);
    },
    async unmount(target, signal) {
      try {
        await run(target, ["umount", "--", target], UNMOUNT_TIMEOUT_MS, signal);
      } catch (error) {
        if (!(error instanceof NetworkMountError && error.isTimeout)) throw error;
        await run(target, ["umount", "-f", "--", target], UNMOUNT_TIMEOUT_MS, signal);
      }
    },
    async bindBeneath(folder, subPath, target, signal) {
      try {
        await run(target, [...berth, BIND_BENEATH, folder, subPath, target], BIND_TIMEOUT_MS, signal);
      } catch (error) {
        throw error instanceof NetworkMountError ? toFilesError(target, error) : error;
      }
    },
  };
}

/** Settles as the program ends, or rejects when it has not ended for some time after the signal has killed it. */
function endOrGiveUp(program: Promise<unknown>, signal: AbortSignal, clock: Clock): Promise<void> {
  return new Promise((resolve, reject) => {
    let cancel = () => {};
    const remove = onAbort(signal, () => {
      cancel = clock.wakeAt(clock.now() + KILL_WAIT_MS, () => reject(signal.reason));
    });
    const end = () => {
      remove();
      cancel();
    };
    program.finally(end).then(() => resolve(), reject);
  });
}

/** The error that the program has printed, its code first. */
function toFilesError(target: string, error: NetworkMountError): FilesError {
  const { isTimeout, output, message, cause: by } = error;
  const hasAnswered = by instanceof ExecError && by.exitCode === BIND_FAILED;
  const [, code = "EIO", text = message] = (hasAnswered && /^(\S+) (.*)$/m.exec(output)) || [];
  return new FilesError(isTimeout ? "ETIMEDOUT" : code, target, text, { cause: error });
}

/** The end of a program in the words of Go's os/exec. */
function statusOf({ argv: [program = ""], exitCode, message, cause }: ExecError): string {
  if (exitCode !== undefined) return `exit status ${exitCode}`;
  const isMissing = cause instanceof Error && "code" in cause && cause.code === "ENOENT";
  return isMissing ? `exec: "${program}": executable file not found in $PATH` : message;
}
