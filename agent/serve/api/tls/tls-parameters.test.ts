import { expect, test } from "bun:test";
import { connect } from "node:tls";
import { createApiClient } from "../../../../test/fakes/api-client.ts";
import { FakeClock } from "../../../../test/fakes/clock.ts";
import { FakeLog } from "../../../../test/fakes/log.ts";
import { createCertificateAuthority } from "../../../../test/upstream/pki.ts";
import { createApiServer } from "../api-server.ts";
import { alwaysAllow } from "../auth/authorizer.ts";
import { type TlsConfig, tlsParametersOf } from "./tls-parameters.ts";

const defaults: TlsConfig = { minVersion: "", cipherSuites: [], curvePreferences: [] };
const serving = createCertificateAuthority("serving").issue({ commonName: "node", hosts: ["127.0.0.1"] });

/** Connects to a server with the parameters; returns the version and the cipher, or the code of the error. */
async function handshake(
  config: Partial<TlsConfig>,
  client: Parameters<typeof connect>[0],
): Promise<readonly string[]> {
  const { settings } = tlsParametersOf({ ...defaults, ...config });
  const server = createApiServer({
    routes: [],
    authenticator: { authenticate: async () => undefined },
    authorizer: alwaysAllow,
    tls: { ...settings, ...serving },
    limits: { maxConnections: 10, maxUnauthenticated: 10, firstRequestTimeoutMs: 30_000, idleTimeoutMs: 90_000 },
    clock: new FakeClock(),
    log: new FakeLog(),
  });
  const port = await server.listen(0, "127.0.0.1");
  try {
    return await new Promise((resolve) => {
      const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false, ...client }, () => {
        resolve([socket.getProtocol() ?? "", socket.getCipher().name]);
        socket.destroy();
      });
      socket.on("error", () => resolve(["refused"]));
    });
  } finally {
    await server.stop();
  }
}

test("TLS 1.2 and 1.3 are served by default, and nothing older", async () => {
  expect((await handshake({}, {}))[0]).toBe("TLSv1.3");
  expect((await handshake({}, { maxVersion: "TLSv1.2" }))[0]).toBe("TLSv1.2");
  for (const minVersion of ["", "VersionTLS10", "VersionTLS11"])
    expect(await handshake({ minVersion }, { minVersion: "TLSv1", maxVersion: "TLSv1.1" })).toEqual(["refused"]);
});

test("tlsMinVersion VersionTLS13 refuses TLS 1.2", async () => {
  expect(await handshake({ minVersion: "VersionTLS13" }, { maxVersion: "TLSv1.2" })).toEqual(["refused"]);
});

test("tlsCipherSuites limits the ciphers of TLS 1.2", async () => {
  const config = { cipherSuites: ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"] };
  const maxVersion = "TLSv1.2" as const;
  expect(await handshake(config, { maxVersion })).toEqual(["TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"]);
  expect(await handshake(config, { maxVersion, ciphers: "ECDHE-ECDSA-AES128-GCM-SHA256" })).toEqual(["refused"]);
});

test("tlsCurvePreferences limits the curves", async () => {
  const config = { curvePreferences: [24] };
  expect((await handshake(config, { ecdhCurve: "P-384" }))[0]).toBe("TLSv1.3");
  expect(await handshake(config, { ecdhCurve: "P-256", maxVersion: "TLSv1.2" })).toEqual(["refused"]);
});

test("what the library lacks, or is not secure any more, is named", () => {
  const { unsupported } = tlsParametersOf({
    minVersion: "VersionTLS10",
    cipherSuites: ["TLS_RSA_WITH_RC4_128_SHA", "TLS_AES_256_GCM_SHA384"],
    curvePreferences: [29, 4587],
  });
  expect(unsupported).toEqual(["TLS_RSA_WITH_RC4_128_SHA", "curve 4587", "VersionTLS10"]);
});

test("a client that proves nothing sees no client CA where none is configured", async () => {
  const server = createApiServer({
    routes: [{ pattern: "/healthz", methods: "all", handle: async (_request, response) => response.end("ok") }],
    authenticator: {
      authenticate: async ({ socket }) => ({ username: socket.authorized ? "admitted" : "anyone", groups: [] }),
    },
    authorizer: { isAllowed: async ({ user }) => user.username === "anyone" },
    tls: serving,
    limits: { maxConnections: 10, maxUnauthenticated: 10, firstRequestTimeoutMs: 30_000, idleTimeoutMs: 90_000 },
    clock: new FakeClock(),
    log: new FakeLog(),
  });
  const port = await server.listen(0, "127.0.0.1");
  const pair = createCertificateAuthority("public").issue({ commonName: "admin" });
  const answer = await createApiClient({ port, ca: undefined, pair }).get("/healthz");
  expect(answer.text).toBe("ok");
  await server.stop();
});
