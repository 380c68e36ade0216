import { isIP } from "node:net";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { Net } from "../../../host/net.ts";

const CACHE_TTL_MS = 60_000;
/**
 * Each pod's network causes a dozen netlink messages, and reading all addresses takes longer the more pods there are.
 * So a burst of messages leads to one read after `SETTLE_MS`, and further messages are ignored for `IGNORE_CHANGES_MS`.
 */
const SETTLE_MS = 1_000;
const IGNORE_CHANGES_MS = 10_000;

/**
 * Chooses the node's addresses: those of `--node-ip`, or else a single one. As with the kubelet, a node is dual-stack
 * only if `--node-ip` lists both families. `0.0.0.0` and `::` only select the preferred family. Without `--node-ip` the
 * address is, in this order: the node name if it is an address; the local address that the node name resolves to, for
 * instance through /etc/hosts; the first local address.
 *
 * @internal
 */
export function chooseHostIPs(
  configured: readonly string[],
  nodeName: string,
  local: readonly string[],
  resolved: readonly string[] = [],
): readonly string[] {
  if (isAddressConfigured(configured)) return configured;
  if (isIP(nodeName) !== 0) return [nodeName];
  const family = configured[0] === "::" ? 6 : configured[0] === "0.0.0.0" ? 4 : undefined;
  const matching = resolved.filter((address) => local.includes(address));
  const chosen =
    matching.find((address) => isIP(address) === (family ?? 4)) ??
    matching[0] ??
    local.find((address) => isIP(address) === family) ??
    local[0];
  return chosen === undefined ? [] : [chosen];
}

function isAddressConfigured([first]: readonly string[]): boolean {
  return first !== undefined && first !== "0.0.0.0" && first !== "::";
}

export interface HostIPsOptions {
  /** `--node-ip`. */
  readonly configured: readonly string[];
  readonly nodeName: string;
  readonly net: Net;
  readonly clock: Clock;
  readonly log: Log;
  /** The node had no address and has one now: pods must be reported again. Never called synchronously. */
  readonly onArrival: () => void;
  /** The node's addresses have changed. If left out, the kernel is watched only until there is an address. */
  readonly onChange?: () => void;
  /**
   * The addresses that a name resolves to, in order of preference; none if it does not. Never rejects. If left out, no
   * name resolves.
   */
  readonly resolve?: (name: string) => Promise<readonly string[]>;
}

/**
 * Returns a function that returns the node's current addresses, until the signal aborts.
 *
 * - A call reads the addresses again if the last read is more than a minute old. With `onChange`, they are also read within ten
 *   seconds of a change that the kernel reports. Nothing runs in between.
 * - An address that disappears, for instance when a cable is pulled, is kept until another one replaces it.
 * - While there is no address, as at boot before the network is up, every call reads, and the kernel reports the first address.
 * - The node has the addresses of `--node-ip` from the moment when interfaces have all of them (kubelet: validateNodeIP).
 *   One that disappears later is logged and kept.
 */
export function watchHostIPs(options: HostIPsOptions, signal: AbortSignal): () => readonly string[] {
  const { configured, nodeName, net, clock, log, onArrival, onChange, resolve } = options;
  const arrival = new AbortController();
  let isWatching = false;
  let resolved: readonly string[] = [];
  /** The local addresses at the time when the node name was last resolved. */
  let resolvedForLocal: string | undefined;
  /** The address of `--node-ip` that no interface had at the last read. */
  let missing: string | undefined;
  // No TTL cache: the addresses outlive their reading, since one that disappears stays until another replaces it.
  let readAt = clock.now();
  let current = read();
  if (onChange !== undefined) watchChanges(net, clock, refreshUnlessAborted, signal);
  if (resolve !== undefined) void resolveAndRefresh(resolve);

  function read(): readonly string[] {
    const before = missing;
    missing = isAddressConfigured(configured) ? configured.find((address) => !net.hasAddress(address)) : undefined;
    if (missing === undefined) return chooseHostIPs(configured, nodeName, net.addresses(), resolved);
    if (missing !== before)
      log.error({}, `--node-ip: node IP: "${missing}" not found in the host's network interfaces; waiting for it`);
    return [];
  }

  function refresh(): void {
    const before = current;
    if (before.length === 0 && !isWatching) {
      isWatching = true;
      net.watch(refresh, AbortSignal.any([signal, arrival.signal]));
    }
    // Read after the watch has started: it does not report addresses that were there before.
    const found = read();
    readAt = clock.now();
    if (found.length === 0) return;
    current = found;
    arrival.abort();
    if (before.length === 0) onArrival();
    if (before.join() !== found.join()) onChange?.();
  }

  /** Resolves the node name again: with other local addresses another one may match. */
  async function resolveAndRefresh(lookup: NonNullable<HostIPsOptions["resolve"]>): Promise<void> {
    resolvedForLocal = net.addresses().join();
    if (!isAddressConfigured(configured) && isIP(nodeName) === 0) resolved = await lookup(nodeName);
    if (!signal.aborted) refresh();
  }

  function refreshUnlessAborted(): void {
    if (signal.aborted) return;
    if (resolve === undefined) refresh();
    // Pod interfaces change all the time without changing the node's own addresses.
    else if (net.addresses().join() !== resolvedForLocal) void resolveAndRefresh(resolve);
  }

  return () => {
    if (current.length === 0 || Math.abs(clock.now() - readAt) > CACHE_TTL_MS) refresh();
    return current;
  };
}

/** Calls `onChanged` soon after the kernel has reported a change, until the signal aborts; a timer may still call it then. */
function watchChanges(net: Net, clock: Clock, onChanged: () => void, signal: AbortSignal): void {
  const watching = new AbortController();
  const onKernelChange = () => {
    if (watching.signal.aborted) return;
    watching.abort();
    clock.wakeAt(clock.now() + SETTLE_MS, onChanged);
    clock.wakeAt(clock.now() + IGNORE_CHANGES_MS, () => {
      if (!signal.aborted) watchChanges(net, clock, onChanged, signal);
      // Read what changed while messages were ignored.
      onChanged();
    });
  };
  net.watch(onKernelChange, AbortSignal.any([signal, watching.signal]));
}
