import { join } from "node:path/posix";
import { deleteLink, listLinks } from "../../host/netlink/links.ts";
import type { Netlink } from "../../host/netlink/netlink.ts";
import {
  changeAsRead,
  deleteChain,
  deleteTable,
  flushChain,
  listChains,
  type NftChain,
} from "../../host/netlink/nftables.ts";
import type { AttachmentLocks } from "../attachment-locks.ts";
import { toCniError } from "../to-cni-error.ts";
import { type AttachmentId, aliasPrefix, bridgeAlias, formatId, parseId } from "./attachment-names.ts";
import { type AttachmentStore, createAttachmentStore } from "./attachment-store.ts";
import { detach } from "./detach.ts";
import { claimNetwork, findOtherOwner, removeRecord } from "./network-claim.ts";
import { type NodeNetwork, openNodeNetwork } from "./node-network.ts";
import { recordedNetworks } from "./recorded-attachments.ts";
import { isMasqueradeChain, masqueradeChain, TABLE } from "./ruleset.ts";

export interface BuiltinRemovalOptions {
  readonly netlink: Netlink;
  /** The folder with the records of all networks. */
  readonly folder: string;
  /** The path of the node's network namespace; undefined for that of this process. */
  readonly nodeNamespace?: string | undefined;
}

export interface IdleRemovalOptions extends BuiltinRemovalOptions {
  /** The locks of the executors, which may add pods at the same time. */
  readonly locks: Pick<AttachmentLocks, "withNetwork">;
  /** The cache of the executors, which has the locks. */
  readonly cacheDir: string;
}

/** A network that is not removed, since it has attachments or belongs to another cache. */
export interface KeptNetwork {
  readonly name: string;
  /** The other cache, by whose locks alone it can be removed. */
  readonly claimedBy?: string;
  /** Those with a record, and those that hold an address without one. */
  readonly attachments: readonly AttachmentId[];
}

export interface IdleRemoval {
  /** The names of the networks. */
  readonly removed: readonly string[];
  readonly kept: readonly KeptNetwork[];
}

/**
 * Removes every network without pods as `removeNetwork` does. A network with pods, or of another cache, stays as it is; no ADD of a
 * network runs while it is removed. Rejects with `CniError`, and with the signal's reason when that aborts.
 */
export async function removeIdleNetworks(options: IdleRemovalOptions, signal: AbortSignal): Promise<IdleRemoval> {
  const removed: string[] = [];
  const kept: KeptNetwork[] = [];
  try {
    for (const name of recordedNetworks(options.folder)) {
      const removeIfIdle = async () => {
        const path = join(options.folder, name);
        const claimedBy = findOtherOwner(path, options.cacheDir);
        const attachments = attachmentsOf(createAttachmentStore(path));
        if (claimedBy !== undefined) return void kept.push({ name, claimedBy, attachments });
        if (attachments.length > 0) return void kept.push({ name, attachments });
        // From now on ADD with another cache is refused; one since the look at the attachments has claimed the network, and this fails.
        claimNetwork(path, name, options.cacheDir);
        await removeNetwork(options, name);
        removed.push(name);
      };
      await options.locks.withNetwork(name, removeIfIdle, { signal });
    }
  } catch (error) {
    signal.throwIfAborted();
    throw toCniError(error);
  }
  return { removed, kept };
}

/** By the records, and by the reservations, which outlive a record that another program has damaged. */
function attachmentsOf(store: AttachmentStore): readonly AttachmentId[] {
  const ids = new Set([...store.list().map(formatId), ...store.reserved().values()]);
  return [...ids].toSorted().map(parseId);
}

/**
 * Removes all that a network has on the node: its attachments, the bridge if the network has made it, its rules, and its
 * record. With the last network it removes the table of nftables. Safe to repeat: the record goes last, and its
 * claim after all else. Rejects with `CniError`.
 *
 * @internal
 */
export async function removeNetwork(
  { netlink, folder, nodeNamespace }: BuiltinRemovalOptions,
  network: string,
): Promise<void> {
  const node = openNodeNetwork(netlink, nodeNamespace);
  try {
    const path = join(folder, network);
    const store = createAttachmentStore(path);
    for (const id of attachmentsOf(store)) await detach(node, network, store, id, node.removeLinks);
    removeLinks(node, network);
    removeRules(node, network);
    removeRecord(path);
  } catch (error) {
    throw toCniError(error);
  } finally {
    node.close();
  }
}

/** Deletes the links of pods that have no record, and the bridge if the network has made it. */
function removeLinks(node: NodeNetwork, network: string): void {
  const own = listLinks(node.route).filter(
    ({ alias }) => alias === bridgeAlias(network) || alias.startsWith(aliasPrefix(network)),
  );
  for (const { name } of own) deleteLink(node.route, name);
}

/** Deletes the network's chain; the whole table if no other network has a chain, also none that is made meanwhile. */
function removeRules({ netfilter }: NodeNetwork, network: string): void {
  changeAsRead(netfilter, () => planRemoval(listChains(netfilter), masqueradeChain(network)));
}

function planRemoval(chains: readonly Pick<NftChain, "family" | "table" | "chain">[], own: string) {
  const ofTable = chains.filter(({ family, table }) => family === "inet" && table === TABLE);
  if (ofTable.length === 0) return [];
  const isLast = ofTable.every(({ chain }) => chain === own || !isMasqueradeChain(chain));
  if (isLast) return [deleteTable(TABLE)];
  const hasOwn = ofTable.some(({ chain }) => chain === own);
  return hasOwn ? [flushChain(TABLE, own), deleteChain(TABLE, own)] : [];
}
