import { afterAll, beforeAll, expect, test } from "bun:test";
import { once } from "node:events";
import { inspect } from "node:util";
import { createClock } from "../../../host/clock.ts";
import { createApiClient } from "../../../test/fakes/api-client.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createCertificateAuthority } from "../../../test/upstream/pki.ts";
import { type ApiServer, createApiServer } from "./api-server.ts";
import { createAccessAuthorizer } from "./auth/access-authorizer.ts";
import { createRequestAuthenticator } from "./auth/request-authenticator.ts";
import { createTokenAuthenticator } from "./auth/token-authenticator.ts";
import { apiConnectionLimits } from "./connections.ts";

/** In every secret of this test. */
const SECRET = "hunter2";
const clientCA = createCertificateAuthority("client-ca");
const serving = createCertificateAuthority("serving").issue({ commonName: "node", hosts: ["127.0.0.1"] });
const log = new FakeLog();
const clock = createClock();

let server: ApiServer;
let port: number;
beforeAll(async () => {
  const reviews = {
    async reviewToken(token: string) {
      if (token.includes("away")) throw new Error("connect ECONNREFUSED");
      return { authenticated: token.includes("good"), user: { username: "anna" } };
    },
    async reviewAccess({ user = "" }) {
      if (user === "unanswered") throw new Error("connect ECONNREFUSED");
      return { allowed: user !== "stranger" };
    },
  };
  server = createApiServer({
    routes: [
      {
        pattern: "/exec/{namespace}/{pod}/{container}",
        methods: "all",
        async handle(_request, response) {
          response.start(200);
          throw new Error("the runtime has gone away");
        },
        async upgrade() {
          throw new Error("the runtime does not answer");
        },
      },
    ],
    authenticator: createRequestAuthenticator({
      authenticateToken: createTokenAuthenticator({ ...reviews, cacheTtlMs: 120_000, clock }),
      allowsAnonymous: false,
      clock,
    }),
    authorizer: createAccessAuthorizer({ ...reviews, nodeName: "node-a", allowedTtlMs: 0, deniedTtlMs: 0, clock }),
    tls: { ...serving, ca: [clientCA.cert] },
    limits: apiConnectionLimits,
    clock,
    log,
  });
  port = await server.listen(0, "127.0.0.1");
});
afterAll(() => server.stop());

test("no line of the log, whatever its level, has a token, a header or the query of a request, whatever fails", async () => {
  const path = `/exec/a/b/c?command=login&command=--password=${SECRET}`;
  const encoded = Buffer.from(`${SECRET}-good`).toString("base64url");
  const headers = { "x-key": SECRET, cookie: `session=${SECRET}` };
  const senders = [
    ...["good", "bad", "away"].map((kind) => ({ token: `${SECRET}-${kind}` })),
    ...["admin", "stranger", "unanswered"].map((commonName) => ({ pair: clientCA.issue({ commonName }) })),
    {},
  ];
  const upgrade = (protocol: string, more = "") =>
    `GET ${path} HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\nX-Key: ${SECRET}\r\n${more}\r\n`;
  for (const sender of senders) {
    const client = createApiClient({ port, ca: undefined, ...sender });
    // An answer that breaks off is an error of the client.
    await client.request("POST", path, headers, `password=${SECRET}`).catch(() => undefined);
    await client.requestHttp2("GET", path).catch(() => undefined);
    const protocols = `Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.${encoded}\r\n`;
    for (const bytes of [upgrade("SPDY/3.1"), upgrade("websocket", protocols), `BREW ${path} HTTP/1.1\r\n\r\n`]) {
      const socket = await client.openSocket(bytes);
      await once(socket, "data");
      socket.destroy();
    }
  }
  const text = inspect(log.lines, { depth: 20, maxArrayLength: null, maxStringLength: null });
  for (const line of ["cannot authenticate", "cannot authorize", "cannot answer", "has ended early"])
    expect(text).toContain(line);
  expect(text).not.toContain(SECRET);
  expect(text).not.toContain(encoded);
});
