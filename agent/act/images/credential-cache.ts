import { createTtlCache } from "../../../host/async/ttl-cache.ts";
import type { Clock } from "../../../host/clock.ts";
import type { CredentialProviderResponse } from "../../../proto/kubelet/credential-provider.ts";
import type { RegistryCredentials } from "../../translate/docker-config-format.ts";

/** The cached responses of one credential provider plugin. In memory only. */
export interface CredentialCache {
  /**
   * Undefined on a miss; a response without credentials is cached too. `serviceAccountCacheKey` names the account or
   * token that a response holds for.
   */
  find(image: string, serviceAccountCacheKey: string): RegistryCredentials | undefined;
  put(
    image: string,
    serviceAccountCacheKey: string,
    scope: CredentialProviderResponse["cacheKeyType"],
    credentials: RegistryCredentials,
    lifetimeMs: number,
  ): void;
}

/** Bounds the memory: images and service accounts come and go while a node runs. */
const MAX_ENTRIES = 1_000;

export function createCredentialCache(clock: Pick<Clock, "now">): CredentialCache {
  const cached = createTtlCache<RegistryCredentials>({ maxEntries: MAX_ENTRIES, clock });
  return {
    find(image, serviceAccountCacheKey) {
      return (["Image", "Registry", "Global"] as const)
        .map((scope) => cached.get(keyOf(image, serviceAccountCacheKey, scope)))
        .find((credentials) => credentials !== undefined);
    },
    put(image, serviceAccountCacheKey, scope, credentials, lifetimeMs) {
      // An earlier response stays valid for its own time.
      if (lifetimeMs > 0) cached.set(keyOf(image, serviceAccountCacheKey, scope), credentials, lifetimeMs);
    },
  };
}

function keyOf(
  image: string,
  serviceAccountCacheKey: string,
  scope: CredentialProviderResponse["cacheKeyType"],
): string {
  const subject = { Image: image, Registry: image.split("/")[0], Global: "" }[scope];
  return JSON.stringify([scope, subject, serviceAccountCacheKey]);
}
