import { generateKeyPair, type KeyObject, sign } from "node:crypto";
import { promisify } from "node:util";
import { formatSignedRequest, formatUnsignedRequest, type SignatureAlgorithm } from "./pkcs10.ts";

/** A private key, and a request for a certificate of its public key. */
export interface RequestedKey {
  /** PKCS#8 in PEM. */
  readonly privateKey: string;
  /** PKCS#10 in DER, without a name. */
  readonly certificateRequest: Uint8Array;
}

/** Makes keys in this process. They are in memory only. */
export interface KeyPairs {
  /** `keyType` as in `podCertificate.keyType`. Rejects with an `Error` for an unknown one. */
  generate(keyType: string): Promise<RequestedKey>;
}

interface KeyKind {
  generate(): Promise<{ readonly publicKey: KeyObject; readonly privateKey: KeyObject }>;
  readonly algorithm: SignatureAlgorithm;
  /** Null: the algorithm has a hash of its own. */
  readonly hash: "sha256" | "sha384" | "sha512" | null;
}

const generatePair = promisify(generateKeyPair);
const rsa = (modulusLength: number): KeyKind => ({
  generate: () => generatePair("rsa", { modulusLength }),
  algorithm: "sha256WithRSAEncryption",
  hash: "sha256",
});
const ecdsa = (namedCurve: string, algorithm: SignatureAlgorithm, hash: KeyKind["hash"]): KeyKind => ({
  generate: () => generatePair("ec", { namedCurve }),
  algorithm,
  hash,
});

const kinds: ReadonlyMap<string, KeyKind> = new Map([
  ["RSA3072", rsa(3072)],
  ["RSA4096", rsa(4096)],
  ["ECDSAP256", ecdsa("P-256", "ecdsa-with-SHA256", "sha256")],
  ["ECDSAP384", ecdsa("P-384", "ecdsa-with-SHA384", "sha384")],
  ["ECDSAP521", ecdsa("P-521", "ecdsa-with-SHA512", "sha512")],
  ["ED25519", { generate: () => generatePair("ed25519"), algorithm: "Ed25519", hash: null }],
]);

export function createKeyPairs(): KeyPairs {
  return {
    async generate(keyType) {
      const kind = kinds.get(keyType);
      if (kind === undefined) throw new Error(`unknown key type ${JSON.stringify(keyType)}`);
      const { publicKey, privateKey } = await kind.generate();
      const info = formatUnsignedRequest(publicKey.export({ type: "spki", format: "der" }));
      return {
        privateKey: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
        certificateRequest: formatSignedRequest(info, kind.algorithm, sign(kind.hash, info, privateKey)),
      };
    },
  };
}
