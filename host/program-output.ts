import { spawn } from "node:child_process";
import { onAbort } from "./async/abort.ts";

export interface ProgramOutputOptions {
  /** The program's complete environment: nothing is inherited. */
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/**
 * Runs a program, never through a shell, and passes what it prints on stdout and stderr to `write` as it comes: it waits
 * while `write` does. Resolves with its exit code, undefined if a signal ended it. Rejects if it cannot be run, or `write`
 * fails; then, and when the signal aborts, the program's process group is killed.
 */
export async function streamProgram(
  [program, ...args]: readonly [string, ...string[]],
  write: (bytes: Uint8Array) => Promise<void>,
  { env, signal }: ProgramOutputOptions,
): Promise<number | undefined> {
  const child = spawn(program, args, { cwd: "/", env, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<number | undefined>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve(code ?? undefined));
  });
  // It is awaited below; a failure to start must not count as unhandled before.
  ended.catch(() => {});
  const kill = () => killGroup(child.pid);
  const remove = onAbort(signal, kill);
  const copy = async (stream: AsyncIterable<Uint8Array>) => {
    for await (const bytes of stream) await write(bytes);
  };
  try {
    await Promise.all([copy(child.stdout), copy(child.stderr)]);
    return await ended;
  } catch (error) {
    kill();
    throw error;
  } finally {
    remove();
  }
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // ESRCH: the whole group has ended already.
  }
}
