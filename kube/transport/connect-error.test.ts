import { expect, test } from "bun:test";
import { createCertificateAuthority } from "../../test/upstream/pki.ts";
import type { Identity } from "../auth/credentials.ts";
import { forbiddenMessage, toConnectError, unauthorizedMessage } from "./connect-error.ts";

/* The messages for all errors that keep us from the API server. connection.test.ts provokes them with a real server. */

const now = Date.parse("2026-03-01T12:00:00Z");
const hourMs = 3_600_000;
const authority = createCertificateAuthority("kubernetes");
interface Subject {
  readonly commonName?: string;
  readonly organizations?: readonly string[];
  readonly fromMs?: number;
  readonly toMs?: number;
}
const issued = (subject: Subject = {}): Identity => {
  const { commonName = "system:node:a", organizations = ["system:nodes"], fromMs = -hourMs, toMs = hourMs } = subject;
  const times = { validFrom: new Date(now + fromMs), validTo: new Date(now + toMs) };
  return { certificate: authority.issue({ commonName, organizations, ...times }) };
};
const expired = issued({ fromMs: -48 * hourMs, toMs: -24 * hourMs });
const future = issued({ fromMs: 24 * hourMs, toMs: 48 * hourMs });
const cluster = { server: new URL("https://api.example:6443"), tlsServerName: undefined };

/** An error as `node:http2` reports it. */
const connecting: readonly (readonly [said: string, identity?: Identity])[] = [
  ["ENOTFOUND"],
  ["EAI_NONAME"],
  ["ENODATA"],
  ["EAI_AGAIN"],
  ["ESERVFAIL"],
  ["ETIMEOUT"],
  ["ECONNREFUSED"],
  ["EHOSTUNREACH"],
  ["ENETUNREACH"],
  ["EADDRNOTAVAIL"],
  ["ETIMEDOUT"],
  ["ECONNRESET"],
  ["EPIPE"],
  ["ERR_SSL_WRONG_VERSION_NUMBER"],
  ["ERR_SSL_HTTP_REQUEST"],
  ["ERR_HTTP2_ERROR"],
  ["UNABLE_TO_VERIFY_LEAF_SIGNATURE"],
  ["UNABLE_TO_GET_ISSUER_CERT"],
  ["UNABLE_TO_GET_ISSUER_CERT_LOCALLY"],
  ["SELF_SIGNED_CERT_IN_CHAIN"],
  ["DEPTH_ZERO_SELF_SIGNED_CERT"],
  ["CERT_SIGNATURE_FAILURE"],
  ["CERT_UNTRUSTED"],
  ["CERT_HAS_EXPIRED"],
  ["CERT_NOT_YET_VALID"],
  ["ERR_TLS_CERT_ALTNAME_INVALID"],
  ["ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION"],
  ["ERR_SSL_UNSUPPORTED_PROTOCOL"],
  ["CERT_REVOKED"],
  ["ERR_SSL_TLSV1_ALERT_UNKNOWN_CA", { token: "secret" }],
  ["ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED", {}],
  ["ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE", issued()],
  ["ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE", future],
  ["ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED", expired],
  ["ESOMETHING"],
];

test("connection errors come with advice", () => {
  const lines = connecting.map(([said, identity = {}]) => {
    const cause = Object.assign(new Error("words of another"), { code: said });
    const error = toConnectError(cause, { cluster, identity, now });
    expect(error.cause).toBe(cause);
    return `${said}: ${error.code}, ${error.message}`;
  });
  expect(lines).toMatchInlineSnapshot(`
    [
      "ENOTFOUND: UNREACHABLE, there is no host api.example: correct the server's address in the kubeconfig, or this machine's DNS",
      "EAI_NONAME: UNREACHABLE, there is no host api.example: correct the server's address in the kubeconfig, or this machine's DNS",
      "ENODATA: UNREACHABLE, there is no host api.example: correct the server's address in the kubeconfig, or this machine's DNS",
      "EAI_AGAIN: UNREACHABLE, the host api.example cannot be looked up: this machine's DNS does not answer",
      "ESERVFAIL: UNREACHABLE, the host api.example cannot be looked up: this machine's DNS does not answer",
      "ETIMEOUT: UNREACHABLE, the host api.example cannot be looked up: this machine's DNS does not answer",
      "ECONNREFUSED: UNREACHABLE, nothing listens at api.example:6443: is the API server running, and is this its port?",
      "EHOSTUNREACH: UNREACHABLE, no route leads to api.example:6443: is the network up, and is the address right?",
      "ENETUNREACH: UNREACHABLE, no route leads to api.example:6443: is the network up, and is the address right?",
      "EADDRNOTAVAIL: UNREACHABLE, no route leads to api.example:6443: is the network up, and is the address right?",
      "ETIMEDOUT: UNREACHABLE, api.example:6443 does not answer: is the address right, and does a firewall lie in between?",
      "ECONNRESET: UNREACHABLE, the connection to api.example:6443 was reset",
      "EPIPE: UNREACHABLE, the connection to api.example:6443 was reset",
      "ERR_SSL_WRONG_VERSION_NUMBER: UNREACHABLE, the server at api.example:6443 does not speak TLS: is this the API server's secure port?",
      "ERR_SSL_HTTP_REQUEST: UNREACHABLE, the server at api.example:6443 does not speak TLS: is this the API server's secure port?",
      "ERR_HTTP2_ERROR: UNREACHABLE, the server at api.example:6443 does not speak HTTP/2: is it the API server, without a proxy in between?",
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE: TLS, the certificate of api.example:6443 is not signed by the configured certificate authority: correct certificate-authority in the kubeconfig, if this is the right server",
      "UNABLE_TO_GET_ISSUER_CERT: TLS, the certificate of api.example:6443 is not signed by the configured certificate authority: correct certificate-authority in the kubeconfig, if this is the right server",
      "UNABLE_TO_GET_ISSUER_CERT_LOCALLY: TLS, the certificate of api.example:6443 is not signed by the configured certificate authority: correct certificate-authority in the kubeconfig, if this is the right server",
      "SELF_SIGNED_CERT_IN_CHAIN: TLS, the certificate of api.example:6443 is not signed by the configured certificate authority: correct certificate-authority in the kubeconfig, if this is the right server",
      "DEPTH_ZERO_SELF_SIGNED_CERT: TLS, the certificate of api.example:6443 is not signed by the configured certificate authority: correct certificate-authority in the kubeconfig, if this is the right server",
      "CERT_SIGNATURE_FAILURE: TLS, the certificate of api.example:6443 is not signed by the configured certificate authority: correct certificate-authority in the kubeconfig, if this is the right server",
      "CERT_UNTRUSTED: TLS, the certificate of api.example:6443 is not signed by the configured certificate authority: correct certificate-authority in the kubeconfig, if this is the right server",
      "CERT_HAS_EXPIRED: TLS, the certificate of api.example:6443 has expired by this machine's clock (2026-03-01): renew it on the server, or set the clock",
      "CERT_NOT_YET_VALID: TLS, the certificate of api.example:6443 is not valid yet by this machine's clock (2026-03-01): set the clock",
      "ERR_TLS_CERT_ALTNAME_INVALID: TLS, the certificate of api.example:6443 is not valid for api.example: use a name that it contains as server, or as tls-server-name, in the kubeconfig",
      "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: TLS, api.example:6443 does not speak TLS 1.2 or newer",
      "ERR_SSL_UNSUPPORTED_PROTOCOL: TLS, api.example:6443 does not speak TLS 1.2 or newer",
      "CERT_REVOKED: TLS, the TLS handshake with api.example:6443 failed (cert revoked): it does not accept a client without credentials, or its certificate cannot be used",
      "ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: TLS, the TLS handshake with api.example:6443 failed (tlsv1 alert unknown ca): it does not accept our token, or its certificate cannot be used",
      "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: TLS, the TLS handshake with api.example:6443 failed (tlsv13 alert certificate required): it does not accept a client without credentials, or its certificate cannot be used",
      "ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: TLS, the TLS handshake with api.example:6443 failed (sslv3 alert bad certificate): it does not accept the client certificate of "system:node:a", or its certificate cannot be used",
      "ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: TLS, api.example:6443 does not accept us: our client certificate is valid only from 2026-03-02T12:00:00Z, but this machine's clock shows 2026-03-01: set the clock",
      "ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED: TLS, api.example:6443 does not accept us: our client certificate expired on 2026-02-28T12:00:00Z: issue a new one for this node",
      "ESOMETHING: UNREACHABLE, the connection to api.example:6443 has ended: words of another",
    ]
  `);
});

test("the message of a 401 names the identity and comes with advice", () => {
  const lines = [{}, { token: "secret" }, issued(), expired, future].map((identity) =>
    unauthorizedMessage({ cluster, identity, now }),
  );
  expect(lines).toMatchInlineSnapshot(`
    [
      "api.example:6443 does not accept a client without credentials: give the kubeconfig's user a client certificate, a token or exec",
      "api.example:6443 does not accept our token: renew it, or use the kubeconfig of this cluster",
      "api.example:6443 does not accept the client certificate of "system:node:a": renew it, or use the kubeconfig of this cluster",
      "api.example:6443 does not accept us: our client certificate expired on 2026-02-28T12:00:00Z: issue a new one for this node",
      "api.example:6443 does not accept us: our client certificate is valid only from 2026-03-02T12:00:00Z, but this machine's clock shows 2026-03-01: set the clock",
    ]
  `);
});

test("the message of a 403 names the identity and comes with advice for a node", () => {
  const identities = [
    {},
    { token: "secret" },
    issued(),
    issued({ commonName: "system:node:b" }),
    issued({ organizations: [] }),
    issued({ commonName: "jane", organizations: ["team"] }),
  ];
  expect(identities.map((identity) => forbiddenMessage(identity, "a"))).toMatchInlineSnapshot(`
    [
      "the kubeconfig's user has no credentials: give it a client certificate, a token or exec",
      "the token's user lacks this permission; a node needs the user system:node:a in the group system:nodes, or RBAC rules",
      "we are the client certificate of "system:node:a"",
      "our client certificate is issued to the node "b", but this node is named "a": set --hostname-override=b, or use a certificate for system:node:a",
      "our client certificate for system:node:a lacks the group of nodes: it has to be issued with O=system:nodes",
      "our client certificate is issued to "jane": a node needs one for system:node:a in the group system:nodes, or RBAC rules",
    ]
  `);
});
