// Serves routes of the node's API in a process of its own, so that its memory, descriptors and wake-ups are those of the
// server alone: `bun test/fakes/api-server-process.ts`. It prints its port, and a line after each collection of garbage, which
// a line of its input starts. It ends with its input.
import { createInterface } from "node:readline";
import { createApiServer } from "../../agent/serve/api/api-server.ts";
import { apiConnectionLimits } from "../../agent/serve/api/connections.ts";
import type { Route } from "../../agent/serve/api/route.ts";
import { createClock } from "../../host/clock.ts";
import { createReleaseMemory } from "../../host/release-memory.ts";
import { createCertificateAuthority } from "../upstream/pki.ts";
import { FakeLog } from "./log.ts";

/** A log keeps no line here: its memory is not the server's. */
class EmptyLog extends FakeLog {
  override debug = () => {};
  override info = () => {};
  override warn = () => {};
  override error = () => {};
}

const routes: readonly Route[] = [
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
        socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
        socket.resume();
        signal.addEventListener("abort", () => resolve());
      }),
  },
];

const server = createApiServer({
  routes,
  authenticator: {
    authenticate: async ({ authorization }) =>
      authorization === undefined ? { username: "anna", groups: [] } : undefined,
  },
  authorizer: { isAllowed: async () => true },
  tls: createCertificateAuthority("serving").issue({ commonName: "node", hosts: ["127.0.0.1"] }),
  limits: apiConnectionLimits,
  clock: createClock(),
  log: new EmptyLog(),
});
const releaseMemory = createReleaseMemory();
console.log(await server.listen(0, "127.0.0.1"));
for await (const line of createInterface({ input: process.stdin })) {
  releaseMemory();
  console.log(line);
}
process.exit(0);
