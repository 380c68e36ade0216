import { expect, test } from "bun:test";
import { FakeClock } from "../../../../test/fakes/clock.ts";
import { userOfCertificate } from "./client-certificate.ts";
import { createRequestAuthenticator } from "./request-authenticator.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const raw = Buffer.from("the certificate in DER");

/** A connection as Bun shows it: an attribute that occurs twice is a list. */
function socketOf(subject: Readonly<Record<string, unknown>>, { authorized = true, validTo = NOW + 1_000 } = {}) {
  const certificate = { subject, raw, valid_to: new Date(validTo).toUTCString() };
  return { authorized, getPeerCertificate: () => certificate as never };
}

test("CN is the name, every O a group, the uid has an OID of its own, and the credential is named", () => {
  const found = userOfCertificate(socketOf({ CN: "anna", O: ["a", "b"], "1.3.6.1.4.1.57683.2": "u-1" }), NOW);
  expect(found).toMatchObject({ kind: "user", user: { username: "anna", groups: ["a", "b"], uid: "u-1" } });
  const [credential] = Object.values(found.kind === "user" ? (found.user.extra ?? {}) : {}).flat();
  expect(credential).toMatch(/^X509SHA256=[0-9a-f]{64}$/);
});

test.each([
  ["a name without groups", { CN: "anna" }, { username: "anna", groups: [] }],
  ["one group", { CN: "anna", O: "a" }, { username: "anna", groups: ["a"] }],
  ["a name with a line break", { CN: "anna\nO=system:masters" }, { username: "anna\nO=system:masters", groups: [] }],
  ["a group with a comma", { CN: "anna", O: "a, O=b" }, { username: "anna", groups: ["a, O=b"] }],
])("%s is taken as it is", (_name, subject, user) => {
  expect(userOfCertificate(socketOf(subject), NOW)).toMatchObject({ kind: "user", user });
});

test.each([
  ["no name", { O: "system:masters" }, {}],
  ["an empty name", { CN: "" }, {}],
  ["two names", { CN: ["anna", "admin"] }, {}],
  ["two uids", { CN: "anna", "1.3.6.1.4.1.57683.2": ["1", "2"] }, {}],
  ["a signature of another CA", { CN: "anna" }, { authorized: false }],
  ["an expiry while the connection was open", { CN: "anna" }, { validTo: NOW - 1_000 }],
])("a certificate with %s is refused", (_name, subject, options) => {
  expect(userOfCertificate(socketOf(subject, options), NOW)).toEqual({ kind: "refused" });
});

const signal = new AbortController().signal;
const without = { authorized: false, getPeerCertificate: () => undefined as never };
const nothing = { authorization: undefined, websocketProtocols: undefined, signal };

test("only a request without any credentials is anonymous, where that is allowed", async () => {
  const options = { authenticateToken: async () => undefined, clock: new FakeClock() };
  const open = createRequestAuthenticator({ ...options, allowsAnonymous: true });
  const shut = createRequestAuthenticator({ ...options, allowsAnonymous: false });
  const anonymous = { username: "system:anonymous", groups: ["system:unauthenticated"] };
  expect(await open.authenticate({ ...nothing, socket: without })).toEqual(anonymous);
  expect(await shut.authenticate({ ...nothing, socket: without })).toBeUndefined();
  for (const credentials of [
    { ...nothing, socket: without, authorization: "Bearer bad" },
    { ...nothing, socket: without, websocketProtocols: "base64url.bearer.authorization.k8s.io.YmFk" },
    { ...nothing, socket: socketOf({ CN: "anna" }, { authorized: false }) },
  ])
    expect(await open.authenticate(credentials)).toBeUndefined();
});

test("a token is no credential where none is accepted, and a user is authenticated once", async () => {
  const clock = new FakeClock();
  const withoutTokens = createRequestAuthenticator({ authenticateToken: undefined, allowsAnonymous: true, clock });
  const asked = { ...nothing, socket: without, authorization: "Bearer any" };
  expect(await withoutTokens.authenticate(asked)).toMatchObject({ username: "system:anonymous" });
  const groups = ["system:serviceaccounts", "system:authenticated"];
  const authenticateToken = async () => ({ username: "sa", groups });
  const withTokens = createRequestAuthenticator({ authenticateToken, allowsAnonymous: false, clock });
  expect(await withTokens.authenticate(asked)).toEqual({ username: "sa", groups });
});
