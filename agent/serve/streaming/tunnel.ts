import type { Session, Translation } from "./session.ts";
import { CloseCode, closeFrame, createFrameReader, Opcode, serverFrame, WebSocketError } from "./websocket/frames.ts";

const PREFIX = "SPDY/3.1+";
const SUFFIX = ".k8s.io";

/** The SPDY protocols of those WebSocket protocols that tunnel one: `SPDY/3.1+portforward.k8s.io` tunnels `portforward.k8s.io`. */
export function tunneledProtocols(webSocketProtocols: readonly string[]): readonly string[] {
  return webSocketProtocols
    .filter((protocol) => protocol.startsWith(PREFIX) && protocol.endsWith(SUFFIX))
    .map((protocol) => protocol.slice(PREFIX.length));
}

/** The WebSocket protocol that tunnels a SPDY protocol: the reverse of `tunneledProtocols`. */
export function tunnelProtocol(spdyProtocol: string): string {
  return `${PREFIX}${spdyProtocol}`;
}

/** Unpacks the bytes of a SPDY connection from a client's WebSocket messages, and packs those of the runtime into such. */
export function translateTunnel(session: Session): Translation {
  let isClosed = false;
  function close(code: number): void {
    if (!isClosed) session.toClient(closeFrame(code));
    isClosed = true;
    session.endClient();
    session.endBackend();
  }
  const receive = createFrameReader({
    onData: (part) => part.length > 0 && session.toBackend(part),
    onPing: (payload) => !session.isClientBehind() && session.toClient(serverFrame(Opcode.pong, payload)),
    onClose: () => close(CloseCode.normal),
  });
  return {
    fromClient(bytes) {
      if (isClosed) return;
      try {
        receive(bytes);
      } catch (error) {
        if (!(error instanceof WebSocketError)) throw error;
        close(error.code);
      }
    },
    fromBackend(bytes) {
      if (!isClosed) session.toClient(serverFrame(Opcode.binary, bytes));
    },
    onClientEnd: session.endBackend,
    onBackendEnd: () => close(CloseCode.normal),
  };
}
