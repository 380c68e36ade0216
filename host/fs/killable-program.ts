import { onAbort } from "../async/abort.ts";
import type { Clock } from "../clock.ts";
import { type Exec, ExecError } from "../exec.ts";

/** Why a program that may hang in the kernel has failed. */
export class KillableProgramError extends Error {
  override readonly name = "KillableProgramError";
  /** It did not end in time: the server does not answer. */
  readonly isTimeout: boolean;
  /** How the program has ended, in Go's words: `exit status 32`. */
  readonly status: string;
  /** What the program has printed on stderr. */
  readonly output: string;
  constructor(what: string, isTimeout: boolean, status: string, output: string, options?: ErrorOptions) {
    super(`${what}: ${status}${output === "" ? "" : `: ${output.trimEnd()}`}`, options);
    this.isTimeout = isTimeout;
    this.status = status;
    this.output = output;
  }
}

interface KillableProgram {
  /** What the error message calls it: `umount /mnt/nas`. */
  readonly what: string;
  readonly name: string;
  /** It is not started while a program with one of these names was killed and has not ended; by default with its own. */
  readonly blockedBy?: readonly string[];
  readonly argv: readonly [string, ...string[]];
  /** The program is killed after this time without output on stdout. */
  readonly timeoutMs: number;
  readonly onOutput?: (text: string) => void;
}

interface KillableProgramsOptions {
  readonly exec: Exec;
  /** The folders that programs are found in. */
  readonly path: string;
  readonly clock: Clock;
}

/** A process that the kernel does not let end, in spite of SIGKILL, is left alone after this time. */
const KILL_WAIT_MS = 2_000;
/** The longest delay of a timer. The real limit starts again with each output, so exec gets none of its own. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Returns a function that runs programs that may hang, since a server may not answer. It kills them when their time is over
 * or the signal aborts, and returns what they print. It rejects with `KillableProgramError`, or the signal's reason.
 */
export function createKillablePrograms({ exec, path, clock }: KillableProgramsOptions) {
  /** The names of the programs that were killed and have not ended. */
  const unkillable = new Set<string>();

  return async (program: KillableProgram, signal: AbortSignal): Promise<string> => {
    const { what, name, blockedBy = [name], argv, timeoutMs, onOutput } = program;
    signal.throwIfAborted();
    if (blockedBy.some((each) => unkillable.has(each)))
      throw new KillableProgramError(what, true, "an earlier process has not ended, though it was killed", "");
    const stop = new AbortController();
    const removeListener = onAbort(signal, () => stop.abort());
    const startTimer = () => clock.wakeAt(clock.now() + timeoutMs, () => stop.abort());
    let cancelTimer = startTimer();
    const onStdout = (text: string) => {
      cancelTimer();
      cancelTimer = startTimer();
      onOutput?.(text);
    };
    // Only this signal kills it, which distinguishes an abort from a timeout.
    const run = exec.run(argv, { env: { PATH: path }, timeoutMs: MAX_TIMER_MS, signal: stop.signal, onStdout });
    const giveUp = () => {
      unkillable.add(name);
      const forget = () => unkillable.delete(name);
      run.then(forget, forget);
    };
    try {
      return (await endOrGiveUp(run, stop.signal, clock, giveUp)).stdout;
    } catch (error) {
      signal.throwIfAborted();
      if (stop.signal.aborted)
        throw new KillableProgramError(what, true, `did not end within ${timeoutMs / 1000} s`, "", { cause: error });
      if (!(error instanceof ExecError)) throw error;
      throw new KillableProgramError(what, false, statusOf(error), error.stderr, { cause: error });
    } finally {
      removeListener();
      cancelTimer();
    }
  };
}

/** Settles as the program ends, or rejects when it has not ended for some time after the signal has killed it. */
function endOrGiveUp<T>(program: Promise<T>, signal: AbortSignal, clock: Clock, giveUp: () => void): Promise<T> {
  return new Promise((resolve, reject) => {
    let cancel = () => {};
    const remove = onAbort(signal, () => {
      cancel = clock.wakeAt(clock.now() + KILL_WAIT_MS, () => {
        giveUp();
        reject(signal.reason);
      });
    });
    const end = () => {
      remove();
      cancel();
    };
    program.finally(end).then(resolve, reject);
  });
}

/** The end of a program in the words of Go's os/exec. */
function statusOf({ argv: [program = ""], exitCode, message, cause }: ExecError): string {
  if (exitCode !== undefined) return `exit status ${exitCode}`;
  const isMissing = cause instanceof Error && "code" in cause && cause.code === "ENOENT";
  return isMissing ? `exec: "${program}": executable file not found in $PATH` : message;
}
