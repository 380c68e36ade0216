import { expect, test } from "bun:test";
import { createPrivateKey, createPublicKey, verify } from "node:crypto";
import { createKeyPairs } from "./key-pairs.ts";

/** The DER elements in some bytes: each with its tag, its content, and all of it. */
function elementsIn(bytes: Uint8Array): { tag: number; content: Uint8Array; whole: Uint8Array }[] {
  const elements: ReturnType<typeof elementsIn> = [];
  for (let at = 0; at < bytes.length; ) {
    const [tag = 0, first = 0] = bytes.subarray(at, at + 2);
    const count = first < 0x80 ? 0 : first & 0x7f;
    const lengthBytes = bytes.subarray(at + 2, at + 2 + count);
    const length = count === 0 ? first : lengthBytes.reduce((sum, byte) => sum * 256 + byte, 0);
    const start = at + 2 + count;
    elements.push({ tag, content: bytes.subarray(start, start + length), whole: bytes.subarray(at, start + length) });
    at = start + length;
  }
  return elements;
}
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");

const rows: readonly [keyType: string, details: string, hash: string | null, algorithm: string][] = [
  ["RSA3072", "rsa 3072", "sha256", "06092a864886f70d01010b0500"],
  ["RSA4096", "rsa 4096", "sha256", "06092a864886f70d01010b0500"],
  ["ECDSAP256", "ec prime256v1", "sha256", "06082a8648ce3d040302"],
  ["ECDSAP384", "ec secp384r1", "sha384", "06082a8648ce3d040303"],
  ["ECDSAP521", "ec secp521r1", "sha512", "06082a8648ce3d040304"],
  ["ED25519", "ed25519", null, "06032b6570"],
];
for (const [keyType, details, hash, algorithm] of rows)
  test(`a key of type ${keyType}, and a request without a name that it has signed`, async () => {
    const { privateKey, certificateRequest } = await createKeyPairs().generate(keyType);
    expect(privateKey.split("\n")[0]).toBe("-----BEGIN PRIVATE KEY-----");
    const key = createPrivateKey(privateKey);
    const { modulusLength, namedCurve } = key.asymmetricKeyDetails ?? {};
    expect([key.asymmetricKeyType, modulusLength ?? namedCurve].filter((part) => part !== undefined).join(" ")).toBe(
      details,
    );
    const [request, ...more] = elementsIn(certificateRequest);
    const [info, identifier, signature] = elementsIn(request!.content);
    const [version, name, publicKey, attributes] = elementsIn(info!.content);
    expect([version, name, attributes].map((each) => hex(each!.whole))).toEqual(["020100", "3000", "a000"]);
    expect(hex(publicKey!.whole)).toBe(createPublicKey(key).export({ type: "spki", format: "der" }).toString("hex"));
    expect([hex(identifier!.content), signature!.tag, signature!.content[0], more.length]).toEqual([
      algorithm,
      3,
      0,
      0,
    ]);
    expect(verify(hash, info!.whole, createPublicKey(key), signature!.content.subarray(1))).toBe(true);
  });

test("two keys differ", async () => {
  const [one, other] = await Promise.all(["ED25519", "ED25519"].map(createKeyPairs().generate));
  expect(one?.privateKey).not.toBe(other!.privateKey);
});

test("an unknown type is refused", async () => {
  await expect(createKeyPairs().generate("DSA")).rejects.toThrow('unknown key type "DSA"');
});
