import { bitString, objectIdentifier, sequence } from "./der.ts";

/*
 * Certification requests (PKCS#10, RFC 2986) without a name and without attributes: they carry a public key, and their
 * signature proves the possession of the private key.
 */

/** How a request is signed: the algorithm's identifier in DER. */
export type SignatureAlgorithm = keyof typeof algorithmIdentifiers;

const NULL = [0x05, 0x00];
const VERSION_1 = [0x02, 0x01, 0x00];
const NO_NAME = sequence();
const NO_ATTRIBUTES = [0xa0, 0x00];

/** RFC 4055, 5758 and 8410. */
const algorithmIdentifiers = {
  sha256WithRSAEncryption: sequence(objectIdentifier("1.2.840.113549.1.1.11"), NULL),
  "ecdsa-with-SHA256": sequence(objectIdentifier("1.2.840.10045.4.3.2")),
  "ecdsa-with-SHA384": sequence(objectIdentifier("1.2.840.10045.4.3.3")),
  "ecdsa-with-SHA512": sequence(objectIdentifier("1.2.840.10045.4.3.4")),
  Ed25519: sequence(objectIdentifier("1.3.101.112")),
} as const satisfies Readonly<Record<string, Uint8Array>>;

/** What is signed: CertificationRequestInfo in DER. `publicKey` is a SubjectPublicKeyInfo in DER. */
export function formatUnsignedRequest(publicKey: Uint8Array): Uint8Array {
  return sequence(VERSION_1, NO_NAME, publicKey, NO_ATTRIBUTES);
}

/** The whole CertificationRequest in DER. */
export function formatSignedRequest(
  info: Uint8Array,
  algorithm: SignatureAlgorithm,
  signature: Uint8Array,
): Uint8Array {
  return sequence(info, algorithmIdentifiers[algorithm], bitString(signature));
}
