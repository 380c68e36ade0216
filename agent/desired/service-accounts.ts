import type { Clock } from "../../host/clock.ts";
import type { Kube } from "../../kube/client.ts";
import { KubeError } from "../../kube/error.ts";
import { serviceAccounts } from "../../kube/resource.ts";
import type { ProviderAccount, TokenAttributes } from "../../proto/kubelet/credential-provider.ts";
import type { Pod, TokenRequest } from "../../proto/kubernetes/gen/types.ts";
import { parseTime } from "../../proto/kubernetes/time.ts";

/** The service accounts of this node's pods, asked for when somebody needs one. Each rejects with `KubeError`. */
export interface ServiceAccounts {
  /** Undefined where the account lacks an annotation that has to be there. */
  accountOf(pod: Pod, attributes: TokenAttributes): Promise<ProviderAccount | undefined>;
  /** A token of it that is bound to the pod; the same one for most of its lifetime, as by the kubelet. */
  tokenOf(pod: Pod, account: ProviderAccount, audience: string): Promise<string>;
}

export interface ServiceAccountsSettings {
  readonly kube: Pick<Kube, "get" | "requestToken">;
  readonly clock: Pick<Clock, "now">;
}

/** Pods come and go; what was not asked for in the longest time goes first. */
const MOST_KEPT = 1_000;
/** A new one is asked for when so much of the old one's lifetime has passed, and after a day in any case. */
const USED_UP = 0.8;
const LONGEST_MS = 24 * 3_600_000;

export function createServiceAccounts({ kube, clock }: ServiceAccountsSettings): ServiceAccounts {
  const kept = new Map<string, { readonly token: Promise<string>; until: number }>();

  async function request(pod: Pod, account: ProviderAccount, audience: string): Promise<TokenRequest> {
    const { name = "", uid = "" } = pod.metadata;
    return await kube.requestToken(account.namespace, account.name, {
      metadata: { uid: account.uid },
      spec: { audiences: [audience], boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid } },
    });
  }

  function ask(key: string, asked: Promise<TokenRequest>): Promise<string> {
    const since = clock.now();
    const entry = { token: asked.then(tokenIn), until: Number.POSITIVE_INFINITY };
    kept.delete(key);
    kept.set(key, entry);
    const [oldest] = kept.keys();
    if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest);
    const forget = () => {
      if (kept.get(key) === entry) kept.delete(key);
    };
    asked
      .then(({ status }) => {
        entry.until = since + Math.min(LONGEST_MS, (parseTime(status?.expirationTimestamp ?? "") - since) * USED_UP);
      })
      .catch(forget);
    return entry.token;
  }

  return {
    async accountOf(
      { metadata, spec },
      { requiredServiceAccountAnnotationKeys: required, optionalServiceAccountAnnotationKeys: optional },
    ) {
      const { namespace = "default" } = metadata;
      const name = spec.serviceAccountName ?? "";
      const account = await kube.get(serviceAccounts(namespace), name);
      const all = account.metadata.annotations ?? {};
      if (required.some((key) => !Object.hasOwn(all, key))) return undefined;
      const told = [...required, ...optional].flatMap((key) => {
        const value = Object.hasOwn(all, key) ? all[key] : undefined;
        return value === undefined ? [] : [[key, value] as const];
      });
      return { uid: account.metadata.uid ?? "", namespace, name, annotations: Object.fromEntries(told) };
    },
    tokenOf(pod, account, audience) {
      const key = JSON.stringify([account.namespace, account.name, account.uid, audience, pod.metadata.uid]);
      const known = kept.get(key);
      if (known !== undefined && clock.now() < known.until) return known.token;
      return ask(key, request(pod, account, audience));
    },
  };
}

function tokenIn({ status }: TokenRequest): string {
  if (typeof status?.token === "string" && status.token !== "") return status.token;
  throw new KubeError("SERVER", "the API server gave a TokenRequest without a token");
}
