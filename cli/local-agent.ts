import { LOCAL_SOCKET } from "../agent/config/local-socket.ts";
import { createClock } from "../host/clock.ts";

/** The path of the local socket of the agent with this root directory. */
export function socketPath(rootDir: string): string {
  return `${rootDir}/${LOCAL_SOCKET}`;
}

/** How long an agent may take to send the response headers. */
const RESPONSE_TIMEOUT_MS = 5_000;

/**
 * Sends a request to the agent on this socket. Rejects if the response headers do not arrive in time, for example from
 * a frozen agent. The body is not limited, because a watch is endless.
 */
export async function requestAgent(socket: string, path: string): Promise<Response> {
  const timeout = new AbortController();
  const timeoutError = new Error(
    `no response within ${RESPONSE_TIMEOUT_MS / 1000} s: is it stopped, or the machine overloaded?`,
  );
  const cancel = createClock().wakeAt(Date.now() + RESPONSE_TIMEOUT_MS, () => timeout.abort(timeoutError));
  try {
    return await fetch(`http://berth${path}`, { unix: socket, signal: timeout.signal });
  } finally {
    cancel();
  }
}

/** Handles errors of standard output: exits silently on a broken pipe, as after `berth pods --watch | head`. */
export function exitOnBrokenPipe(error: Error): void {
  if (!("code" in error) || error.code !== "EPIPE") throw error;
  process.exit(0);
}

/**
 * Describes why an agent does not respond. Bun's own message suggests a typo in the URL, which the user never typed.
 */
export function describeConnectError(error: unknown): string {
  const messages: Readonly<Record<string, string>> = {
    ENOENT: "there is no such socket: is it running? --root-dir names its directory",
    ECONNREFUSED: "connection refused: is it running?",
    EACCES: "permission denied: are you root?",
    EPERM: "permission denied: are you root?",
    ECONNRESET: "the connection was closed: it has just exited",
  };
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return messages[code] ?? (error instanceof Error ? error.message : String(error));
}
