import { createTtlCache } from "../../../host/async/ttl-cache.ts";
import type { Clock } from "../../../host/clock.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/error.ts";
import { serviceAccounts } from "../../../kube/resource.ts";
import type { ProviderAccount, TokenAttributes } from "../../../proto/kubelet/credential-provider.ts";
import type { Pod, ServiceAccount, TokenRequest } from "../../../proto/kubernetes/gen/types.ts";
import { parseTime } from "../../../proto/kubernetes/values/time.ts";

/**
 * Reads the service accounts of this node's pods, and requests tokens for them, on demand. Both reject with
 * `KubeError`.
 */
export interface ServiceAccounts {
  /** Undefined if the account lacks a required annotation. */
  accountOf(pod: Pod, attributes: TokenAttributes): Promise<ProviderAccount | undefined>;
  /**
   * A token of the account that is bound to the pod. Like the kubelet, returns the same token for most of its lifetime.
   */
  tokenOf(pod: Pod, account: ProviderAccount, audience: string): Promise<string>;
}

export interface ServiceAccountsOptions {
  readonly kube: Pick<KubeClient, "get" | "requestToken">;
  readonly clock: Pick<Clock, "now">;
}

/** Pods change over time: the least recently used entry is dropped first. */
const MAX_CACHED = 1_000;
/** A new token is requested after this fraction of the old one's lifetime, and after a day in any case. */
const REFRESH_AT_FRACTION = 0.8;
const MAX_TOKEN_AGE_MS = 24 * 3_600_000;
/** Accounts rarely change, and each observation of a pod may need one. */
const ACCOUNT_TTL_MS = 30_000;
/** Failures are cached, too, so that not every observation waits for an API server that hangs or fails. */
const FAILURE_TTL_MS = 5_000;
const REQUEST_TIMEOUT_MS = 5_000;

/** Reads each account at most twice a minute, by one request at a time. */
export function createServiceAccounts({ kube, clock }: ServiceAccountsOptions): ServiceAccounts {
  // A request under way is shared until it ends; from then on its response has a lifetime.
  const tokens = createTtlCache<Promise<string>>({ maxEntries: MAX_CACHED, clock });
  const accounts = createTtlCache<Promise<ServiceAccount>>({ maxEntries: MAX_CACHED, clock });

  function getAccount(namespace: string, name: string): Promise<ServiceAccount> {
    const key = JSON.stringify([namespace, name]);
    const fetchAccount = () => {
      const response = kube.get(serviceAccounts(namespace), name, { deadlineMs: REQUEST_TIMEOUT_MS });
      accounts.set(key, response, Number.POSITIVE_INFINITY);
      const expireAfter = (lifetimeMs: number) => () => {
        if (accounts.get(key) === response) accounts.set(key, response, lifetimeMs);
      };
      // The caller receives the failure.
      response.then(expireAfter(ACCOUNT_TTL_MS), expireAfter(FAILURE_TTL_MS));
      return response;
    };
    return accounts.get(key) ?? fetchAccount();
  }

  async function request(pod: Pod, account: ProviderAccount, audience: string): Promise<TokenRequest> {
    const { name = "", uid = "" } = pod.metadata;
    return await kube.requestToken(account.namespace, account.name, {
      metadata: { uid: account.uid },
      spec: { audiences: [audience], boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid } },
    });
  }

  function cacheToken(
    key: string,
    { namespace, name }: ProviderAccount,
    response: Promise<TokenRequest>,
  ): Promise<string> {
    const requestedAt = clock.now();
    const token = response.then(tokenOfResponse);
    tokens.set(key, token, Number.POSITIVE_INFINITY);
    response
      .then((granted) => {
        // A response without a token fails, too.
        tokenOfResponse(granted);
        const lifetimeMs = parseTime(granted.status?.expirationTimestamp ?? "") - requestedAt;
        const refreshAt = requestedAt + Math.min(MAX_TOKEN_AGE_MS, lifetimeMs * REFRESH_AT_FRACTION);
        if (tokens.get(key) === token) tokens.set(key, token, refreshAt - clock.now());
      })
      .catch(() => {
        // The caller receives the failure. The account may have been recreated: read it again.
        if (tokens.get(key) === token) tokens.delete(key);
        accounts.delete(JSON.stringify([namespace, name]));
      });
    return token;
  }

  return {
    async accountOf(
      { metadata, spec },
      { requiredServiceAccountAnnotationKeys: required, optionalServiceAccountAnnotationKeys: optional },
    ) {
      const { namespace = "default" } = metadata;
      const name = spec.serviceAccountName ?? "";
      const { metadata: found } = await getAccount(namespace, name);
      const all = found.annotations ?? {};
      if (required.some((key) => !Object.hasOwn(all, key))) return undefined;
      const annotations = [...required, ...optional].flatMap((key) => {
        const value = Object.hasOwn(all, key) ? all[key] : undefined;
        return value === undefined ? [] : [[key, value] as const];
      });
      return { uid: found.uid ?? "", namespace, name, annotations: Object.fromEntries(annotations) };
    },
    tokenOf(pod, account, audience) {
      const key = JSON.stringify([account.namespace, account.name, account.uid, audience, pod.metadata.uid]);
      return tokens.get(key) ?? cacheToken(key, account, request(pod, account, audience));
    },
  };
}

function tokenOfResponse({ status }: TokenRequest): string {
  if (typeof status?.token === "string" && status.token !== "") return status.token;
  throw new KubeError("SERVER", "the API server returned a TokenRequest without a token");
}
