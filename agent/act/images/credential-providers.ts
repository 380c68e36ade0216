import { createHash } from "node:crypto";
import { join } from "node:path/posix";
import type { Clock } from "../../../host/clock.ts";
import { type Exec, ExecError } from "../../../host/exec.ts";
import type { Log } from "../../../host/log.ts";
import {
  type CredentialProvider,
  type CredentialProviderResponse,
  decodeProviderResponse,
  encodeProviderRequest,
  type ProviderAccount,
  type TokenAttributes,
} from "../../../proto/kubelet/credential-provider.ts";
import { DurationError, parseDurationMs } from "../../../proto/kubernetes/duration.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import {
  isWithin,
  type LoginOwner,
  type RegistryLogin,
  type RegistryLogins,
  repositoryOf,
} from "../../translate/registry-credentials.ts";
import { createLoginCache, type LoginCache } from "./credential-cache.ts";

/** The service accounts of pods, as the API server has them. Each rejects with `CredentialProviderError` where that does not tell. */
export interface PodAccounts {
  /** Undefined where the account lacks an annotation that has to be there. */
  accountOf(pod: Pod, attributes: TokenAttributes): Promise<ProviderAccount | undefined>;
  /** A token of it that is bound to the pod. */
  tokenOf(pod: Pod, account: ProviderAccount, audience: string): Promise<string>;
}

/** The programs of this node that give it logins for registries. */
export interface CredentialProviders {
  /** Those that they have for an image; a program that fails is said, and has none. Rejects with the signal's reason. */
  loginsFor(pod: Pod, image: string, signal: AbortSignal): Promise<RegistryLogins>;
  /** The pod's service account, where a provider gives it logins for the image. Rejects with `CredentialProviderError`. */
  accountFor(pod: Pod, image: string): Promise<LoginOwner | undefined>;
}

/** Why a provider gives no login: a program that fails, an answer that cannot be used, an API server that says nothing. No output is part of it. */
export class CredentialProviderError extends Error {
  override readonly name = "CredentialProviderError";
  readonly code: "FAILED" | "BAD_ANSWER" | "TOKEN_ECHO" | "NO_ACCOUNT";
  constructor(code: CredentialProviderError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export type MakeProviders = (accounts: () => PodAccounts | undefined) => CredentialProviders;

export interface CredentialProvidersSettings {
  readonly providers: readonly CredentialProvider[];
  readonly binDir: string;
  readonly exec: Exec;
  /** Ours, which the programs inherit. */
  readonly environment: Readonly<Record<string, string>>;
  /** Undefined where no cluster can be asked. */
  readonly accounts: () => PodAccounts | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

const RUN_WITHIN_MS = 60_000;
const LONGEST_COMPLAINT = 300;

/** As the kubelet asks them: all that match, in their order; what one has answered is kept for as long, and for as much, as it says. */
export function createCredentialProviders(settings: CredentialProvidersSettings): CredentialProviders {
  const all = settings.providers.map((provider) => createProvider(settings, provider));
  const asked = (image: string) => all.filter(({ matches }) => matches(image));
  return {
    async loginsFor(pod, image, signal) {
      const repository = repositoryOf(image);
      const found = Promise.all(asked(repository).map(({ loginsFor }) => loginsFor(pod, repository)));
      return (await orGivenUp(found, signal)).flat();
    },
    async accountFor(pod, image) {
      for (const { accountFor } of asked(repositoryOf(image))) {
        const account = await accountFor(pod);
        if (account !== undefined && account !== "none") return ownerOf(account);
      }
      return undefined;
    },
  };
}

/** What is found is for others too: whoever gives up ends nothing. */
async function orGivenUp<T>(found: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const giveUp = () => reject(signal.reason);
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await Promise.race([found, promise]);
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

function createProvider(settings: CredentialProvidersSettings, provider: CredentialProvider) {
  const { accounts, clock, log } = settings;
  const { name, matchImages, tokenAttributes } = provider;
  const cache = createLoginCache(clock);
  const inFlight = new Map<string, Promise<RegistryLogins>>();
  /** What was complained of since it has last answered. */
  let told: string | undefined;

  /** The account that the program is told of; `none`: it is asked without; undefined: it is not asked. Rejects with `CredentialProviderError`. */
  async function accountFor(pod: Pod): Promise<ProviderAccount | "none" | undefined> {
    if (tokenAttributes === undefined) return "none";
    if (!pod.spec.serviceAccountName) return tokenAttributes.requireServiceAccount ? undefined : "none";
    return await accounts()?.accountOf(pod, tokenAttributes);
  }

  async function tokenFor(pod: Pod, account: ProviderAccount | "none"): Promise<string | undefined> {
    if (account === "none" || tokenAttributes === undefined) return undefined;
    return await accounts()?.tokenOf(pod, account, tokenAttributes.serviceAccountTokenAudience);
  }

  async function ask(pod: Pod, image: string): Promise<RegistryLogins> {
    const account = await accountFor(pod);
    if (account === undefined) return [];
    const token = await tokenFor(pod, account);
    const holder = holderOf(account, token, tokenAttributes?.cacheType);
    const known = cache.find(image, holder);
    if (known !== undefined) return known;
    const key = JSON.stringify([image, holder, token && hashOf(token)]);
    const running = inFlight.get(key) ?? run(provider, { ...settings, cache }, { image, account, token, holder });
    inFlight.set(key, running);
    const logins = await running.finally(() => inFlight.delete(key));
    told = undefined;
    return logins;
  }

  /** The pull goes on with what others have; the same complaint is not made for each pod. */
  function complain(image: string, error: unknown): RegistryLogins {
    if (!(error instanceof CredentialProviderError)) throw error;
    const { code, message: why } = error;
    log[told === code ? "debug" : "warn"](
      { provider: name, image, why },
      "a credential provider gives no login for an image; going on without it",
    );
    told = code;
    return [];
  }

  return {
    matches: (repository: string) => matchImages.some((place) => isWithin(repository, place)),
    accountFor,
    loginsFor: (pod: Pod, image: string) => ask(pod, image).catch((error: unknown) => complain(image, error)),
  };
}

function ownerOf({ uid, namespace, name }: ProviderAccount): LoginOwner {
  return { kind: "serviceAccount", uid, namespace, name };
}

/** For whom an answer holds; `""`: for all pods. */
function holderOf(
  account: ProviderAccount | "none",
  token: string | undefined,
  cacheType: "ServiceAccount" | "Token" | undefined,
): string {
  if (account === "none") return "";
  const { namespace, name, uid, annotations } = account;
  const ofToken = cacheType === "Token" && token !== undefined ? hashOf(token) : "";
  const sorted = Object.entries(annotations).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return JSON.stringify([namespace, name, uid, sorted, ofToken]);
}

const hashOf = (token: string) => createHash("sha256").update(token).digest("hex");

interface Asked {
  readonly image: string;
  readonly account: ProviderAccount | "none";
  readonly token: string | undefined;
  readonly holder: string;
}

async function run(
  provider: CredentialProvider,
  {
    binDir,
    exec,
    environment,
    cache,
  }: Pick<CredentialProvidersSettings, "binDir" | "exec" | "environment"> & { readonly cache: LoginCache },
  { image, account, token, holder }: Asked,
): Promise<RegistryLogins> {
  const { name, apiVersion, args, env } = provider;
  const annotations =
    account === "none" || Object.keys(account.annotations).length === 0
      ? {}
      : { serviceAccountAnnotations: account.annotations };
  const request = { image, ...(token !== undefined && { serviceAccountToken: token }), ...annotations };
  const stdin = encodeProviderRequest(apiVersion, request);
  const options = { stdin, env: { ...environment, ...env }, timeoutMs: RUN_WITHIN_MS };
  const { stdout } = await exec.run([join(binDir, name), ...args], options).catch((error: unknown) => {
    throw error instanceof ExecError ? failed(error) : error;
  });
  const response = decodeProviderResponse(stdout, apiVersion);
  if (typeof response === "string") throw new CredentialProviderError("BAD_ANSWER", `it ${response}`);
  const isEcho = Object.values(response.auth).some(({ password }) => token !== undefined && password === token);
  if (isEcho && provider.tokenAttributes?.cacheType !== "Token")
    throw new CredentialProviderError(
      "TOKEN_ECHO",
      "it gave the service account's token as a password, for which cacheType has to be Token",
    );
  const owner = account === "none" ? {} : { owner: ownerOf(account) };
  const logins = Object.entries(response.auth).map(([location, login]): readonly [string, RegistryLogin] => [
    location,
    { ...login, ...owner },
  ]);
  cache.keep(image, holder, response.cacheKeyType, logins, lifetimeOf(response, provider));
  return logins;
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
    throw new CredentialProviderError("BAD_ANSWER", "it printed a cacheDuration that is no duration such as 10m");
  }
}

/** What the program says on stderr is meant for people; what it printed on stdout may be a secret, and is not looked at. */
function failed({ exitCode, stderr, message }: ExecError): CredentialProviderError {
  const complaint = stderr.trim().slice(0, LONGEST_COMPLAINT);
  const why = exitCode === undefined || exitCode === 0 ? message : `it ended with code ${exitCode}`;
  // The error itself holds the arguments, which may hold secrets.
  return new CredentialProviderError("FAILED", complaint === "" ? why : `${why}: ${complaint}`);
}
