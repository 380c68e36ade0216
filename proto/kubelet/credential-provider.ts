/*
 * The words between the kubelet and the programs that give it logins for registries, and of the file that names them.
 */

export const providerApiVersions = [
  "credentialprovider.kubelet.k8s.io/v1",
  "credentialprovider.kubelet.k8s.io/v1beta1",
  "credentialprovider.kubelet.k8s.io/v1alpha1",
] as const;

/** One program of a CredentialProviderConfig. */
export interface CredentialProvider {
  /** The name of its file in the folder of all of them. */
  readonly name: string;
  /** For which images it is asked: registries with `*` and its like in the parts of their names, and a path or none. */
  readonly matchImages: readonly string[];
  readonly defaultCacheDurationMs: number;
  readonly apiVersion: (typeof providerApiVersions)[number];
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** It is given a token of the pod's service account. */
  readonly tokenAttributes?: TokenAttributes;
}

export interface TokenAttributes {
  readonly serviceAccountTokenAudience: string;
  /** How widely its answer holds: for the pod's token, or for all pods of the account. */
  readonly cacheType: "ServiceAccount" | "Token";
  /** It is not asked for pods without an account. */
  readonly requireServiceAccount: boolean;
  /** Without one of these annotations of the account it is not asked. */
  readonly requiredServiceAccountAnnotationKeys: readonly string[];
  readonly optionalServiceAccountAnnotationKeys: readonly string[];
}

/** A service account, as much of it as a provider is told. */
export interface ProviderAccount {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
}

/** What a provider has answered. */
export interface CredentialProviderResponse {
  readonly cacheKeyType: "Image" | "Registry" | "Global";
  /** Undefined: as the configuration has it. */
  readonly cacheDuration: string | undefined;
  readonly auth: Readonly<Record<string, { readonly username: string; readonly password: string }>>;
}

/** What a provider reads on its standard input. */
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

/** What it has printed; a text that says what is wrong with that where it is no such answer, without a word of it. */
export function decodeProviderResponse(text: string, apiVersion: string): CredentialProviderResponse | string {
  const value = parse(text);
  if (!isObject(value)) return "printed something that is not a JSON object";
  if (value["apiVersion"] !== apiVersion) return `printed something whose apiVersion is not ${apiVersion}`;
  if (value["kind"] !== "CredentialProviderResponse") return "printed something that is no CredentialProviderResponse";
  const unknown = Object.keys(value).some((field) => !FIELDS.has(field));
  if (unknown) return "printed a CredentialProviderResponse with a field that nobody knows";
  const { cacheKeyType, cacheDuration, auth } = value;
  if (cacheKeyType !== "Image" && cacheKeyType !== "Registry" && cacheKeyType !== "Global")
    return "printed a cacheKeyType that is none of Image, Registry, Global";
  if (cacheDuration !== undefined && cacheDuration !== null && typeof cacheDuration !== "string")
    return "printed a cacheDuration that is no text";
  const logins = Object.entries(isObject(auth) ? auth : {});
  if (auth !== undefined && auth !== null && !isObject(auth)) return "printed an auth that is no object";
  if (!logins.every((entry): entry is [string, Login] => isLogin(entry[1])))
    return "printed a login that has something else than a username and a password";
  return { cacheKeyType, cacheDuration: cacheDuration ?? undefined, auth: Object.fromEntries(logins.map(wholeLogin)) };
}

const FIELDS: ReadonlySet<string> = new Set(["kind", "apiVersion", "cacheKeyType", "cacheDuration", "auth"]);

interface Login {
  readonly username?: string;
  readonly password?: string;
}

function isLogin(value: unknown): value is Login {
  if (!isObject(value)) return false;
  return Object.entries(value).every(
    ([field, text]) => ["username", "password"].includes(field) && typeof text === "string",
  );
}

function wholeLogin([location, { username = "", password = "" }]: readonly [string, Login]) {
  return [location, { username, password }] as const;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Its words would show what stands in the text.
    return undefined;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
