import type { KeyPair } from "./pki.ts";

/** A kubeconfig with inline credentials, as JSON, which is valid YAML. */
export function kubeconfig(server: string, ca: string, identity: KeyPair | { readonly token: string }): string {
  const base64 = (text: string) => Buffer.from(text).toString("base64");
  const user =
    "token" in identity
      ? { token: identity.token }
      : { "client-certificate-data": base64(identity.cert), "client-key-data": base64(identity.key) };
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "test", cluster: { server, "certificate-authority-data": base64(ca) } }],
    users: [{ name: "user", user }],
    contexts: [{ name: "test", context: { cluster: "test", user: "user" } }],
    "current-context": "test",
  };
  return `${JSON.stringify(config, null, 2)}\n`;
}
