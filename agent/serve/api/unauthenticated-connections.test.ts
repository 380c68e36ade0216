import { afterEach, beforeEach, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { pollUntil } from "../../../test/bed/poll-until.ts";
import { createApiClient } from "../../../test/fakes/api-client.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createCertificateAuthority } from "../../../test/upstream/pki.ts";
import { type ApiServer, createApiServer } from "./api-server.ts";
import { alwaysAllow } from "./auth/authorizer.ts";
import { apiConnectionLimits } from "./connections.ts";

const serving = createCertificateAuthority("serving").issue({ commonName: "node", hosts: ["127.0.0.1"] });
const LIMIT = apiConnectionLimits.maxUnauthenticated;

let server: ApiServer;
let port: number;
let sockets: Socket[];
beforeEach(async () => {
  sockets = [];
  server = createApiServer({
    routes: [{ pattern: "/pods", methods: ["GET"], handle: async (_request, response) => response.end("pods") }],
    authenticator: {
      authenticate: async ({ authorization }) =>
        authorization === "Bearer good" ? { username: "anna", groups: [] } : undefined,
    },
    authorizer: alwaysAllow,
    tls: serving,
    limits: apiConnectionLimits,
    clock: new FakeClock(),
    log: new FakeLog(),
  });
  port = await server.listen(0, "127.0.0.1");
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await server.stop();
});

/** Opens connections of TCP on which nothing follows, one after the other. */
async function openSilent(count: number): Promise<void> {
  for (let opened = 0; opened < count; opened++) {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => {
      // The server may reset it.
    });
    sockets.push(socket);
    await new Promise<void>((resolve) => socket.once("connect", resolve));
  }
}
const closedCount = () => sockets.filter(({ destroyed }) => destroyed).length;

/** A session of a client with credentials, and a request on it. */
async function openKnown() {
  const known = createApiClient({ port, ca: undefined, token: "good" });
  const session = known.openSession();
  const ask = async () => (await known.requestHttp2("GET", "/pods", session)).status;
  expect(await ask()).toBe(200);
  return { known, session, ask };
}

test("of the connections without credentials 256 stay open; one more closes the oldest", async () => {
  const { session, ask } = await openKnown();
  // The server has accepted them all when it answers, and the second answer comes after the end of those that it closes.
  const roundTrips = async () => expect([await ask(), await ask()]).toEqual([200, 200]);
  await openSilent(LIMIT);
  await roundTrips();
  expect(closedCount()).toBe(0);
  await openSilent(3);
  await roundTrips();
  await pollUntil("the end of the oldest three", 5_000, () => sockets.slice(0, 3).every(({ destroyed }) => destroyed));
  expect(closedCount()).toBe(3);
  session.close();
});

test("strangers do not take the place of clients with credentials, which can always connect", async () => {
  const { known, session, ask } = await openKnown();
  // A refused request does not make its connection one of a client with credentials.
  const refused = createApiClient({ port, ca: undefined, token: "bad" });
  const refusedSession = refused.openSession();
  expect((await refused.requestHttp2("GET", "/pods", refusedSession)).status).toBe(401);
  const refusedEnd = new Promise<void>((resolve) => refusedSession.once("close", () => resolve()));
  await openSilent(2 * LIMIT);
  await refusedEnd;
  expect(await ask()).toBe(200);
  expect((await known.get("/pods")).status).toBe(200);
  await pollUntil("the end of all but 256", 5_000, () => closedCount() >= LIMIT);
  session.close();
});
