/*
 * Certification requests (PKCS#10, RFC 2986) without a name and without attributes: they carry a public key, and their
 * signature proves the possession of the private key.
 */

/** How a request is signed: the algorithm's identifier in DER. */
export type SignatureAlgorithm = keyof typeof algorithmIdentifiers;

const SEQUENCE = 0x30;
const OBJECT_IDENTIFIER = 0x06;
const BIT_STRING = 0x03;
const NULL = [0x05, 0x00];
const VERSION_1 = [0x02, 0x01, 0x00];
const NO_NAME = [SEQUENCE, 0x00];
const NO_ATTRIBUTES = [0xa0, 0x00];

/** RFC 4055, 5758 and 8410; the identifiers after their first two numbers as DER has them. */
const algorithmIdentifiers = {
  sha256WithRSAEncryption: [[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b], NULL],
  "ecdsa-with-SHA256": [[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02], []],
  "ecdsa-with-SHA384": [[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03], []],
  "ecdsa-with-SHA512": [[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04], []],
  Ed25519: [[0x2b, 0x65, 0x70], []],
} as const satisfies Readonly<Record<string, readonly [identifier: readonly number[], parameters: readonly number[]]>>;

/** What is signed: CertificationRequestInfo in DER. `publicKey` is a SubjectPublicKeyInfo in DER. */
export function formatUnsignedRequest(publicKey: Uint8Array): Uint8Array {
  return element(SEQUENCE, VERSION_1, NO_NAME, publicKey, NO_ATTRIBUTES);
}

/** The whole CertificationRequest in DER. */
export function formatSignedRequest(
  info: Uint8Array,
  algorithm: SignatureAlgorithm,
  signature: Uint8Array,
): Uint8Array {
  const [identifier, parameters] = algorithmIdentifiers[algorithm];
  const algorithmIdentifier = element(SEQUENCE, element(OBJECT_IDENTIFIER, identifier), parameters);
  // No bit of the last byte is unused.
  return element(SEQUENCE, info, algorithmIdentifier, element(BIT_STRING, [0], signature));
}

/** A DER element: its tag, its length and its content. */
function element(tag: number, ...content: readonly (Uint8Array | readonly number[])[]): Uint8Array {
  const bytes = content.flatMap((part) => [...part]);
  return Uint8Array.from([tag, ...lengthOf(bytes.length), ...bytes]);
}

/** Up to 127 in one byte; otherwise the number of the bytes that follow, and these. */
function lengthOf(length: number): readonly number[] {
  if (length < 0x80) return [length];
  const bytes = length < 0x100 ? [length] : [length >> 8, length & 0xff];
  return [0x80 | bytes.length, ...bytes];
}
