import type { Clock } from "../../../host/clock.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/error.ts";
import type { RequestOptions } from "../../../kube/request-options.ts";
import { DEFAULT_EXPIRATION_SECONDS } from "../../../proto/kubernetes/token-references.ts";
import { parseTime, TimeError } from "../../../proto/kubernetes/values/time.ts";
import type { TokenValidity } from "../../decide/volumes/token-refresh.ts";

/** What a token is asked for. It is bound to the pod: it is no longer valid once the pod is deleted. */
export interface TokenRequestInput {
  readonly namespace: string;
  readonly serviceAccount: string;
  /** CONFLICT if the account has another uid; any account of the name if left out. */
  readonly accountUid?: string;
  readonly podName: string;
  readonly podUid: string;
  /** Empty: the API server's own. */
  readonly audience: string;
  /** The API server's default if left out. */
  readonly expirationSeconds?: number;
}

export interface GrantedToken extends TokenValidity {
  readonly token: string;
}

/** Requests a token of a service account. Rejects with `KubeError`, also if the response contains no token. */
export async function requestToken(
  { kube, clock }: { readonly kube: Pick<KubeClient, "requestToken">; readonly clock: Pick<Clock, "now"> },
  input: TokenRequestInput,
  options?: RequestOptions,
): Promise<GrantedToken> {
  const { namespace, serviceAccount, accountUid, podName, podUid, audience, expirationSeconds } = input;
  const requestedAt = clock.now();
  const body = {
    metadata: { ...(accountUid !== undefined && { uid: accountUid }) },
    spec: {
      audiences: audience === "" ? [] : [audience],
      boundObjectRef: { apiVersion: "v1", kind: "Pod", name: podName, uid: podUid },
      ...(expirationSeconds !== undefined && { expirationSeconds }),
    },
  };
  const { spec, status } = await kube.requestToken(namespace, serviceAccount, body, options);
  const { token, expirationTimestamp } = status ?? {};
  if (typeof token !== "string" || token === "")
    throw new KubeError("SERVER", "the API server returned a TokenRequest without a token");
  return {
    token,
    requestedAt,
    expirationTimestamp: parseOrUndefined(expirationTimestamp),
    expirationSeconds: spec?.expirationSeconds ?? expirationSeconds ?? DEFAULT_EXPIRATION_SECONDS,
  };
}

function parseOrUndefined(time: unknown): number | undefined {
  try {
    return typeof time === "string" ? parseTime(time) : undefined;
  } catch (error) {
    if (!(error instanceof TimeError)) throw error;
    return undefined;
  }
}
