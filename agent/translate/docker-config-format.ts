import { decodeBase64 } from "../../proto/base64.ts";
import { isObject } from "../../proto/is-object.ts";
import { fromUtf8 } from "../../proto/utf8.ts";

/** The user name and password for one registry. */
export interface RegistryCredential {
  readonly username: string;
  readonly password: string;
  /** Registries ignore it, but the kubelet's hash of a credential includes it. */
  readonly email?: string;
  /** Left out for credentials of the node, which all pods may use. */
  readonly owner?: CredentialOwner;
}

/** The API object that grants a pod its credential. */
export interface CredentialOwner {
  readonly kind: "secret" | "serviceAccount";
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
}

/** Credentials by location: a registry or a part of one, such as `https://registry.example:5000/team`. */
export type RegistryCredentials = readonly (readonly [location: string, login: RegistryCredential])[];

/** `config.json` holds credentials in `auths`; the older `.dockercfg` holds nothing else. */
export type DockerConfigFormat = "config.json" | ".dockercfg";

/**
 * Parses a Docker configuration. Returns undefined for an invalid one, and an empty list for one without credentials.
 */
export function parseDockerConfig(text: string, format: DockerConfigFormat): RegistryCredentials | undefined {
  const whole = parseObject(text);
  if (whole === undefined) return undefined;
  const auths = format === "config.json" ? (whole["auths"] ?? {}) : whole;
  if (!isObject(auths)) return undefined;
  const credentials = Object.entries(auths).map(([location, entry]) => [location, parseAuth(entry)] as const);
  return credentials.every((each): each is [string, RegistryCredential] => each[1] !== undefined)
    ? credentials
    : undefined;
}

/** `auth`, which is `username:password` in base64, takes precedence over the separate fields. */
function parseAuth(entry: unknown): RegistryCredential | undefined {
  if (!isObject(entry)) return undefined;
  const { username = "", password = "", auth = "", email = "" } = entry;
  if ([username, password, auth, email].some((text) => typeof text !== "string")) return undefined;
  const rest = email === "" ? {} : { email: String(email) };
  if (auth === "") return { username: String(username), password: String(password), ...rest };
  const bytes = decodeBase64(String(auth));
  const parts = bytes && /^([^:]*):(.*)$/s.exec(fromUtf8(bytes));
  return parts ? { username: parts[1] ?? "", password: parts[2] ?? "", ...rest } : undefined;
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    // The parser's message would quote the secret text.
    return undefined;
  }
}
