import { setTimeout as pause } from "node:timers/promises";
import { memoryOf } from "../process-usage.ts";
import { openExec } from "./exec-client.ts";
import type { NodeServer } from "./node-api.ts";

/** What a container writes to its stdout in one session. */
export const STDOUT_MB = 200;

/** The number of sessions that are open at the same time. */
export const SESSIONS = 200;

/** All sessions of one turn, and the agent's memory before and some seconds after them. */
export interface SessionsAtOnce {
  /** Sessions that were refused, lost output, or ended without success. */
  readonly failed: number;
  /** From the first connection to the last status. */
  readonly wallMs: number;
  readonly pssBefore: number;
  readonly pssAfter: number;
}

/** Returns the time of one exec of `true`, in milliseconds. Throws unless it succeeds. */
export async function measureExec(server: NodeServer, pod: string): Promise<number> {
  return await measureOutput(server, pod, ["true"], 0);
}

/** Returns the time in which a client receives zeroes from a container, in milliseconds. Throws unless all of them arrive. */
export async function measureStdout(server: NodeServer, pod: string): Promise<number> {
  const command = ["dd", "if=/dev/zero", "bs=1000000", `count=${STDOUT_MB}`];
  return await measureOutput(server, pod, command, STDOUT_MB * 1e6);
}

async function measureOutput(server: NodeServer, pod: string, command: readonly string[], bytes: number) {
  const { ms, stdoutBytes, hasSucceeded } = await (await openExec(server, pod, command, false)).result;
  if (!hasSucceeded || stdoutBytes !== bytes)
    throw new Error(`exec of ${command[0]} brought ${stdoutBytes} of ${bytes} B, with success: ${hasSucceeded}`);
  return ms;
}

/** After this time an agent has released what it needed for the sessions. */
const SETTLE_MS = 10_000;

/** Opens all sessions, each with a `cat`; when every one has echoed its text, ends all. */
export async function measureSessionsAtOnce(server: NodeServer, pod: string, pid: number): Promise<SessionsAtOnce> {
  const pssBefore = (await memoryOf(pid)).pssBytes;
  const from = performance.now();
  const allEchoed = Promise.withResolvers<void>();
  let openSessions = SESSIONS;
  const echo = () => {
    openSessions--;
    if (openSessions === 0) allEchoed.resolve();
  };
  const succeeded = await Promise.all(
    Array.from({ length: SESSIONS }, async (_, at) => {
      const text = Buffer.from(`text of session ${at}\n`);
      let session: Awaited<ReturnType<typeof openExec>>;
      try {
        session = await openExec(server, pod, ["cat"], true);
      } catch (error) {
        console.warn(`session ${at} was refused: ${String(error)}`);
        echo();
        return false;
      }
      session.stdin(text);
      await session.firstOutput;
      echo();
      await allEchoed.promise;
      session.endStdin();
      const { stdoutBytes, hasSucceeded } = await session.result;
      return hasSucceeded && stdoutBytes === text.length;
    }),
  );
  const wallMs = performance.now() - from;
  await pause(SETTLE_MS);
  const failed = succeeded.filter((each) => !each).length;
  return { failed, wallMs, pssBefore, pssAfter: (await memoryOf(pid)).pssBytes };
}
