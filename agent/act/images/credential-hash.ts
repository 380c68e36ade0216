import { createHash } from "node:crypto";
import { goJson } from "../../../proto/go-json.ts";
import type { RegistryLogin } from "../../translate/registry-credentials.ts";

/** What the kubelet writes down of a login instead of the login: SHA-256 of it in Docker's words. */
export function hashOfLogin({ username, password, email = "" }: RegistryLogin): string {
  const words = Object.entries({ username, password, email }).filter(([, text]) => text !== "");
  return createHash("sha256")
    .update(goJson(Object.fromEntries(words)))
    .digest("hex");
}
