import { type AddressInfo, createServer, type Socket } from "node:net";

export interface TcpServer {
  readonly port: number;
  /** Resolves when a connection is over. */
  readonly left: Promise<void>;
  close(): void;
}

/** A server on 127.0.0.1 that does this to whoever connects. */
export async function serveTcp(treat: (socket: Socket) => void): Promise<TcpServer> {
  const left = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    // Tests break connections on purpose; what the client makes of it is what they look at.
    socket.on("error", () => undefined);
    socket.once("close", () => left.resolve());
    socket.resume();
    treat(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, left: left.promise, close: () => void server.close() };
}

/** Writes as long as anybody reads. */
export function pour(socket: Socket, piece: string | Buffer): void {
  const more = () => {
    while (!socket.destroyed && socket.write(piece)) {
      // The next one follows at once.
    }
  };
  socket.on("drain", more);
  more();
}
