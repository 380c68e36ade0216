import type { Socket } from "node:net";
import { createRemoteCommand, type RemoteCommand } from "../agent/serve/streaming/remote-command.ts";
import type { ProcessStreams } from "../cri/runtime.ts";
import { messageOf } from "../host/error-message.ts";
import { EXIT_CODES } from "../host/signals.ts";
import { describeExecFailure } from "./exec-failure.ts";

/** The fields of a `metav1.Status` that say how a command ended. */
interface CommandStatus {
  readonly status?: string;
  readonly message?: string;
  readonly reason?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] };
}

/** How a session has ended: with what is known of the command, or by a signal to this process. */
type SessionEnd = { readonly status: CommandStatus } | { readonly signal: keyof typeof EXIT_CODES };

/**
 * Connects this process' own streams to a session. The terminal is raw while it lasts: every key goes to the command. It
 * is restored however the session ends. Returns the exit code of the command; if it has none, that of a shell that cannot
 * execute `program`, with a line on stderr; 128 and the number of the signal that has ended the session.
 */
export async function runExecSession(
  socket: Socket,
  rest: Buffer,
  { program, ...streams }: ProcessStreams & { readonly program: string },
): Promise<number> {
  const ended = Promise.withResolvers<SessionEnd>();
  const stopFollowing: (() => void)[] = [followSignals((signal) => ended.resolve({ signal }))];
  const command = createRemoteCommand(streams, (bytes) => void socket.write(bytes), {
    onReady() {
      if (streams.stdin) stopFollowing.push(followStdin(command, socket));
      if (streams.tty) stopFollowing.push(followTerminal(command));
    },
    onOutput(stream, part) {
      if (process[stream].write(part)) return;
      socket.pause();
      process[stream].once("drain", () => socket.resume());
    },
    onEnd: (status) => ended.resolve({ status: parseStatus(status) }),
  });
  const receive = (bytes: Buffer) => {
    try {
      command.receive(bytes);
    } catch (error) {
      const message = `the container runtime has sent what is not SPDY: ${messageOf(error)}`;
      ended.resolve({ status: { message } });
    }
  };
  socket.on("data", receive);
  socket.on("close", command.end);
  if (rest.length > 0) receive(rest);
  socket.resume();
  const end = await ended.promise;
  socket.off("data", receive);
  socket.destroy();
  for (const stop of stopFollowing) stop();
  // A process that is asked to end does not wait for a reader of its output.
  if ("signal" in end) return EXIT_CODES[end.signal];
  const code = exitCodeOf(end.status, program);
  await Promise.all([finish(process.stdout), finish(process.stderr)]);
  return code;
}

/** A second signal ends the process at once. Returns the function that stops. */
function followSignals(onSignal: (signal: keyof typeof EXIT_CODES) => void): () => void {
  const signals = Object.keys(EXIT_CODES) as (keyof typeof EXIT_CODES)[];
  for (const signal of signals) process.once(signal, onSignal);
  return () => {
    for (const signal of signals) process.off(signal, onSignal);
  };
}

/** Sends stdin as fast as the agent takes it, and its end. Returns the function that stops. */
function followStdin(command: RemoteCommand, socket: Socket): () => void {
  const { stdin } = process;
  stdin.on("data", (data: Buffer) => {
    command.stdin(data);
    if (!socket.writableNeedDrain) return;
    stdin.pause();
    socket.once("drain", () => stdin.resume());
  });
  stdin.on("end", command.endStdin);
  return () => stdin.pause();
}

/** Makes the terminal raw and sends its size, now and when it changes. Returns the function that restores the terminal. */
function followTerminal(command: RemoteCommand): () => void {
  process.stdin.setRawMode(true);
  const sendSize = () => {
    const { columns: Width, rows: Height } = process.stdout;
    if (Width > 0 && Height > 0) command.resize(Buffer.from(JSON.stringify({ Width, Height })));
  };
  sendSize();
  process.stdout.on("resize", sendSize);
  return () => {
    process.stdout.off("resize", sendSize);
    process.stdin.setRawMode(false);
  };
}

/** Resolves when a slow reader has taken everything. In Bun, the callback of an empty `write` does not wait for what was written before. */
function finish(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => void stream.end(() => resolve()));
}

function exitCodeOf({ status, reason, message = "", details }: CommandStatus, program: string): number {
  if (status === "Success") return 0;
  const code = details?.causes?.find((cause) => cause.reason === "ExitCode")?.message;
  if (reason === "NonZeroExitCode" && code !== undefined) return Number(code);
  const { text, exitCode } = describeExecFailure(message, program);
  process.stderr.write(`berth exec: ${text}\n`);
  return exitCode;
}

function parseStatus(bytes: Buffer | undefined): CommandStatus {
  if (bytes === undefined)
    return { message: "the session has ended early: has the agent or the container runtime stopped?" };
  try {
    return JSON.parse(bytes.toString()) as CommandStatus;
  } catch {
    // A runtime that does not speak this version of the protocol writes a plain text.
    return { message: bytes.toString() };
  }
}
