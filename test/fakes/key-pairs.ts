import type { KeyPairs } from "../../host/key-pairs.ts";

/** Makes keys at once. All keys of a type are the same. */
export function fakeKeyPairs(): KeyPairs {
  return {
    generate: async (keyType) => ({
      privateKey: `private key of type ${keyType}\n`,
      certificateRequest: new TextEncoder().encode(`request for ${keyType}`),
    }),
  };
}
