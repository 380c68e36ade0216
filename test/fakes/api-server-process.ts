// Serves routes of the node's API in a process of its own, so that its memory, descriptors and wake-ups are those of the
// server alone: `bun test/fakes/api-server-process.ts`. It prints its port, and a line after each collection of garbage, which
// a line of its input starts. It ends with its input.
import { createInterface } from "node:readline";
import { createApiServer } from "../../agent/serve/api/api-server.ts";
import { apiConnectionLimits } from "../../agent/serve/api/connections.ts";
import { createClock } from "../../host/clock.ts";
import { createReleaseMemory } from "../../host/release-memory.ts";
import { createCertificateAuthority } from "../upstream/pki.ts";
import { FakeLog } from "./log.ts";
import { createOddRequestRoutes } from "./odd-request-routes.ts";

/** A log keeps no line here: its memory is not the server's. */
class EmptyLog extends FakeLog {
  override debug = () => {};
  override info = () => {};
  override warn = () => {};
  override error = () => {};
}

const server = createApiServer({
  routes: createOddRequestRoutes({ onSession: () => {}, onSessionEnd: () => {} }),
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
