import type { CacheEntry } from "./cache-entry.ts";
import { type NetworkConf, parseNetworkConf } from "./conf.ts";
import { CniError } from "./error.ts";

/**
 * The configuration of ADD in an entry of the cache.
 *
 * @throws CniError as `parseNetworkConf`, for one that another program has written and this code does not accept
 */
export function parseCachedConf({ config }: Pick<CacheEntry, "config">): NetworkConf {
  return parseNetworkConf(config, "the cached configuration");
}

/** As `parseCachedConf`; undefined for a configuration that this code does not accept. */
export function cachedConfIfUsable(entry: Pick<CacheEntry, "config">): NetworkConf | undefined {
  return undefinedForCniError(() => parseCachedConf(entry));
}

/** What `read` returns; undefined if it throws a `CniError`. Throws any other error of it. */
export function undefinedForCniError<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    return undefined;
  }
}
