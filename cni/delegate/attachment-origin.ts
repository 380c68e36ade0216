import { type CacheEntry, isOfPod } from "../cache-entry.ts";
import { cachedConfIfUsable } from "../cached-conf.ts";
import { DELEGATE_NETWORK } from "../delegate-network.ts";

/**
 * Who has made an attachment in the cache. `agent`: an agent, or its delegate while the agent was away, for the container runtime.
 * `runtimeViaAgent`: the runtime, which has called the delegate of an agent and caches that call. `runtime`: a container runtime that executes the
 * network. `cnitool`: cnitool or berth cni, by the id that both derive. `other`: another program, or a user who has chosen the id.
 */
export type AttachmentOrigin =
  | { readonly by: "agent" | "runtimeViaAgent"; readonly socket: string }
  | { readonly by: "runtime" | "cnitool" | "other" };

/** The origin of an entry, by itself and by the other entries of its container. */
export function originOf(entry: CacheEntry, entries: readonly CacheEntry[]): AttachmentOrigin {
  // Also of a pod whose other networks an agent executes, the loopback is the runtime's.
  const isLoopback = entry.ifName === "lo";
  // Secondary networks have other interfaces than the delegate's entry.
  const ofDelegate = entries.find(
    ({ network, containerId }) => network === DELEGATE_NETWORK && containerId === entry.containerId,
  );
  const socket = ofDelegate && socketOf(ofDelegate);
  if (socket !== undefined && !isLoopback)
    return { by: entry.network === DELEGATE_NETWORK ? "runtimeViaAgent" : "agent", socket };
  if (isOfPod(entry)) return { by: "runtime" };
  return { by: entry.containerId.startsWith("cnitool-") ? "cnitool" : "other" };
}

function socketOf(entry: CacheEntry): string | undefined {
  const sockets = cachedConfIfUsable(entry)?.plugins.map(({ fields }) => fields["socket"]) ?? [];
  return sockets.find((socket) => typeof socket === "string");
}
