import type { Clock } from "../../../host/clock.ts";
import { createBoundedMap } from "../../../host/lru-map.ts";
import type { Kube } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/error.ts";
import { serviceAccounts } from "../../../kube/resource.ts";
import type { ProviderAccount, TokenAttributes } from "../../../proto/kubelet/credential-provider.ts";
import type { Pod, ServiceAccount, TokenRequest } from "../../../proto/kubernetes/gen/types.ts";
import { parseTime } from "../../../proto/kubernetes/time.ts";

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
/** An account changes seldom, and each look at a pod may ask for it. */
const ACCOUNT_MS = 30_000;
/** An API server that hangs, and one that fails, is not waited for by each look. */
const FAILURE_MS = 5_000;
const ANSWER_WITHIN_MS = 5_000;

/** What was asked for, from when until when it holds. */
interface Answer<T> {
  readonly asked: Promise<T>;
  readonly since: number;
  until: number;
}

/** Asks `kube`; an account is asked for twice a minute at most, by one request. */
export function createServiceAccounts({ kube, clock }: ServiceAccountsSettings): ServiceAccounts {
  const tokens = createBoundedMap<Answer<string>>(MOST_KEPT);
  const known = createBoundedMap<Answer<ServiceAccount>>(MOST_KEPT);

  /** A clock that was set back makes nothing hold for longer. */
  function good<T>(answer: Answer<T> | undefined): Promise<T> | undefined {
    const now = clock.now();
    return answer !== undefined && answer.since <= now && now < answer.until ? answer.asked : undefined;
  }

  function account(namespace: string, name: string): Promise<ServiceAccount> {
    const key = JSON.stringify([namespace, name]);
    const since = clock.now();
    const ask = () => {
      const asked = kube.get(serviceAccounts(namespace), name, { deadlineMs: ANSWER_WITHIN_MS });
      const answer: Answer<ServiceAccount> = { asked, since, until: Number.POSITIVE_INFINITY };
      known.set(key, answer);
      const holdsFor = (lifetimeMs: number) => () => {
        answer.until = clock.now() + lifetimeMs;
      };
      // Whoever has asked for it hears of a failure.
      asked.then(holdsFor(ACCOUNT_MS), holdsFor(FAILURE_MS));
      return asked;
    };
    return good(known.get(key)) ?? ask();
  }

  async function request(pod: Pod, account: ProviderAccount, audience: string): Promise<TokenRequest> {
    const { name = "", uid = "" } = pod.metadata;
    return await kube.requestToken(account.namespace, account.name, {
      metadata: { uid: account.uid },
      spec: { audiences: [audience], boundObjectRef: { apiVersion: "v1", kind: "Pod", name, uid } },
    });
  }

  function ask(key: string, { namespace, name }: ProviderAccount, asked: Promise<TokenRequest>): Promise<string> {
    const since = clock.now();
    const answer: Answer<string> = { asked: asked.then(tokenIn), since, until: Number.POSITIVE_INFINITY };
    tokens.set(key, answer);
    asked
      .then(({ status }) => {
        answer.until = since + Math.min(LONGEST_MS, (parseTime(status?.expirationTimestamp ?? "") - since) * USED_UP);
      })
      .catch(() => {
        // Whoever has asked for it hears of it. The account may be another one by now.
        if (tokens.get(key) === answer) tokens.delete(key);
        known.delete(JSON.stringify([namespace, name]));
      });
    return answer.asked;
  }

  return {
    async accountOf(
      { metadata, spec },
      { requiredServiceAccountAnnotationKeys: required, optionalServiceAccountAnnotationKeys: optional },
    ) {
      const { namespace = "default" } = metadata;
      const name = spec.serviceAccountName ?? "";
      const { metadata: found } = await account(namespace, name);
      const all = found.annotations ?? {};
      if (required.some((key) => !Object.hasOwn(all, key))) return undefined;
      const told = [...required, ...optional].flatMap((key) => {
        const value = Object.hasOwn(all, key) ? all[key] : undefined;
        return value === undefined ? [] : [[key, value] as const];
      });
      return { uid: found.uid ?? "", namespace, name, annotations: Object.fromEntries(told) };
    },
    tokenOf(pod, account, audience) {
      const key = JSON.stringify([account.namespace, account.name, account.uid, audience, pod.metadata.uid]);
      return good(tokens.get(key)) ?? ask(key, account, request(pod, account, audience));
    },
  };
}

function tokenIn({ status }: TokenRequest): string {
  if (typeof status?.token === "string" && status.token !== "") return status.token;
  throw new KubeError("SERVER", "the API server gave a TokenRequest without a token");
}
