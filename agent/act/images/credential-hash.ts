import { createHash } from "node:crypto";
import { goJson } from "../../../proto/go-json.ts";
import type { RegistryCredential } from "../../translate/docker-config-format.ts";

/**
 * The `credentialHash` of image pull records: SHA-256 of the credential's Docker AuthConfig JSON, as the kubelet
 * computes it.
 */
export function credentialHash({ username, password, email = "" }: RegistryCredential): string {
  const fields = Object.entries({ username, password, email }).filter(([, text]) => text !== "");
  return createHash("sha256")
    .update(goJson(Object.fromEntries(fields)))
    .digest("hex");
}
