import { expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { connect, createSecureServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { type CertificateAuthority, createCertificateAuthority, type KeyPair } from "./pki.ts";

const ca = createCertificateAuthority("berth.test");

test("a certificate names its subject, its issuer, its hosts and its validity", () => {
  const { cert } = ca.issue({
    commonName: "system:node:a",
    organizations: ["system:nodes", "others"],
    hosts: ["localhost", "127.0.0.1"],
    validFrom: new Date("2030-01-02T03:04:05Z"),
    validTo: new Date("2050-06-07T08:09:10Z"),
  });
  const read = new X509Certificate(cert);
  expect(read.subject.split("\n")).toEqual(["O=system:nodes", "O=others", "CN=system:node:a"]);
  expect(read.issuer).toBe("CN=berth.test");
  expect(read.subjectAltName).toBe("DNS:localhost, IP Address:127.0.0.1");
  expect([read.validFrom, read.validTo]).toEqual(["Jan  2 03:04:05 2030 GMT", "Jun  7 08:09:10 2050 GMT"]);
  expect(read.ca).toBe(false);
  expect(read.checkIssued(new X509Certificate(ca.cert))).toBe(true);
  expect(new X509Certificate(ca.cert).ca).toBe(true);
});

/**
 * Connects with these certificates, where both sides trust only `known`. Returns the server's answer or the TLS error.
 */
async function handshake(
  server: KeyPair,
  client: KeyPair,
  known: CertificateAuthority,
  host = "localhost",
): Promise<string> {
  const listener = createSecureServer({ ...server, ca: known.cert, requestCert: true, rejectUnauthorized: false });
  listener.on("stream", (stream: ServerHttp2Stream) => {
    const socket = stream.session?.socket as TLSSocket;
    stream.respond();
    stream.end(socket.authorized ? `welcome, ${socket.getPeerCertificate().subject.CN}` : "who are you?");
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as AddressInfo;
  const session = connect(`https://127.0.0.1:${port}`, { ...client, ca: known.cert, servername: host });
  try {
    return await new Promise<string>((resolve, reject) => {
      session.on("error", reject);
      const stream = session.request({ ":path": "/" });
      let text = "";
      stream.on("error", reject);
      stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
      stream.on("end", () => resolve(text));
    });
  } catch (error) {
    return `refused: ${error instanceof Error && "code" in error ? String(error.code) : String(error)}`;
  } finally {
    session.destroy();
    listener.close();
  }
}

const server = ca.issue({ commonName: "server", hosts: ["localhost"] });
const client = ca.issue({ commonName: "someone" });

test("a client and a server of the same authority accept each other", async () => {
  expect(await handshake(server, client, ca)).toBe("welcome, someone");
});

test("a server does not authorize a client of another authority with the same name", async () => {
  const stranger = createCertificateAuthority("berth.test").issue({ commonName: "someone" });
  expect(await handshake(server, stranger, ca)).toBe("who are you?");
});

test.each([
  ["for another host", { hosts: ["elsewhere"] }, "ERR_TLS_CERT_ALTNAME_INVALID"],
  ["that has expired", { hosts: ["localhost"], validTo: new Date(Date.now() - 1000) }, "CERT_HAS_EXPIRED"],
  ["that is not valid yet", { hosts: ["localhost"], validFrom: new Date(Date.now() + 60_000) }, "CERT_NOT_YET_VALID"],
])("a client rejects a server certificate %s", async (_, request, code) => {
  expect(await handshake(ca.issue({ commonName: "server", ...request }), client, ca)).toBe(`refused: ${code}`);
});
