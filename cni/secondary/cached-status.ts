import type { CacheEntry } from "../cache-entry.ts";
import { cachedConfIfUsable, undefinedForCniError } from "../cached-conf.ts";
import { parseResult } from "../result.ts";
import type { ResultCache } from "../result-cache.ts";
import { formatNetworkStatus, type NetworkStatus, networkStatusOf } from "./network-status.ts";
import { secondaryNetworksOf } from "./secondary-network.ts";

/**
 * The value of the annotation `k8s.v1.cni.cncf.io/network-status` for the pod with this uid, from the results of ADD in the cache.
 * Undefined for a pod without secondary networks, and until the cache has the results of all of them. Of several sandboxes the
 * newest one counts. Rejects as `ResultCache`.
 */
export async function readCachedStatus(
  cache: Pick<ResultCache, "list" | "read" | "addedAt">,
  uid: string,
): Promise<string | undefined> {
  const { entries } = await cache.list();
  const own = entries.filter((entry) => entry.args.get("K8S_POD_UID") === uid && secondaryNetworksOf(entry).length > 0);
  const added = await Promise.all(own.map(async (entry) => ({ entry, addedAt: (await cache.addedAt(entry)) ?? 0 })));
  const latest = added.toSorted((a, b) => b.addedAt - a.addedAt)[0]?.entry;
  if (latest === undefined) return undefined;
  const statuses = [statusOf(latest.network, latest, true)];
  for (const { name, conf, ifName } of secondaryNetworksOf(latest)) {
    const entry = await cache.read({ network: conf.name, containerId: latest.containerId, ifName });
    statuses.push(entry && statusOf(name, entry, false));
  }
  const known = statuses.flatMap((status) => status ?? []);
  return known.length === statuses.length ? formatNetworkStatus(known) : undefined;
}

function statusOf(name: string, entry: CacheEntry, isDefault: boolean): NetworkStatus | undefined {
  const conf = cachedConfIfUsable(entry);
  const result = conf && undefinedForCniError(() => parseResult(entry.result, conf.cniVersion));
  return result && networkStatusOf(name, result, isDefault);
}
