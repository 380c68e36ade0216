import type { Socket } from "node:net";
import { createRemoteCommand, type RemoteCommand } from "../agent/serve/streaming/remote-command.ts";
import type { ProcessStreams } from "../cri/runtime.ts";

/** The fields of a `metav1.Status` that say how a command ended. */
interface CommandStatus {
  readonly status?: string;
  readonly message?: string;
  readonly reason?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] };
}

/**
 * Connects this process' own streams to a session. The terminal is raw while it lasts: every key goes to the command.
 * Returns the exit code of the command, 1 with a line on stderr if it has none.
 */
export async function runExecSession(socket: Socket, rest: Buffer, streams: ProcessStreams): Promise<number> {
  const ended = Promise.withResolvers<Buffer | undefined>();
  const stopFollowing: (() => void)[] = [];
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
    onEnd: ended.resolve,
  });
  socket.on("data", command.receive);
  socket.on("close", command.end);
  if (rest.length > 0) command.receive(rest);
  socket.resume();
  const status = await ended.promise;
  for (const stop of stopFollowing) stop();
  socket.destroy();
  await Promise.all([flush(process.stdout), flush(process.stderr)]);
  return exitCodeOf(status);
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

function flush(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => void stream.write("", () => resolve()));
}

function exitCodeOf(bytes: Buffer | undefined): number {
  const { status, reason, message = "", details } = parseStatus(bytes);
  if (status === "Success") return 0;
  const code = details?.causes?.find((cause) => cause.reason === "ExitCode")?.message;
  if (reason === "NonZeroExitCode" && code !== undefined) return Number(code);
  process.stderr.write(`berth exec: ${message}\n`);
  return 1;
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
