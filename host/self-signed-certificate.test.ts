import { expect, test } from "bun:test";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { createSelfSignedCertificate } from "./self-signed-certificate.ts";

test("a self-signed certificate names its hosts, its times and its use, and its key fits", async () => {
  const { cert, key } = await createSelfSignedCertificate({
    commonName: "node-a@1767225600",
    hosts: ["node-a", "192.0.2.7", "fd00::7", "::1"],
    validFrom: Date.parse("2026-01-01T00:00:00Z"),
    validTo: Date.parse("2051-01-01T00:00:00Z"),
  });
  const certificate = new X509Certificate(cert);
  expect(certificate.subject).toBe("CN=node-a@1767225600");
  expect(certificate.subjectAltName).toBe(
    "DNS:node-a, IP Address:192.0.2.7, IP Address:FD00:0:0:0:0:0:0:7, IP Address:0:0:0:0:0:0:0:1",
  );
  expect([certificate.validFrom, certificate.validTo].map((time) => new Date(time).toISOString())).toEqual([
    "2026-01-01T00:00:00.000Z",
    "2051-01-01T00:00:00.000Z",
  ]);
  expect(certificate.ca).toBe(false);
  expect(certificate.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1"]);
  expect(certificate.verify(certificate.publicKey)).toBe(true);
  expect(certificate.checkPrivateKey(createPrivateKey(key))).toBe(true);
});
