import { expect, test } from "bun:test";
import { credentialHash } from "./credential-hash.ts";

// Computed in Go: SHA-256 of the kubelet's AuthConfig as encoding/json prints it.
const golden = [
  [{ username: "captain", password: "hunter2" }, "a23b5c40dec57ff48fbc9b5850362b7b30354255673fcc6cac6a0062f7521beb"],
  [
    { username: "a<b>&c", password: 'p"w\\\t\x01\u2028é\x7f', email: "me@example.com" },
    "249438996df4edd9ab181bfb78213888fa21cf77e6cc0fbccd4ee52356ef0abe",
  ],
  [{ username: "", password: "" }, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"],
  [{ username: "u", password: "" }, "a67095390396c5936dbf649847f03cd8fe40afea9cb9488eaff8699dc6b53dcb"],
] as const;

for (const [login, hash] of golden)
  test(`the credential hash is the kubelet's: ${JSON.stringify(login)}`, () =>
    expect(credentialHash(login)).toBe(hash));
