import { expect, test } from "bun:test";
import { createAuthority } from "../test/upstream/pki.ts";
import { toConnectError } from "./connect-error.ts";
import type { Identity } from "./credentials.ts";

/* What a real server brings about is in connection.test.ts; here is what is hard to bring about. */

const now = Date.now();
const hourMs = 3_600_000;
const authority = createAuthority("kubernetes");
const issue = (fromMs: number, toMs: number) => ({
  certificate: authority.issue({
    commonName: "system:node:a",
    validFrom: new Date(now + fromMs),
    validTo: new Date(now + toMs),
  }),
});

const rows: readonly [said: string, code: string, says: RegExp, identity?: Identity][] = [
  ["EAI_AGAIN", "UNREACHABLE", /the host api\.example cannot be looked up: this machine's DNS does not answer/],
  ["EHOSTUNREACH", "UNREACHABLE", /no route leads to api\.example:6443: is the network up/],
  ["ENETUNREACH", "UNREACHABLE", /no route leads to/],
  ["ETIMEDOUT", "UNREACHABLE", /does not answer: is the address right/],
  ["EPIPE", "UNREACHABLE", /was broken off/],
  ["ESOMETHING", "UNREACHABLE", /the connection to api\.example:6443 has ended: words of another/],
  ["SELF_SIGNED_CERT_IN_CHAIN", "TLS", /not from the certificate authority that we were given/],
  ["CERT_REVOKED", "TLS", /cert revoked/],
  ["ERR_SSL_TLSV1_ALERT_UNKNOWN_CA", "TLS", /tlsv1 alert unknown ca.*it does not accept our token/, { token: "t" }],
  [
    "ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED",
    "TLS",
    /does not accept us: our client certificate has expired on 20.*: give this node a new one/,
    issue(-2 * hourMs, -hourMs),
  ],
  [
    "ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE",
    "TLS",
    /our client certificate is valid only from 20.*, and this machine's clock says 20.*: set the clock/,
    issue(hourMs, 2 * hourMs),
  ],
  [
    "ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE",
    "TLS",
    /it does not accept the client certificate of "system:node:a", or its certificate cannot be used/,
    issue(-hourMs, hourMs),
  ],
];
for (const [said, code, says, identity = {}] of rows)
  test(`${said} is ${code}, ${says}`, () => {
    const cause = Object.assign(new Error("words of another"), { code: said });
    const cluster = { server: new URL("https://api.example:6443"), tlsServerName: undefined };
    const error = toConnectError(cause, { cluster, identity, now });
    expect(error.message).toMatch(says);
    expect(error).toMatchObject({ code, cause } as object);
  });
