import type { Clock } from "../../../host/clock.ts";
import { createBoundedMap } from "../../../host/lru-map.ts";
import type { CredentialProviderResponse } from "../../../proto/kubelet/credential-provider.ts";
import type { RegistryLogins } from "../../translate/registry-credentials.ts";

/** What one provider has answered, for as long as that holds. In memory alone. */
export interface LoginCache {
  /** Undefined where it has to be asked; an answer without logins is one too. `holder` is for whom an answer holds. */
  find(image: string, holder: string): RegistryLogins | undefined;
  keep(
    image: string,
    holder: string,
    scope: CredentialProviderResponse["cacheKeyType"],
    logins: RegistryLogins,
    lifetimeMs: number,
  ): void;
}

/** Images and service accounts come and go for as long as a node runs. */
const MOST_KEPT = 1_000;

interface Kept {
  readonly logins: RegistryLogins;
  readonly until: number;
  readonly since: number;
}

/** Of so many answers at most; what does not hold any more, by `clock`, is not kept either. */
export function createLoginCache(clock: Pick<Clock, "now">): LoginCache {
  const kept = createBoundedMap<Kept>(MOST_KEPT);

  /** A clock that was set back makes nothing hold for longer. */
  function isGood({ until, since }: Kept): boolean {
    const now = clock.now();
    return since <= now && now <= until;
  }

  return {
    find(image, holder) {
      const found = (["Image", "Registry", "Global"] as const)
        .map((scope) => kept.get(keyOf(image, holder, scope)))
        .find((entry) => entry !== undefined && isGood(entry));
      return found?.logins;
    },
    keep(image, holder, scope, logins, lifetimeMs) {
      if (lifetimeMs <= 0) return;
      const since = clock.now();
      for (const [key, entry] of kept.entries()) if (!isGood(entry)) kept.delete(key);
      kept.set(keyOf(image, holder, scope), { logins, since, until: since + lifetimeMs });
    },
  };
}

function keyOf(image: string, holder: string, scope: CredentialProviderResponse["cacheKeyType"]): string {
  const about = { Image: image, Registry: image.split("/")[0], Global: "" }[scope];
  return JSON.stringify([scope, about, holder]);
}
