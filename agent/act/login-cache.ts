import type { Clock } from "../../host/clock.ts";
import type { CredentialProviderResponse } from "../../proto/kubelet/credential-provider.ts";
import type { RegistryLogins } from "../translate/registry-logins.ts";

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

export function createLoginCache(clock: Pick<Clock, "now">): LoginCache {
  const kept = new Map<string, { readonly logins: RegistryLogins; readonly until: number; readonly since: number }>();

  /** A clock that was set back makes nothing hold for longer. */
  function isGood({ until, since }: { readonly until: number; readonly since: number }): boolean {
    const now = clock.now();
    return since <= now && now <= until;
  }

  function makeRoom(): void {
    for (const [key, entry] of kept) if (!isGood(entry)) kept.delete(key);
    const [oldest] = kept.keys();
    if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest);
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
      const key = keyOf(image, holder, scope);
      kept.delete(key);
      kept.set(key, { logins, since, until: since + lifetimeMs });
      makeRoom();
    },
  };
}

function keyOf(image: string, holder: string, scope: CredentialProviderResponse["cacheKeyType"]): string {
  const about = { Image: image, Registry: image.split("/")[0], Global: "" }[scope];
  return JSON.stringify([scope, about, holder]);
}
