import { expect, test } from "bun:test";
import { pollUntil } from "../../../test/bed/poll-until.ts";
import { createApiClient } from "../../../test/fakes/api-client.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createCertificateAuthority } from "../../../test/upstream/pki.ts";
import { createApiServer } from "./api-server.ts";
import { createAccessAuthorizer } from "./auth/access-authorizer.ts";
import { createRequestAuthenticator } from "./auth/request-authenticator.ts";
import { createTokenAuthenticator } from "./auth/token-authenticator.ts";
import { apiConnectionLimits } from "./connections.ts";

const serving = createCertificateAuthority("serving").issue({ commonName: "node", hosts: ["127.0.0.1"] });

test("a server without clients waits for nothing: no timer is left of any request or answer of the API server", async () => {
  const clock = new FakeClock();
  const reviews = {
    reviewToken: async (token: string) => ({ authenticated: token === "good", user: { username: "anna" } }),
    reviewAccess: async () => ({ allowed: true }),
  };
  const server = createApiServer({
    routes: [{ pattern: "/pods", methods: ["GET"], handle: async (_request, response) => response.end("pods") }],
    authenticator: createRequestAuthenticator({
      authenticateToken: createTokenAuthenticator({ ...reviews, cacheTtlMs: 120_000, clock }),
      allowsAnonymous: false,
      clock,
    }),
    authorizer: createAccessAuthorizer({
      ...reviews,
      nodeName: "node-a",
      allowedTtlMs: 300_000,
      deniedTtlMs: 30_000,
      clock,
    }),
    tls: serving,
    limits: apiConnectionLimits,
    clock,
    log: new FakeLog(),
  });
  const port = await server.listen(0, "127.0.0.1");
  expect(clock.pendingTimers).toBe(0);
  const sessions = ["good", "bad"].map((token) => {
    const client = createApiClient({ port, ca: undefined, token });
    return { client, session: client.openSession() };
  });
  for (const { client, session } of sessions) {
    await client.requestHttp2("GET", "/pods", session);
    await client.get("/pods");
  }
  // An open connection has its idle timeout, and nothing else.
  await pollUntil("the end of the connections of HTTP/1.1", 5_000, () => clock.pendingTimers === sessions.length);
  for (const { session } of sessions) session.close();
  await pollUntil("the end of the sessions", 5_000, () => clock.pendingTimers === 0);
  await server.stop();
});
