import { isIP } from "node:net";
import type { Clock } from "../../../host/clock.ts";
import type { Net } from "../../../host/net.ts";

const KNOWN_FOR_MS = 60_000;
/**
 * Each pod's network is a dozen changes of the kernel's too, and to read all addresses takes the longer the more pods there are: what the
 * kernel tells of in a row is one look, and then it is not listened to for a while, which costs nothing.
 */
const SETTLE_MS = 1_000;
const DEAF_MS = 10_000;

/**
 * The node's addresses: those it is told to have, or else one, also where it has both families: as with the kubelet, a node is of both
 * when `--node-ip` says so. `0.0.0.0` and `::` are no addresses; they only say which family is preferred. A node that is named by an
 * address has that one; one whose name leads to an address of its `own` has that one, as by a line in /etc/hosts; else it is the first
 * of its `own`.
 */
export function chooseHostIPs(
  told: readonly string[],
  nodeName: string,
  own: readonly string[],
  named: readonly string[] = [],
): readonly string[] {
  if (isToldWhich(told)) return told;
  if (isIP(nodeName) !== 0) return [nodeName];
  const family = told[0] === "::" ? 6 : told[0] === "0.0.0.0" ? 4 : undefined;
  const meant = named.filter((address) => own.includes(address));
  const chosen =
    meant.find((address) => isIP(address) === (family ?? 4)) ??
    meant[0] ??
    own.find((address) => isIP(address) === family) ??
    own[0];
  return chosen === undefined ? [] : [chosen];
}

function isToldWhich([first]: readonly string[]): boolean {
  return first !== undefined && first !== "0.0.0.0" && first !== "::";
}

export interface HostIPsParts {
  /** `--node-ip`. */
  readonly told: readonly string[];
  readonly nodeName: string;
  readonly net: Net;
  readonly clock: Clock;
  /** The node had no address, and has one now: what was said without it is to be said anew. Never called at once. */
  readonly arrived: () => void;
  /** The node's addresses are others. Where nobody wants to hear of that, the kernel is heard only until there is an address. */
  readonly changed?: () => void;
  /** What a name leads to, in the order of preference. Never rejects: a name may lead nowhere. Left out: all names do. */
  readonly resolve?: (name: string) => Promise<readonly string[]>;
}

/**
 * The node's addresses, for whoever asks. One that is there is read again when somebody asks and that was last done more than a
 * minute ago, or within ten seconds of a change that the kernel tells of, where somebody wants to hear of that; nothing runs in between,
 * and what has gone, as by a cable that is pulled, stays until another one takes its place. While there never was one, as at a boot
 * before the network is up, whoever asks has it read anew, and the kernel tells of its arrival. The signal ends that.
 */
export function followHostIPs(parts: HostIPsParts, signal: AbortSignal): () => readonly string[] {
  const { told, nodeName, net, clock, arrived, changed, resolve } = parts;
  const arrival = new AbortController();
  let isWatching = false;
  let named: readonly string[] = [];
  /** The node's own addresses when it was last asked what its name leads to. */
  let resolvedFor: string | undefined;
  let readAt = clock.now();
  let known = read();
  if (changed !== undefined) listen();
  if (resolve !== undefined) void renew(resolve);

  function read(): readonly string[] {
    return chooseHostIPs(told, nodeName, net.addresses(), named);
  }

  function look(): void {
    const before = known;
    if (before.length === 0 && !isWatching) {
      isWatching = true;
      net.watch(look, AbortSignal.any([signal, arrival.signal]));
    }
    // After the watch has begun: nobody tells of an address that came before.
    const found = read();
    readAt = clock.now();
    if (found.length === 0) return;
    known = found;
    arrival.abort();
    if (before.length === 0) arrived();
    if (before.join() !== found.join()) changed?.();
  }

  /** What a name leads to may be another address since the node's addresses are others. */
  async function renew(ask: NonNullable<HostIPsParts["resolve"]>): Promise<void> {
    resolvedFor = net.addresses().join();
    if (!isToldWhich(told) && isIP(nodeName) === 0) named = await ask(nodeName);
    if (!signal.aborted) look();
  }

  function listen(): void {
    const hearing = new AbortController();
    const heard = () => {
      if (hearing.signal.aborted) return;
      hearing.abort();
      clock.wakeAt(clock.now() + SETTLE_MS, lookUnlessOver);
      clock.wakeAt(clock.now() + DEAF_MS, () => {
        if (!signal.aborted) listen();
        // Nobody has told of what came meanwhile.
        lookUnlessOver();
      });
    };
    net.watch(heard, AbortSignal.any([signal, hearing.signal]));
  }

  function lookUnlessOver(): void {
    if (signal.aborted) return;
    if (resolve === undefined) look();
    // Interfaces of pods come and go all the time, and none of them is an address of the node's.
    else if (net.addresses().join() !== resolvedFor) void renew(resolve);
  }

  return () => {
    if (known.length === 0 || Math.abs(clock.now() - readAt) > KNOWN_FOR_MS) look();
    return known;
  };
}
