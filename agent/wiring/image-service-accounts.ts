import type { Clock } from "../../host/clock.ts";
import { hasCode, KubeError } from "../../kube/error.ts";
import type { ImagePullServiceAccount } from "../../proto/kubelet/image-records.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import {
  CredentialProviderError,
  type CredentialProviders,
  type ServiceAccountTokens,
} from "../act/images/credential-providers.ts";
import type { PodCredentials } from "../decide/admission/image-verification.ts";
import type { ServiceAccounts } from "../desired/objects/service-accounts.ts";

type AccountCredentials = Pick<PodCredentials, "serviceAccount" | "unreadableServiceAccount">;

const noAccount: AccountCredentials = { serviceAccount: undefined };

/** How long an observation waits for the API server to return a service account: no sync of the pod runs meanwhile. */
const ACCOUNT_TIMEOUT_MS = 1_000;

/**
 * Returns the pod's current service account if the pull records contain one of its name; only then is it worth a
 * request to the API server.
 */
export function createServiceAccountReader(providers: CredentialProviders | undefined, clock: Clock) {
  /** The accounts whose request has timed out: further observations do not wait for it. */
  const timedOut = new Set<string>();

  function ask(
    pod: Pod,
    image: string,
    unread: AccountCredentials,
    credentialProviders: CredentialProviders,
  ): Promise<AccountCredentials> {
    return credentialProviders.accountFor(pod, image).then(
      (serviceAccount) => ({ serviceAccount }),
      (error: unknown) => {
        if (!(error instanceof CredentialProviderError && error.cause instanceof KubeError)) throw error;
        // An account that is deleted or forbidden proves nothing.
        return hasCode(error.cause, "UNREACHABLE", "TIMEOUT", "SERVER") ? unread : noAccount;
      },
    );
  }

  return async (pod: Pod, image: string, recorded: readonly ImagePullServiceAccount[]): Promise<AccountCredentials> => {
    const { namespace = "default" } = pod.metadata;
    const name = pod.spec.serviceAccountName ?? "";
    const isRecorded = recorded.some((account) => account.namespace === namespace && account.name === name);
    if (!isRecorded || providers === undefined) return noAccount;
    const unread: AccountCredentials = { ...noAccount, unreadableServiceAccount: { namespace, name } };
    const key = JSON.stringify([namespace, name]);
    if (timedOut.has(key)) return unread;
    const timeout = Promise.withResolvers<AccountCredentials>();
    const cancel = clock.wakeAt(clock.now() + ACCOUNT_TIMEOUT_MS, () => {
      timedOut.add(key);
      timeout.resolve(unread);
    });
    const answer = ask(pod, image, unread, providers).finally(() => {
      cancel();
      timedOut.delete(key);
    });
    return await Promise.race([answer, timeout.promise]);
  };
}

/** The service accounts for the credential provider plugins; converts `KubeError` to `CredentialProviderError`. */
export function serviceAccountTokensOf({ accountOf, tokenOf }: ServiceAccounts): ServiceAccountTokens {
  const toProviderError = (error: unknown): never => {
    if (!(error instanceof KubeError)) throw error;
    throw new CredentialProviderError("NO_ACCOUNT", error.message, { cause: error });
  };
  return {
    accountOf: (...asked) => accountOf(...asked).catch(toProviderError),
    tokenOf: (...asked) => tokenOf(...asked).catch(toProviderError),
  };
}
