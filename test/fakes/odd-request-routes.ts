import type { Route } from "../../agent/serve/api/route.ts";

/**
 * Endpoints that odd requests may reach: without a body, with one of at most 1000 bytes, and with sessions that last until
 * they are cut.
 */
export function createOddRequestRoutes(observer: {
  readonly onSession: () => void;
  readonly onSessionEnd: () => void;
}): readonly Route[] {
  return [
    { pattern: "/pods", methods: ["GET"], handle: async (_request, response) => response.end("pods") },
    {
      pattern: "/run/{namespace}/{pod}/{container}",
      methods: ["POST"],
      handle: async ({ body }, response) => response.end(await body(1_000)),
    },
    {
      pattern: "/exec/{namespace}/{pod}/{container}",
      methods: ["GET", "POST"],
      handle: async (_request, response) => response.end("no upgrade"),
      upgrade: ({ socket, signal }) =>
        new Promise((resolve) => {
          observer.onSession();
          socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
          socket.resume();
          signal.addEventListener("abort", () => {
            observer.onSessionEnd();
            resolve();
          });
        }),
    },
  ];
}
