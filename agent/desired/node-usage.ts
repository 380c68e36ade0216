import type { PodUid } from "../../proto/ids.ts";
import {
  ANY_ADDRESS,
  countsOnNode,
  type NodeUsage,
  type PodDemand,
  podDemandOf,
} from "../decide/admission/node-usage.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import type { PodAllocation } from "../decide/resize/allocation.ts";

interface KnownDemand {
  readonly version: string;
  readonly allocated: PodAllocation["allocated"] | undefined;
  readonly demand: PodDemand;
}

/** Keeps a running total of what pods use, so that admission does not have to add it up. */
export function createNodeUsage() {
  const demands = new Map<PodUid, KnownDemand>();
  const amounts = new Map<string, bigint>();
  /** By protocol and port: how many pods use it, by address. */
  const ports = new Map<string, Map<string, number>>();

  function count({ requests, ports: portsUsed }: PodDemand, sign: 1n | -1n): void {
    for (const [name, amount] of requests) amounts.set(name, (amounts.get(name) ?? 0n) + sign * amount);
    for (const { ip, protocol, port } of portsUsed) {
      const key = `${protocol}/${port}`;
      const addresses = ports.get(key) ?? new Map<string, number>();
      const users = (addresses.get(ip) ?? 0) + Number(sign);
      if (users === 0) addresses.delete(ip);
      else addresses.set(ip, users);
      if (addresses.size === 0) ports.delete(key);
      else ports.set(key, addresses);
    }
  }

  function release(uid: PodUid): void {
    const known = demands.get(uid);
    if (known === undefined) return;
    demands.delete(uid);
    count(known.demand, -1n);
  }

  const usage: NodeUsage = {
    pods: () => demands.size,
    amount: (resource) => amounts.get(resource) ?? 0n,
    isPortUsed({ ip, protocol, port }) {
      const addresses = ports.get(`${protocol}/${port}`);
      if (addresses === undefined) return false;
      return ip === ANY_ADDRESS || addresses.has(ANY_ADDRESS) || addresses.has(ip);
    },
    demands: () => [...demands.values()].map(({ demand }) => demand),
  };
  return {
    usage,
    /** Records the pod's current state: adds or releases its resources. */
    update(desired: DesiredPod): void {
      const { uid, revision, pod, allocation } = desired;
      const allocated = allocation?.allocated;
      // The demand of a pod changes only together with one of these.
      const version = countsOnNode(desired) ? `${revision} ${pod.metadata.generation}` : undefined;
      const known = demands.get(uid);
      if (known?.version === version && known?.allocated === allocated) return;
      release(uid);
      if (version === undefined) return;
      const demand = podDemandOf(desired);
      demands.set(uid, { version, allocated, demand });
      count(demand, 1n);
    },
    release,
  };
}
