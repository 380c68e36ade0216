import { createTtlCache } from "../../../host/async/ttl-cache.ts";
import type { Clock } from "../../../host/clock.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { serviceAccounts } from "../../../kube/resource.ts";
import type { ProviderAccount, TokenAttributes } from "../../../proto/kubelet/credential-provider.ts";
import type { Pod, ServiceAccount } from "../../../proto/kubernetes/gen/types.ts";
import { tokenRefreshAt } from "../../decide/volumes/token-refresh.ts";
import { type GrantedToken, requestToken } from "./token-request.ts";

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

  function cacheToken(
    key: string,
    { namespace, name }: ProviderAccount,
    response: Promise<GrantedToken>,
  ): Promise<string> {
    const token = response.then((granted) => granted.token);
    tokens.set(key, token, Number.POSITIVE_INFINITY);
    response.then(
      (granted) => {
        // Requests are sent on demand, so they need no jitter.
        if (tokens.get(key) === token) tokens.set(key, token, tokenRefreshAt(granted, 0) - clock.now());
      },
      () => {
        // The caller receives the failure. The account may have been recreated: read it again.
        if (tokens.get(key) === token) tokens.delete(key);
        accounts.delete(JSON.stringify([namespace, name]));
      },
    );
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
      const { name = "", uid = "" } = pod.metadata;
      const key = JSON.stringify([account.namespace, account.name, account.uid, audience, uid]);
      const request = () => {
        const { namespace, name: serviceAccount, uid: accountUid } = account;
        const input = { namespace, serviceAccount, accountUid, podName: name, podUid: uid, audience };
        return cacheToken(key, account, requestToken({ kube, clock }, input));
      };
      return tokens.get(key) ?? request();
    },
  };
}
