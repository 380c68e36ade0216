import { createHash } from "node:crypto";
import { join } from "node:path/posix";
import { orAborted } from "../../../host/async/abort.ts";
import { createLogOnChange } from "../../../host/async/log-once.ts";
import type { Clock } from "../../../host/clock.ts";
import { type Exec, ExecError } from "../../../host/exec.ts";
import type { Log } from "../../../host/log/log.ts";
import {
  type CredentialProvider,
  type CredentialProviderResponse,
  decodeProviderResponse,
  encodeProviderRequest,
  type ProviderAccount,
  type TokenAttributes,
} from "../../../proto/kubelet/credential-provider.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { DurationError, parseDurationMs } from "../../../proto/kubernetes/values/duration.ts";
import type { CredentialOwner, RegistryCredential, RegistryCredentials } from "../../translate/docker-config-format.ts";
import { coversRepository, repositoryOf } from "../../translate/registry-credentials.ts";
import { type CredentialCache, createCredentialCache } from "./credential-cache.ts";

/**
 * Reads service accounts and requests their tokens from the API server. Each rejects with `CredentialProviderError` if
 * that fails.
 */
export interface ServiceAccountTokens {
  /** Undefined if the account lacks an annotation that the provider requires. */
  accountOf(pod: Pod, attributes: TokenAttributes): Promise<ProviderAccount | undefined>;
  /** A token of the account, bound to the pod. */
  tokenOf(pod: Pod, account: ProviderAccount, audience: string): Promise<string>;
}

/** The node's image credential provider plugins (`--image-credential-provider-config`). */
export interface CredentialProviders {
  /**
   * The registry credentials for an image. A plugin that fails is logged and returns none. Rejects with the signal's
   * reason.
   */
  getCredentials(pod: Pod, image: string, signal: AbortSignal): Promise<RegistryCredentials>;
  /**
   * The pod's service account, if a plugin returns credentials of it for the image. Rejects with
   * `CredentialProviderError`.
   */
  accountFor(pod: Pod, image: string): Promise<CredentialOwner | undefined>;
}

/**
 * A plugin failed, its response is invalid, or the API server did not return the account or token. Never contains the
 * plugin's stdout.
 */
export class CredentialProviderError extends Error {
  override readonly name = "CredentialProviderError";
  readonly code: "FAILED" | "BAD_ANSWER" | "TOKEN_ECHO" | "NO_ACCOUNT";
  constructor(code: CredentialProviderError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export type CreateCredentialProviders = (accounts: () => ServiceAccountTokens | undefined) => CredentialProviders;

export interface CredentialProvidersOptions {
  readonly providers: readonly CredentialProvider[];
  readonly binDir: string;
  readonly exec: Exec;
  /** The agent's environment, which the plugins inherit. */
  readonly environment: Readonly<Record<string, string>>;
  /** Undefined without a cluster. */
  readonly accounts: () => ServiceAccountTokens | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

const RUN_TIMEOUT_MS = 60_000;
const MAX_STDERR_CHARS = 300;

/**
 * Like the kubelet, runs every plugin that matches the image, in configured order, and caches each response for its
 * scope and duration.
 */
export function createCredentialProviders(options: CredentialProvidersOptions): CredentialProviders {
  const all = options.providers.map((provider) => createProvider(options, provider));
  const matching = (image: string) => all.filter(({ matches }) => matches(image));
  return {
    async getCredentials(pod, image, signal) {
      const repository = repositoryOf(image);
      const found = Promise.all(matching(repository).map(({ getCredentials }) => getCredentials(pod, repository)));
      // The plugins run on after an abort, because other pulls may wait for the same run.
      return (await orAborted(found, signal)).flat();
    },
    async accountFor(pod, image) {
      for (const { accountFor } of matching(repositoryOf(image))) {
        const account = await accountFor(pod);
        if (account !== undefined && account !== "none") return ownerOf(account);
      }
      return undefined;
    },
  };
}

function createProvider(options: CredentialProvidersOptions, provider: CredentialProvider) {
  const { accounts, clock, log } = options;
  const { name, matchImages, tokenAttributes } = provider;
  const cache = createCredentialCache(clock);
  const inFlight = new Map<string, Promise<RegistryCredentials>>();
  const loggedCodes = createLogOnChange();

  /**
   * The account to send to the plugin; `none`: run it without one; undefined: do not run it. Rejects with
   * `CredentialProviderError`.
   */
  async function accountFor(pod: Pod): Promise<ProviderAccount | "none" | undefined> {
    if (tokenAttributes === undefined) return "none";
    if (!pod.spec.serviceAccountName) return tokenAttributes.requireServiceAccount ? undefined : "none";
    return await accounts()?.accountOf(pod, tokenAttributes);
  }

  async function tokenFor(pod: Pod, account: ProviderAccount | "none"): Promise<string | undefined> {
    if (account === "none" || tokenAttributes === undefined) return undefined;
    return await accounts()?.tokenOf(pod, account, tokenAttributes.serviceAccountTokenAudience);
  }

  async function fetchCredentials(pod: Pod, image: string): Promise<RegistryCredentials> {
    const account = await accountFor(pod);
    if (account === undefined) return [];
    const token = await tokenFor(pod, account);
    const serviceAccountCacheKey = serviceAccountCacheKeyOf(account, token, tokenAttributes?.cacheType);
    const known = cache.find(image, serviceAccountCacheKey);
    if (known !== undefined) return known;
    const key = JSON.stringify([image, serviceAccountCacheKey, token && hashOf(token)]);
    const request = { image, account, token, serviceAccountCacheKey };
    const running = inFlight.get(key) ?? runPlugin(provider, { ...options, cache }, request);
    inFlight.set(key, running);
    const credentials = await running.finally(() => inFlight.delete(key));
    loggedCodes.clear();
    return credentials;
  }

  /** The pull continues with the other credentials. A repeated failure is logged at debug level. */
  function logFailure(image: string, error: unknown): RegistryCredentials {
    if (!(error instanceof CredentialProviderError)) throw error;
    const { code, message: why } = error;
    log[loggedCodes.shouldLog(code) ? "warn" : "debug"](
      { provider: name, image, why },
      "a credential provider returned no credentials for an image; continuing without it",
    );
    return [];
  }

  return {
    matches: (repository: string) => matchImages.some((pattern) => coversRepository(repository, pattern)),
    accountFor,
    getCredentials: (pod: Pod, image: string) =>
      fetchCredentials(pod, image).catch((error: unknown) => logFailure(image, error)),
  };
}

function ownerOf({ uid, namespace, name }: ProviderAccount): CredentialOwner {
  return { kind: "serviceAccount", uid, namespace, name };
}

/** The part of the cache key that names the account or token; `""`: the response holds for all pods. */
function serviceAccountCacheKeyOf(
  account: ProviderAccount | "none",
  token: string | undefined,
  cacheType: "ServiceAccount" | "Token" | undefined,
): string {
  if (account === "none") return "";
  const { namespace, name, uid, annotations } = account;
  const tokenHash = cacheType === "Token" && token !== undefined ? hashOf(token) : "";
  const sorted = Object.entries(annotations).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return JSON.stringify([namespace, name, uid, sorted, tokenHash]);
}

const hashOf = (token: string) => createHash("sha256").update(token).digest("hex");

interface PluginRequest {
  readonly image: string;
  readonly account: ProviderAccount | "none";
  readonly token: string | undefined;
  readonly serviceAccountCacheKey: string;
}

async function runPlugin(
  provider: CredentialProvider,
  {
    binDir,
    exec,
    environment,
    cache,
  }: Pick<CredentialProvidersOptions, "binDir" | "exec" | "environment"> & { readonly cache: CredentialCache },
  { image, account, token, serviceAccountCacheKey }: PluginRequest,
): Promise<RegistryCredentials> {
  const { name, apiVersion, args, env } = provider;
  const annotations =
    account === "none" || Object.keys(account.annotations).length === 0
      ? {}
      : { serviceAccountAnnotations: account.annotations };
  const request = { image, ...(token !== undefined && { serviceAccountToken: token }), ...annotations };
  const stdin = encodeProviderRequest(apiVersion, request);
  const options = { stdin, env: { ...environment, ...env }, timeoutMs: RUN_TIMEOUT_MS };
  const { stdout } = await exec.run([join(binDir, name), ...args], options).catch((error: unknown) => {
    throw error instanceof ExecError ? toProviderError(error) : error;
  });
  const response = decodeProviderResponse(stdout, apiVersion);
  if (typeof response === "string") throw new CredentialProviderError("BAD_ANSWER", `it ${response}`);
  const isEcho = Object.values(response.auth).some(({ password }) => token !== undefined && password === token);
  if (isEcho && provider.tokenAttributes?.cacheType !== "Token")
    throw new CredentialProviderError(
      "TOKEN_ECHO",
      "it returned the service account token as a password, which requires cacheType Token",
    );
  const owner = account === "none" ? {} : { owner: ownerOf(account) };
  const credentials = Object.entries(response.auth).map(
    ([location, credential]): readonly [string, RegistryCredential] => [location, { ...credential, ...owner }],
  );
  cache.put(image, serviceAccountCacheKey, response.cacheKeyType, credentials, lifetimeOf(response, provider));
  return credentials;
}

function lifetimeOf(
  { cacheDuration }: CredentialProviderResponse,
  { defaultCacheDurationMs }: CredentialProvider,
): number {
  if (cacheDuration === undefined) return defaultCacheDurationMs;
  try {
    return parseDurationMs(cacheDuration);
  } catch (error) {
    if (!(error instanceof DurationError)) throw error;
    throw new CredentialProviderError("BAD_ANSWER", "it printed a cacheDuration that is not a duration such as 10m");
  }
}

/** Reports the plugin's stderr, which is meant for people. Its stdout may hold secrets and is never reported. */
function toProviderError({ exitCode, stderr, message }: ExecError): CredentialProviderError {
  const excerpt = stderr.trim().slice(0, MAX_STDERR_CHARS);
  const why = exitCode === undefined || exitCode === 0 ? message : `it exited with code ${exitCode}`;
  // Not attached as `cause`: the ExecError holds the arguments, which may contain secrets.
  return new CredentialProviderError("FAILED", excerpt === "" ? why : `${why}: ${excerpt}`);
}
