import type { TestNamespace } from "./network-namespaces.ts";

/** What a client sees when no server answers. */
export const NO_ANSWER = "no answer";

/** How long a test waits for an answer that it expects, on a busy machine. */
const ANSWERED_MS = 10_000;
/** How long a test waits for an answer that must not come. Usual answers take some milliseconds. */
const UNANSWERED_MS = 400;
const limitOf = (isExpected: boolean) => (isExpected ? ANSWERED_MS : UNANSWERED_MS);

interface Server {
  close(): void;
}

/** Serves TCP in a namespace. The answer to each connection is the client's address as the server sees it. */
export function serveTcp(namespace: TestNamespace, address: string, port: number): Server {
  const server = namespace.run(() =>
    Bun.listen({
      hostname: address,
      port,
      socket: {
        open(socket) {
          // Undefined if the client has given up already.
          socket.end(String(socket.remoteAddress).replace(/^::ffff:/, ""));
        },
        data: () => undefined,
      },
    }),
  );
  return { close: () => server.stop(true) };
}

/** Connects from a namespace. Resolves with the server's answer, or with `NO_ANSWER`. `isExpected`: whether an answer should come. */
export async function askTcp(
  namespace: TestNamespace,
  address: string,
  port: number,
  isExpected: boolean,
): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  let answer = "";
  const connecting = namespace.run(() =>
    Bun.connect({
      hostname: address,
      port,
      socket: {
        data(_socket, bytes) {
          answer += bytes.toString();
        },
        close: () => resolve(answer === "" ? NO_ANSWER : answer),
        connectError: () => resolve(NO_ANSWER),
      },
    }),
  );
  const timer = setTimeout(() => resolve(NO_ANSWER), limitOf(isExpected));
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    void connecting.then(
      (socket) => socket.terminate(),
      () => resolve(NO_ANSWER),
    );
  }
}

/** Serves UDP in a namespace. Every datagram has the same answer, by default the client's address as the server sees it. */
export async function serveUdp(
  namespace: TestNamespace,
  address: string,
  port: number,
  answer?: string,
): Promise<Server> {
  const socket = await namespace.run(() =>
    Bun.udpSocket({
      hostname: address,
      port,
      socket: {
        data: (own, _bytes, fromPort, from) => void own.send(answer ?? from.replace(/^::ffff:/, ""), fromPort, from),
      },
    }),
  );
  return { close: () => socket.close() };
}

/** A client that keeps its port, as those of a resolver or a log collector do. */
export interface UdpClient extends Server {
  /** Sends a datagram. Resolves with the server's answer, or with `NO_ANSWER`. `isExpected`: whether an answer should come. */
  ask(address: string, port: number, isExpected: boolean): Promise<string>;
}

/** A client in a namespace, by IPv6 or by IPv4. */
export async function createUdpClient(namespace: TestNamespace, family: 4 | 6 = 4): Promise<UdpClient> {
  let resolve: (answer: string) => void = () => undefined;
  const socket = await namespace.run(() =>
    Bun.udpSocket({
      hostname: family === 6 ? "::" : "0.0.0.0",
      socket: {
        data: (_own, bytes) => resolve(bytes.toString()),
        // The other end answers that no program has the port.
        error: () => resolve(NO_ANSWER),
      },
    }),
  );
  return {
    async ask(address, port, isExpected) {
      const answer = Promise.withResolvers<string>();
      resolve = answer.resolve;
      const timer = setTimeout(() => answer.resolve(NO_ANSWER), limitOf(isExpected));
      try {
        socket.send("?", port, address);
        return await answer.promise;
      } finally {
        clearTimeout(timer);
      }
    },
    close: () => socket.close(),
  };
}
