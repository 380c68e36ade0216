import type { Pod, ServiceAccountTokenProjection, Volume } from "./gen/types.ts";

/** A service account token that a projected volume of the pod asks for. It is bound to the pod. */
export interface TokenReference {
  readonly namespace: string;
  readonly serviceAccount: string;
  readonly podName: string;
  readonly podUid: string;
  /** Empty: the API server's own. */
  readonly audience: string;
  readonly expirationSeconds: number;
}

export interface IssuedToken {
  readonly token: string;
  /** Changes with each new token. */
  readonly version: string;
  /** In epoch milliseconds, by this node's clock. */
  readonly expiresAt: number;
}

/** What the agent knows of a token. Its text never reaches a log, an error or a record that others can read. */
export type KnownToken =
  | IssuedToken
  | {
      /** Why there is no token. */
      readonly failure: string;
      /** The API server has not answered. */
      readonly isOutage?: true;
    };

/** The API server's default for `expirationSeconds`. */
export const DEFAULT_EXPIRATION_SECONDS = 3_600;

export function tokenReferenceOf(
  { metadata, spec }: Pod,
  { audience = "", expirationSeconds = DEFAULT_EXPIRATION_SECONDS }: ServiceAccountTokenProjection,
): TokenReference {
  const { namespace = "default", name = "", uid = "" } = metadata;
  const serviceAccount = spec.serviceAccountName || "default";
  return { namespace, serviceAccount, podName: name, podUid: uid, audience, expirationSeconds };
}

/**
 * For example `token shop/robot for web …`: equal for two references to the same token, and never a `referenceKey`.
 */
export function tokenKey({
  namespace,
  serviceAccount,
  podName,
  podUid,
  audience,
  expirationSeconds,
}: TokenReference): string {
  // An audience may contain any character.
  return `token ${namespace}/${serviceAccount} for ${podName} ${podUid} ${expirationSeconds} s ${JSON.stringify(audience)}`;
}

/** The tokens of one volume, in the order of its sources. */
export function volumeTokenReferences(pod: Pod, { projected }: Volume): readonly TokenReference[] {
  return (projected?.sources ?? []).flatMap(({ serviceAccountToken }) =>
    serviceAccountToken === undefined ? [] : [tokenReferenceOf(pod, serviceAccountToken)],
  );
}

/** The tokens of all projected volumes of the pod by {@link tokenKey}, each once. */
export function tokenReferencesOf(pod: Pod): ReadonlyMap<string, TokenReference> {
  const references = (pod.spec.volumes ?? []).flatMap((volume) => volumeTokenReferences(pod, volume));
  return new Map(references.map((each) => [tokenKey(each), each]));
}
