import { isIP } from "node:net";
import type { Clock } from "../host/clock.ts";
import type { Net } from "../host/net.ts";

const KNOWN_FOR_MS = 60_000;

/**
 * The node's addresses: those it is told to have, or else one, the first of its `own`, also where it has both families: as with the
 * kubelet, a node is of both when `--node-ip` says so. `0.0.0.0` and `::` are no addresses; they only say which family is preferred.
 * A node that is named by an address has that one.
 */
export function chooseHostIPs(told: readonly string[], nodeName: string, own: readonly string[]): readonly string[] {
  const family = told[0] === "0.0.0.0" ? 4 : told[0] === "::" ? 6 : undefined;
  if (told.length > 0 && family === undefined) return told;
  if (isIP(nodeName) !== 0) return [nodeName];
  const chosen = own.find((address) => isIP(address) === family) ?? own[0];
  return chosen === undefined ? [] : [chosen];
}

export interface HostIPsParts {
  /** `--node-ip`. */
  readonly told: readonly string[];
  readonly nodeName: string;
  readonly net: Net;
  readonly clock: Clock;
  /** The node had no address, and has one now: what was said without it is to be said anew. Never called before somebody asked. */
  readonly arrived: () => void;
}

/**
 * The node's addresses, for whoever asks. One that is there is read again when somebody asks and that was last done more than a
 * minute ago; nothing runs in between, and what has gone, as by a cable that is pulled, stays until another one takes its place.
 * While there never was one, as at a boot before the network is up, whoever asks has it read anew, and the kernel tells of its
 * arrival. The signal ends that.
 */
export function followHostIPs(parts: HostIPsParts, signal: AbortSignal): () => readonly string[] {
  const { told, nodeName, net, clock, arrived } = parts;
  const arrival = new AbortController();
  let isWatching = false;
  let readAt = clock.now();
  let known = read();

  function read(): readonly string[] {
    return chooseHostIPs(told, nodeName, net.addresses());
  }

  function look(): void {
    const hadNone = known.length === 0;
    if (hadNone && !isWatching) {
      isWatching = true;
      net.watch(look, AbortSignal.any([signal, arrival.signal]));
    }
    // After the watch has begun: nobody tells of an address that came before.
    const found = read();
    readAt = clock.now();
    if (found.length === 0) return;
    known = found;
    arrival.abort();
    if (hadNone) arrived();
  }

  return () => {
    if (known.length === 0 || Math.abs(clock.now() - readAt) > KNOWN_FOR_MS) look();
    return known;
  };
}
