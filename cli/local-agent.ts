import { localSocket } from "../agent/config/local-socket.ts";
import { createClock } from "../host/clock.ts";

/** The socket of the agent that has this root directory. */
export function socketBelow(rootDir: string): string {
  return `${rootDir}/${localSocket}`;
}

/** How long an agent may take to begin its answer. */
const ANSWERS_WITHIN_MS = 5_000;

/**
 * Asks the agent that listens there. Rejects where it does not begin to answer in time, as one that is frozen; how long the answer itself
 * lasts is not limited, since a watch has no end.
 */
export async function askAgent(socket: string, path: string): Promise<Response> {
  const patience = new AbortController();
  const slow = new Error(
    `it has not answered within ${ANSWERS_WITHIN_MS / 1000} s: is it stopped, or the machine overloaded?`,
  );
  const cancel = createClock().wakeAt(Date.now() + ANSWERS_WITHIN_MS, () => patience.abort(slow));
  try {
    return await fetch(`http://berth${path}`, { unix: socket, signal: patience.signal });
  } finally {
    cancel();
  }
}

/** Whoever reads may have read enough: `berth pods --watch | head` is no mistake. For the errors of standard output. */
export function leaveQuietly(error: Error): void {
  if (!("code" in error) || error.code !== "EPIPE") throw error;
  process.exit(0);
}

/** Why an agent does not answer, for people. The engine's own words would ask for a typo in a URL that nobody has typed. */
export function whyNot(error: unknown): string {
  const cures: Readonly<Record<string, string>> = {
    ENOENT: "there is no such socket: is it running, and with this --root-dir?",
    ECONNREFUSED: "nobody listens there: is it running?",
    EACCES: "you may not ask it: are you root?",
    EPERM: "you may not ask it: are you root?",
    ECONNRESET: "it has ended just now",
  };
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return cures[code] ?? (error instanceof Error ? error.message : String(error));
}
