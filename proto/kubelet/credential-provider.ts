import { isObject } from "../is-object.ts";

/*
 * The protocol between the kubelet and credential provider plugins, which supply registry credentials, and the types of
 * the CredentialProviderConfig that lists them.
 */

export const providerApiVersions = [
  "credentialprovider.kubelet.k8s.io/v1",
  "credentialprovider.kubelet.k8s.io/v1beta1",
  "credentialprovider.kubelet.k8s.io/v1alpha1",
] as const;

/** One plugin of a CredentialProviderConfig. */
export interface CredentialProvider {
  /** The file name of its binary in the plugin directory. */
  readonly name: string;
  /** The images that it serves: registries, with globs in the labels of their host names, and an optional path. */
  readonly matchImages: readonly string[];
  readonly defaultCacheDurationMs: number;
  readonly apiVersion: (typeof providerApiVersions)[number];
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Set when the plugin gets a token of the pod's service account. */
  readonly tokenAttributes?: TokenAttributes;
}

export interface TokenAttributes {
  readonly serviceAccountTokenAudience: string;
  /** Whether a response is cached per pod token, or for all pods of the service account. */
  readonly cacheType: "ServiceAccount" | "Token";
  /** The plugin is not called for pods without a service account. */
  readonly requireServiceAccount: boolean;
  /** The plugin is called only if the service account has all of these annotations. */
  readonly requiredServiceAccountAnnotationKeys: readonly string[];
  readonly optionalServiceAccountAnnotationKeys: readonly string[];
}

/** The part of a ServiceAccount that a plugin may receive. */
export interface ProviderAccount {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
}

/** The response of a plugin. */
export interface CredentialProviderResponse {
  readonly cacheKeyType: "Image" | "Registry" | "Global";
  /** Undefined means the default of the configuration. */
  readonly cacheDuration: string | undefined;
  readonly auth: Readonly<Record<string, { readonly username: string; readonly password: string }>>;
}

/** Encodes the request that a plugin reads from its standard input. */
export function encodeProviderRequest(
  apiVersion: string,
  request: {
    readonly image: string;
    readonly serviceAccountToken?: string;
    readonly serviceAccountAnnotations?: Readonly<Record<string, string>>;
  },
): string {
  return `${JSON.stringify({ kind: "CredentialProviderRequest", apiVersion, ...request })}\n`;
}

/** Decodes the output of a plugin. Returns a message for an invalid one; the message never quotes the output. */
export function decodeProviderResponse(text: string, apiVersion: string): CredentialProviderResponse | string {
  const value = parseJson(text);
  if (!isObject(value)) return "printed something that is not a JSON object";
  if (value["apiVersion"] !== apiVersion) return `printed something whose apiVersion is not ${apiVersion}`;
  if (value["kind"] !== "CredentialProviderResponse")
    return "printed something that is not a CredentialProviderResponse";
  const unknown = Object.keys(value).some((field) => !FIELDS.has(field));
  if (unknown) return "printed a CredentialProviderResponse with an unknown field";
  const { cacheKeyType, cacheDuration, auth } = value;
  if (cacheKeyType !== "Image" && cacheKeyType !== "Registry" && cacheKeyType !== "Global")
    return "printed a cacheKeyType that is none of Image, Registry, Global";
  if (cacheDuration !== undefined && cacheDuration !== null && typeof cacheDuration !== "string")
    return "printed a cacheDuration that is not a string";
  const credentials = Object.entries(isObject(auth) ? auth : {});
  if (auth !== undefined && auth !== null && !isObject(auth)) return "printed an auth that is not an object";
  if (!credentials.every((entry): entry is [string, Credential] => isCredential(entry[1])))
    return "printed credentials that are not an object of username and password";
  return {
    cacheKeyType,
    cacheDuration: cacheDuration ?? undefined,
    auth: Object.fromEntries(credentials.map(completeCredential)),
  };
}

const FIELDS: ReadonlySet<string> = new Set(["kind", "apiVersion", "cacheKeyType", "cacheDuration", "auth"]);

interface Credential {
  readonly username?: string;
  readonly password?: string;
}

function isCredential(value: unknown): value is Credential {
  if (!isObject(value)) return false;
  return Object.entries(value).every(
    ([field, text]) => ["username", "password"].includes(field) && typeof text === "string",
  );
}

function completeCredential([location, { username = "", password = "" }]: readonly [string, Credential]) {
  return [location, { username, password }] as const;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message would quote secret text.
    return undefined;
  }
}
