import { createRemoteCommand, REMOTE_COMMAND_PROTOCOL } from "../../../agent/serve/streaming/remote-command.ts";
import { connectAndUpgrade } from "../../contract/streaming-client.ts";
import type { NodeServer } from "./node-api.ts";

/** How a session has ended. */
export interface ExecResult {
  /** From the connection to the status of the process, in milliseconds. */
  readonly ms: number;
  readonly stdoutBytes: number;
  /** Whether the process has ended with the exit code 0. */
  readonly hasSucceeded: boolean;
}

export interface ExecSession {
  /** Resolves with the first output, or with the end if there is none. */
  readonly firstOutput: Promise<void>;
  readonly result: Promise<ExecResult>;
  stdin(data: Buffer): void;
  endStdin(): void;
}

/** A session in which nothing arrives for this time has failed. */
const SILENCE_MS = 120_000;

/**
 * Starts a command in the container `main` of a pod by SPDY, as the API server does. Resolves when its streams are open and
 * rejects if it is refused.
 */
export async function openExec(
  server: NodeServer,
  pod: string,
  command: readonly string[],
  hasStdin: boolean,
): Promise<ExecSession> {
  const from = performance.now();
  const words = command.map((word) => `command=${encodeURIComponent(word)}&`).join("");
  const target = `POST /exec/default/${pod}/main?${words}output=1${hasStdin ? "&input=1" : ""}`;
  const headers = ["Upgrade: SPDY/3.1", `X-Stream-Protocol-Version: ${REMOTE_COMMAND_PROTOCOL}`];
  const { socket, rest } = await connectAndUpgrade(server, target, headers);
  const [ready, firstOutput] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const result = Promise.withResolvers<ExecResult>();
  let stdoutBytes = 0;
  const streams = { stdin: hasStdin, stdout: true, stderr: false, tty: false };
  const remote = createRemoteCommand(streams, (bytes) => void socket.write(bytes), {
    onReady: ready.resolve,
    onOutput(_, part) {
      stdoutBytes += part.length;
      firstOutput.resolve();
    },
    onEnd(status) {
      const hasSucceeded = status?.includes('"Success"') ?? false;
      result.resolve({ ms: performance.now() - from, stdoutBytes, hasSucceeded });
      ready.resolve();
      firstOutput.resolve();
      socket.end();
    },
  });
  socket.setTimeout(SILENCE_MS, () => socket.destroy());
  if (rest.length > 0) remote.receive(rest);
  socket.on("data", remote.receive);
  socket.on("close", remote.end);
  socket.resume();
  await ready.promise;
  return { firstOutput: firstOutput.promise, result: result.promise, stdin: remote.stdin, endStdin: remote.endStdin };
}
