// Ctrl-C during a run of many suites: says so, ends the programs of the suites, and exits as a shell expects it.
import { constants } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { listProcesses, withDescendants } from "./bed/cleanup/processes.ts";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
type Signal = (typeof signals)[number];

/** npm and setup.mjs forward the signal that the terminal has sent to all of them, so one Ctrl-C arrives several times. */
const SAME_KEYSTROKE_MS = 1000;
/** How long a program may take to end by SIGTERM. */
const END_MS = 5000;

export interface InterruptionOptions {
  readonly print: (line: string) => void;
  /** Removes what programs that were ended have left. */
  readonly cleanUp: () => Promise<unknown>;
}

export interface Interruption {
  /** Awaits a suite's program, the leader of its process group. Never resolves after an interruption: then its result means nothing. */
  guard<T>(name: string, pid: number | undefined, ended: Promise<T>): Promise<T>;
}

/** Handles Ctrl-C, SIGTERM and SIGHUP from now on: the process exits with 128 + the signal's number. */
export function createInterruption({ print, cleanUp }: InterruptionOptions): Interruption {
  const running = new Map<Promise<unknown>, { readonly name: string; readonly pid: number | undefined }>();
  const started = performance.now();
  let endedSuites = 0;
  let interruptedAt: number | undefined;

  async function interrupt(signal: Signal): Promise<void> {
    const now = performance.now();
    if (interruptedAt !== undefined && now - interruptedAt < SAME_KEYSTROKE_MS) return;
    const exitCode = 128 + constants.signals[signal];
    if (interruptedAt !== undefined) process.exit(exitCode);
    interruptedAt = now;
    const names = [...running.values()].map(({ name }) => name);
    const what = names.length === 0 ? "no suite is running" : `ending ${names.join(", ")}`;
    print(`\ninterrupted by ${signal === "SIGINT" ? "Ctrl-C" : signal}: ${what}; Ctrl-C again exits at once`);
    await endDescendants();
    await cleanUp();
    const seconds = ((now - started) / 1000).toFixed(1);
    print(`interrupted after ${seconds} s: ${endedSuites} of its suites had ended, so this is no result`);
    process.exit(exitCode);
  }

  for (const signal of signals) process.on(signal, () => void interrupt(signal));
  // A crash of this process must not leave the groups either.
  process.on("exit", () => {
    for (const { pid } of running.values()) killGroup(pid);
  });
  return {
    async guard(name, pid, ended) {
      running.set(ended, { name, pid });
      const result = await ended;
      if (interruptedAt !== undefined) return await new Promise<never>(() => {});
      running.delete(ended);
      endedSuites += 1;
      return result;
    },
  };
}

/** Ends all programs that this process has started, and theirs, also those in process groups of their own. */
async function endDescendants(): Promise<void> {
  const others = withDescendants(await listProcesses(), [process.pid]).difference(new Set([process.pid]));
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    for (const pid of await alive(others)) send(pid, signal);
    const deadline = performance.now() + END_MS;
    while ((await alive(others)).length > 0 && performance.now() < deadline) await pause(20);
  }
}

async function alive(pids: ReadonlySet<number>): Promise<readonly number[]> {
  return (await listProcesses()).map(({ pid }) => pid).filter((pid) => pids.has(pid));
}

function killGroup(pid: number | undefined): void {
  if (pid !== undefined) send(-pid, "SIGKILL");
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // It has ended by itself.
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}
