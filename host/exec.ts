import type { Readable } from "node:stream";
import { onAbort } from "./async/abort.ts";

/**
 * A program that could not be run, failed, or did not end in time. It never contains the program's input and
 * environment, and its message contains no arguments, which may be secret.
 */
export class ExecError extends Error {
  override readonly name = "ExecError";
  readonly argv: readonly string[];
  /** Undefined if it never ran, or was killed by a signal. */
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
  /** The program's complete environment: nothing is inherited. */
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** The limit for stdout and for stderr; a program that prints more is killed and counts as failed. */
  readonly maxOutputBytes?: number;
  /** Called with what the program prints on stdout, as it does so, in pieces of whole characters. */
  readonly onStdout?: (text: string) => void;
  /** Descriptors of this process that the program and its children inherit, as 3, 4 and so on. */
  readonly inheritedDescriptors?: readonly number[];
}

export interface ExecResult {
  readonly stdout: string;
  readonly stderr: string;
}

export interface Exec {
  /** Runs a program to its end, never through a shell. Rejects with `ExecError` for anything but exit code 0. */
  run(argv: readonly [string, ...string[]], options: ExecOptions): Promise<ExecResult>;
}

const DEFAULT_MAX_OUTPUT_BYTES = 1 << 20;

/**
 * Programs run in a process group of their own and are killed as a group, at the deadline or when the signal aborts: a
 * grandchild that keeps the pipes open must not block us.
 */
export function createExec(): Exec {
  return {
    async run(argv, options) {
      const { stdin, env = {}, timeoutMs, signal, maxOutputBytes = DEFAULT_MAX_OUTPUT_BYTES, onStdout } = options;
      // The types of execa allow no number above 9; execa itself takes any.
      const inherited = (options.inheritedDescriptors ?? []) as readonly 9[];
      const { execa } = await import("execa");
      const [program, ...args] = argv;
      const start = () =>
        execa(program, args, {
          cwd: "/",
          env,
          extendEnv: false,
          detached: true,
          cleanup: false,
          reject: false,
          stripFinalNewline: false,
          maxBuffer: maxOutputBytes,
          stdio: [stdin === undefined ? "ignore" : "pipe", "pipe", "pipe", ...inherited],
          ...(stdin !== undefined && { input: stdin }),
        });
      const child = startOrFail(start, argv);
      if (onStdout !== undefined) readText(child.stdout, onStdout);
      const killReason = { by: undefined as "timeout" | "signal" | undefined };
      const kill = (by: "timeout" | "signal") => {
        killReason.by ??= by;
        killGroup(child.pid);
        child.stdout.destroy();
        child.stderr.destroy();
      };
      const timer = setTimeout(() => kill("timeout"), timeoutMs);
      const remove = onAbort(signal, () => kill("signal"));
      try {
        const { exitCode, failed, stdout, stderr, isMaxBuffer, signal: killedBy, cause } = await child;
        if (!failed && killReason.by === undefined) return { stdout, stderr };
        const reason = {
          timeout: `did not end within ${timeoutMs} ms`,
          signal: "was cancelled",
          failure: isMaxBuffer ? `printed more than ${maxOutputBytes} bytes` : describeExit(exitCode, killedBy, cause),
        }[killReason.by ?? "failure"];
        killGroup(child.pid);
        throw new ExecError(argv, exitCode, String(stderr ?? ""), `${program} ${reason}`, cause);
      } finally {
        clearTimeout(timer);
        remove();
      }
    },
  };
}

/**
 * Bun throws where the kernel refuses a file that exists (ENOEXEC, ETXTBSY), and execa then fails with a TypeError that hides
 * which of both it was. The cause has the code ENOEXEC.
 */
function startOrFail<Child>(start: () => Child, argv: readonly [string, ...string[]]): Child {
  try {
    return start();
  } catch (error) {
    const cause = Object.assign(new Error("exec format error, or text file busy", { cause: error }), {
      code: "ENOEXEC",
    });
    const why = "it is no program of this machine, or is just being written";
    throw new ExecError(argv, undefined, "", `${argv[0]} could not be run: ${why}`, cause);
  }
}

function readText(stream: Readable, onText: (text: string) => void): void {
  const decoder = new TextDecoder();
  stream.on("data", (bytes: Uint8Array) => onText(decoder.decode(bytes, { stream: true })));
}

/** Describes the failure without execa's message, which contains all arguments. */
function describeExit(exitCode: number | undefined, killedBy: string | undefined, cause: unknown): string {
  if (exitCode !== undefined) return `exited with code ${exitCode}`;
  if (killedBy !== undefined) return `was killed by ${killedBy}`;
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
