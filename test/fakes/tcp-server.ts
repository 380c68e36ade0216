import { type AddressInfo, createServer, type Socket } from "node:net";

export interface TcpServer {
  readonly port: number;
  /** Resolves when the first connection is closed. */
  readonly closed: Promise<void>;
  close(): void;
}

/** Starts a TCP server on 127.0.0.1 that calls `onConnection` with every connection. */
export async function startTcpServer(onConnection: (socket: Socket) => void): Promise<TcpServer> {
  const closed = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    // Tests break connections on purpose and check how the client reacts.
    socket.on("error", () => undefined);
    socket.once("close", () => closed.resolve());
    socket.resume();
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, closed: closed.promise, close: () => void server.close() };
}

/** Writes the same piece over and over until the socket is closed. */
export function writeForever(socket: Socket, piece: string | Buffer): void {
  const writeMore = () => {
    while (!socket.destroyed && socket.write(piece)) {
      // Writes the next piece at once until the buffer is full.
    }
  };
  socket.on("drain", writeMore);
  writeMore();
}
