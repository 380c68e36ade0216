import type { CacheEntry } from "../cache-entry.ts";
import { type NetworkConf, parseNetworkConf } from "../conf.ts";
import { CniError } from "../error.ts";
import { DELEGATE_NETWORK } from "./delegate-conf.ts";

/**
 * Whether an entry of the cache is what the runtime keeps of the delegate that has this socket, beside the entry of the chain.
 * Another agent of this machine may have a delegate of its own.
 */
export function isOfDelegate({ network, config }: CacheEntry, socket: string): boolean {
  if (network !== DELEGATE_NETWORK) return false;
  return confOfEntry(config)?.plugins.some(({ fields }) => fields["socket"] === socket) === true;
}

/** The network of an entry; undefined for what another program has written and this one does not accept. */
export function confOfEntry(config: string): NetworkConf | undefined {
  try {
    return parseNetworkConf(config, "the cached configuration");
  } catch (error) {
    if (error instanceof CniError) return undefined;
    throw error;
  }
}
