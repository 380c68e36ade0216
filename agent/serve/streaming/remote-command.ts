import type { ProcessStreams } from "../../../cri/runtime.ts";
import { createSpdySession, type SpdyStream } from "./spdy/session.ts";

/** The version of the remote command protocol that all runtimes speak: it reports the exit code. */
export const REMOTE_COMMAND_PROTOCOL = "v4.channel.k8s.io";

export interface RemoteCommandListener {
  /** All streams are open: input may be sent. */
  onReady(): void;
  onOutput(stream: "stdout" | "stderr", part: Buffer): void;
  /**
   * The process has ended, or the session has. `status` is the JSON of a `metav1.Status`, undefined if the session ended
   * without one. Called once.
   */
  onEnd(status: Buffer | undefined): void;
}

/** The client's side of exec or attach on a SPDY connection. Input that is sent before `onReady` is lost. */
export interface RemoteCommand {
  /** Takes what the connection has received. Throws `SpdyError` if that is malformed. */
  receive(bytes: Buffer): void;
  stdin(data: Buffer): void;
  endStdin(): void;
  /** A part of JSON texts with `Width` and `Height`. */
  resize(json: Buffer): void;
  ping(): void;
  /** The connection is closed. */
  end(): void;
}

/** A status is a few hundred bytes. */
const MAX_STATUS_BYTES = 65_536;

/** `send` writes to the connection, which has been upgraded to SPDY/3.1 and `REMOTE_COMMAND_PROTOCOL`. */
export function createRemoteCommand(
  streams: ProcessStreams,
  send: (bytes: Buffer) => void,
  { onReady, onOutput, onEnd }: RemoteCommandListener,
): RemoteCommand {
  const session = createSpdySession(send);
  const status: Buffer[] = [];
  let statusBytes = 0;
  /** The connection has closed. */
  let isCut = false;
  let openOutputs = 1 + Number(streams.stdout) + Number(streams.stderr);
  const endOutput = () => {
    openOutputs--;
    const text = Buffer.concat(status);
    if (openOutputs === 0) onEnd(text.length === 0 || (isCut && !isJson(text)) ? undefined : text);
  };
  const open = (streamType: string, onData: (part: Buffer) => void, onStreamEnd = () => {}): SpdyStream =>
    session.open({ streamType }, { onData, onEnd: onStreamEnd });
  const drop = () => {
    // Nothing arrives on a stream of input.
  };
  const keepStatus = (part: Buffer) => {
    statusBytes += part.length;
    if (statusBytes <= MAX_STATUS_BYTES) status.push(part);
  };

  // The order of kubectl.
  const error = open("error", keepStatus, endOutput);
  const stdin = streams.stdin ? open("stdin", drop) : undefined;
  const stdout = streams.stdout ? open("stdout", (part) => onOutput("stdout", part), endOutput) : undefined;
  const stderr = streams.stderr ? open("stderr", (part) => onOutput("stderr", part), endOutput) : undefined;
  const resize = streams.tty ? open("resize", drop) : undefined;
  const opened = [error, stdin, stdout, stderr, resize].flatMap((stream) => stream?.accepted ?? []);
  void Promise.all(opened).then((accepted) => accepted.every(Boolean) && onReady());

  return {
    receive: session.receive,
    stdin: (data) => stdin?.write(data),
    endStdin: () => stdin?.end(),
    resize: (json) => resize?.write(json),
    ping: session.ping,
    end() {
      isCut = true;
      session.end();
    },
  };
}

/** Whether the status is complete. */
function isJson(text: Buffer): boolean {
  try {
    JSON.parse(text.toString());
    return true;
  } catch {
    // The reason does not matter: an incomplete status counts as none.
    return false;
  }
}
