import type { CacheEntry } from "../cache-entry.ts";
import { cachedConfIfUsable } from "../cached-conf.ts";
import { DELEGATE_NETWORK } from "../delegate-network.ts";

/**
 * Whether an entry of the cache is what the runtime keeps of the delegate that has this socket, beside the entry of the chain.
 * Another agent of this machine may have a delegate of its own.
 */
export function isOfDelegate(entry: CacheEntry, socket: string): boolean {
  if (entry.network !== DELEGATE_NETWORK) return false;
  return cachedConfIfUsable(entry)?.plugins.some(({ fields }) => fields["socket"] === socket) === true;
}
