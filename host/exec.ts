/**
 * A program that could not be run, failed, or did not end in time. Its input and environment are never part of it, and its arguments, which
 * may be secrets, not of the message.
 */
export class ExecError extends Error {
  override readonly name = "ExecError";
  readonly argv: readonly string[];
  /** Undefined when it never ran, or was ended by a signal. */
  readonly exitCode: number | undefined;
  readonly stderr: string;
  constructor(argv: readonly string[], exitCode: number | undefined, stderr: string, message: string, cause?: unknown) {
    super(message, { cause });
    this.argv = argv;
    this.exitCode = exitCode;
    this.stderr = stderr;
  }
}

export interface ExecOptions {
  readonly stdin?: string | Uint8Array;
  /** The whole environment of the program: nothing of ours is inherited. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** The most that either output may have; a program that prints more is ended, and has failed. */
  readonly maxOutputBytes?: number;
}

export interface ExecResult {
  readonly stdout: string;
  readonly stderr: string;
}

export interface Exec {
  /** Runs a program to its end. No shell is ever involved. Rejects with `ExecError` for anything but exit code 0. */
  run(argv: readonly [string, ...string[]], options: ExecOptions): Promise<ExecResult>;
}

const OUTPUT_BYTES = 1 << 20;

/**
 * Programs run in a process group of their own and are killed as a group, at the deadline or when the signal aborts:
 * a grandchild that keeps the pipes open cannot hold us.
 */
export function createExec(): Exec {
  return {
    async run(argv, { stdin, env = {}, cwd = "/", timeoutMs, signal, maxOutputBytes = OUTPUT_BYTES }) {
      const { execa } = await import("execa");
      const [program, ...args] = argv;
      const child = execa(program, args, {
        cwd,
        env,
        extendEnv: false,
        detached: true,
        cleanup: false,
        reject: false,
        stripFinalNewline: false,
        maxBuffer: maxOutputBytes,
        ...(stdin === undefined ? { stdin: "ignore" } : { input: stdin }),
      });
      const ended = { by: undefined as "timeout" | "signal" | undefined };
      const kill = (by: "timeout" | "signal") => {
        ended.by ??= by;
        killGroup(child.pid);
        child.stdout.destroy();
        child.stderr.destroy();
      };
      const timer = setTimeout(() => kill("timeout"), timeoutMs);
      const onAbort = () => kill("signal");
      signal?.addEventListener("abort", onAbort, { once: true });
      if (signal?.aborted) onAbort();
      try {
        const { exitCode, failed, stdout, stderr, isMaxBuffer, signal: killedBy, cause } = await child;
        if (!failed && ended.by === undefined) return { stdout, stderr };
        const why = {
          timeout: `did not end within ${timeoutMs} ms`,
          signal: "was given up",
          failure: isMaxBuffer ? `printed more than ${maxOutputBytes} bytes` : howItEnded(exitCode, killedBy, cause),
        }[ended.by ?? "failure"];
        killGroup(child.pid);
        throw new ExecError(argv, exitCode, String(stderr ?? ""), `${program} ${why}`, cause);
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
      }
    },
  };
}

/** execa has words for it too, all arguments among them. */
function howItEnded(exitCode: number | undefined, killedBy: string | undefined, cause: unknown): string {
  if (exitCode !== undefined) return `ended with code ${exitCode}`;
  if (killedBy !== undefined) return `was ended by ${killedBy}`;
  const code = cause instanceof Error && "code" in cause ? `: ${cause.code}` : "";
  return `could not be run${code}`;
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // ESRCH: the whole group has ended already, which is what we want.
  }
}
