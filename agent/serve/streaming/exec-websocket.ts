import type { ProcessStreams } from "../../../cri/runtime.ts";
import type { Clock } from "../../../host/clock.ts";
import { internalErrorStatus } from "./internal-error-status.ts";
import { createRemoteCommand } from "./remote-command.ts";
import type { Session, Translation } from "./session.ts";
import { SpdyError } from "./spdy/frames.ts";
import { CloseCode, closeFrame, createFrameReader, Opcode, serverFrame, WebSocketError } from "./websocket/frames.ts";

/** The subprotocol of WebSockets for exec and attach that has a message for the end of stdin. */
export const WEBSOCKET_PROTOCOL = "v5.channel.k8s.io";

/** The first byte of a message. */
const Channel = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;

/** Kubernetes' servers give a client the same time to open the streams. */
const OPEN_TIMEOUT_MS = 30_000;
const NOT_OPENED = `the container runtime has not opened the streams within ${OPEN_TIMEOUT_MS / 1000} s`;

/** A message of the server on a channel. */
function channelMessage(channel: number, ...parts: readonly Buffer[]): Buffer {
  return serverFrame(Opcode.binary, Buffer.from([channel]), ...parts);
}

/** The first message: clients wait for it. */
export function openingMessage({ stdout, stderr }: ProcessStreams): Buffer {
  return channelMessage(stdout ? Channel.stdout : stderr ? Channel.stderr : Channel.error);
}

/** The last messages of a session that cannot start: its error, and the end. */
export function failureMessages(text: string): Buffer {
  return Buffer.concat([channelMessage(Channel.error, internalErrorStatus(text)), closeFrame(CloseCode.normal)]);
}

/** Translates between a client that speaks `WEBSOCKET_PROTOCOL` and a runtime that speaks SPDY. */
export function translateExec(streams: ProcessStreams, clock: Clock): (session: Session) => Translation {
  return (session) => {
    const command = createRemoteCommand(streams, session.toBackend, {
      onReady() {
        cancelTimer();
        session.holdClient(false);
      },
      onOutput(stream, part) {
        session.toClient(channelMessage(stream === "stdout" ? Channel.stdout : Channel.stderr, part));
      },
      onEnd(status) {
        const noStatus = () => internalErrorStatus("the container runtime has ended the session without a status");
        session.toClient(channelMessage(Channel.error, status ?? noStatus()));
        close(CloseCode.normal);
      },
    });
    // Until then nothing is read from the client, not even its end.
    const cancelTimer = clock.wakeAt(clock.now() + OPEN_TIMEOUT_MS, () => {
      session.toClient(channelMessage(Channel.error, internalErrorStatus(NOT_OPENED)));
      close(CloseCode.normal);
    });
    let isClosed = false;
    function close(code: number): void {
      cancelTimer();
      if (!isClosed) session.toClient(closeFrame(code));
      isClosed = true;
      session.endClient();
      session.endBackend();
    }
    const readChannels = createChannelReader({
      onStdin: command.stdin,
      onResize: command.resize,
      onCloseStdin: command.endStdin,
      onViolation: () => close(CloseCode.protocolError),
    });
    const receive = createFrameReader({
      onData: readChannels,
      onPing(payload) {
        // The runtime, too, ends sessions that are idle.
        command.ping();
        if (!session.isClientBehind()) session.toClient(serverFrame(Opcode.pong, payload));
      },
      onClose: () => close(CloseCode.normal),
    });
    session.holdClient(true);

    return {
      fromClient(bytes) {
        if (isClosed) return;
        closeOnViolation(() => receive(bytes), close);
      },
      fromBackend(bytes) {
        if (isClosed) return;
        closeOnViolation(() => command.receive(bytes), close);
      },
      onClientEnd: session.endBackend,
      onBackendEnd: command.end,
    };
  };
}

/** Closes the session if either side violates its protocol. */
function closeOnViolation(receive: () => void, close: (code: number) => void): void {
  try {
    receive();
  } catch (error) {
    if (error instanceof WebSocketError) close(error.code);
    else if (error instanceof SpdyError) close(CloseCode.internalError);
    else throw error;
  }
}

interface ChannelListener {
  onStdin(part: Buffer): void;
  onResize(part: Buffer): void;
  /** The client has closed its stdin. */
  onCloseStdin(): void;
  /** The client has closed a channel that does not exist. */
  onViolation(): void;
}

/** Reads the messages of a client. Those on other channels than stdin and resize are ignored, as Kubernetes' servers do. */
function createChannelReader({ onStdin, onResize, onCloseStdin, onViolation }: ChannelListener) {
  let channel: number | undefined;
  /** Of a message that closes a channel. */
  let closed: number[] = [];
  return (part: Buffer, isFirst: boolean, isLast: boolean): void => {
    if (isFirst) {
      channel = undefined;
      closed = [];
    }
    const rest = channel === undefined ? part.subarray(1) : part;
    channel ??= part[0];
    if (channel === Channel.stdin && rest.length > 0) onStdin(rest);
    if (channel === Channel.resize && rest.length > 0) onResize(rest);
    if (channel !== Channel.close) return;
    closed = [...closed, ...rest.subarray(0, 2)].slice(0, 2);
    if (!isLast) return;
    if (closed.length !== 1 || (closed[0] ?? 0) > Channel.resize) onViolation();
    else if (closed[0] === Channel.stdin) onCloseStdin();
  };
}
