import { statfsSync } from "node:fs";
import { join } from "node:path/posix";
import type { Clock } from "../../host/clock.ts";
import { NetlinkError } from "../../host/netlink/error.ts";
import { findLink } from "../../host/netlink/links.ts";
import type { Netlink, NetworkNamespace } from "../../host/netlink/netlink.ts";
import { hasChain } from "../../host/netlink/nftables.ts";
import { isObject } from "../../proto/is-object.ts";
import { CniError, cniCodes } from "../error.ts";
import { checkParameters } from "../names.ts";
import type { CniVerb, InProcessPlugin, PluginCall } from "../plugin-call.ts";
import { toCniError } from "../to-cni-error.ts";
import { allocate } from "./allocation.ts";
import { connectPod, resultOf } from "./attach.ts";
import { type AttachmentId, formatId } from "./attachment-names.ts";
import { type AttachmentStore, createAttachmentStore } from "./attachment-store.ts";
import { inspect } from "./check.ts";
import { collectGarbage } from "./collect-garbage.ts";
import { type OtherNetwork, refuseConflicts, refuseOtherKind } from "./conflicts.ts";
import { detach } from "./detach.ts";
import { builtinCodes } from "./errors.ts";
import { openHostPorts } from "./host-ports.ts";
import { ensureNetwork, type NetworkBridge } from "./network.ts";
import { checkClaim, claimNetwork } from "./network-claim.ts";
import {
  BUILTIN_TYPE,
  type BuiltinConf,
  readNetworkConf,
  readNetworkName,
  readValidAttachments,
} from "./network-conf.ts";
import { type NodeNetwork, openNodeNetwork } from "./node-network.ts";
import { recordedNetworks } from "./recorded-attachments.ts";
import { masqueradeChain, TABLE } from "./ruleset.ts";

export interface BuiltinNetworkOptions {
  readonly netlink: Netlink;
  /** The record of addresses and attachments; in a file system that a boot empties, such as /run. */
  readonly folder: string;
  /** The folder of the executor's cached results, by which its attachments are known in the record. A network belongs to one such folder. */
  readonly cacheDir?: string;
  /** The path of the node's network namespace; undefined for that of this process. */
  readonly nodeNamespace?: string | undefined;
  /** The clock of a process that lives on after a call: DEL then sets links down, and defers their deletion. */
  readonly deferredRemovalClock?: Pick<Clock, "now" | "wakeAt"> | undefined;
  /** The record of a network, by its folder; tests make calls of it fail. */
  readonly openStore?: (folder: string) => AttachmentStore;
}

/** What is known of a network between its calls. */
interface Known {
  bridge: NetworkBridge | undefined;
}

/** What a call needs of its network. */
interface NetworkOfCall {
  readonly conf: BuiltinConf;
  readonly store: AttachmentStore;
  readonly known: Known;
  readonly readOthers: () => readonly OtherNetwork[];
}

/**
 * The built-in network: a bridge, with a veth pair, addresses and routes for each pod, and rules of nftables for what leaves
 * the node and for host ports. Calls are synchronous, but for the removal of links, which calls share.
 */
export function createBuiltinNetwork(options: BuiltinNetworkOptions): InProcessPlugin & { close(): void } {
  const { netlink, folder, cacheDir, nodeNamespace, deferredRemovalClock } = options;
  const { openStore = (path: string) => createAttachmentStore(path, cacheDir) } = options;
  const networks = new Map<string, Known>();
  let opened: NodeNetwork | undefined;
  const node = () => {
    opened ??= openNodeNetwork(netlink, nodeNamespace, deferredRemovalClock);
    return opened;
  };
  const readOthers = (name: string): readonly OtherNetwork[] =>
    recordedNetworks(folder)
      .filter((other) => other !== name)
      .map((other) => ({ name: other, attachments: openStore(join(folder, other)).list() }));
  /** A network that has had the bridge before looks at it again, since another one may take it now. */
  const forgetBridgeOfOthers = (bridge: string, known: Known) => {
    for (const other of networks.values())
      if (other !== known && other.bridge?.bridge.name === bridge) other.bridge = undefined;
  };
  return {
    async call(call, signal) {
      signal.throwIfAborted();
      try {
        const name = readNetworkName(call.conf);
        const store = openStore(join(folder, name));
        // DEL needs no more than the name: a list that is broken now must not keep pods from ending.
        if (call.verb === "DEL") {
          const id = idOf(call);
          networks.get(name)?.bridge?.hostPorts.delete(formatId(id));
          await detach(node(), name, store, id, node().disconnectLinks);
          return undefined;
        }
        const known = networks.get(name) ?? { bridge: undefined };
        networks.set(name, known);
        const conf = readNetworkConf(call.conf, { needsRanges: needsRanges(call) });
        if (cacheDir !== undefined) ensureOwner(call.verb, join(folder, name), name, cacheDir);
        const network: NetworkOfCall = { conf, store, known, readOthers: () => readOthers(name) };
        if (call.verb === "ADD") forgetBridgeOfOthers(conf.bridge, known);
        return await perform(node(), network, call.verb, call);
      } catch (error) {
        throw toCniError(error);
      }
    },
    close: () => opened?.close(),
  };
}

/**
 * Makes the network belong to the executor's cache before ADD and GC, and looks whether it may before STATUS. DEL and CHECK concern a
 * single attachment, which no other executor has. Throws `CniError`.
 */
function ensureOwner(verb: CniVerb, folder: string, network: string, cacheDir: string): void {
  if (verb === "ADD" || verb === "GC") claimNetwork(folder, network, cacheDir);
  if (verb === "STATUS") checkClaim(folder, network, cacheDir);
}

/** The runtime hands ranges over for ADD and CHECK of a plugin that declares the capability; STATUS and GC get none. */
const needsRanges = ({ verb, capabilities = [] }: PluginCall): boolean =>
  (verb !== "STATUS" && verb !== "GC") || !capabilities.includes("ipRanges");

async function perform(
  node: NodeNetwork,
  network: NetworkOfCall,
  verb: Exclude<CniVerb, "DEL">,
  call: PluginCall,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const { conf, store, known } = network;
  switch (verb) {
    case "ADD":
      return await add(node, network, call);
    case "CHECK":
      check(node, conf, store, call);
      return undefined;
    case "STATUS":
      status(node, network);
      return undefined;
    case "GC": {
      const valid = readValidAttachments(call.conf);
      await collectGarbage(node, conf, store, valid);
      // Looks at everything, and puts back what another program has removed, as long as pods need it. Without ranges the next ADD does.
      if (store.list().length > 0 && conf.ranges.length > 0)
        ensureAndRemember(node, network, known.bridge && { ...known.bridge, generation: undefined });
      return undefined;
    }
  }
}

/** The attachment of a call. Throws `CniError` unless both parts are valid: they become parts of paths. */
function idOf(call: PluginCall): AttachmentId {
  checkParameters(call);
  return { containerId: call.containerId, ifName: call.ifName };
}

/** Opens the namespace of a pod. Throws `CniError` if the path has none, or the node's own one. */
function openPodNamespace(node: NodeNetwork, netns: string): NetworkNamespace {
  if (netns === "")
    throw new CniError(
      cniCodes.invalidEnvironment,
      "CNI_NETNS is missing; the path of a network namespace is expected",
    );
  const namespace = openNamespace(node.netlink, netns);
  const problem = problemOf(node, namespace);
  if (problem === undefined) return namespace;
  namespace.close();
  throw new CniError(cniCodes.invalidNetns, `${netns} is ${problem}`);
}

function openNamespace(netlink: Netlink, netns: string): NetworkNamespace {
  try {
    return netlink.openNamespace(netns);
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    throw new CniError(cniCodes.invalidNetns, error.message, { cause: error });
  }
}

/** NSFS_MAGIC of the kernel. */
const NSFS = 0x6e736673;

function problemOf(node: NodeNetwork, namespace: NetworkNamespace): string | undefined {
  if (statfsSync(`/proc/self/fd/${namespace.descriptor}`).type !== NSFS) return "no network namespace";
  return node.isOwn(namespace) ? "the network namespace of the node; a pod's own one is expected" : undefined;
}

/** Ensures the network, and keeps the result for the next call. */
function ensureAndRemember(
  node: NodeNetwork,
  { conf, store, known, readOthers }: NetworkOfCall,
  bridge: NetworkBridge | undefined,
): NetworkBridge {
  known.bridge = ensureNetwork(node, conf, store, bridge, readOthers);
  return known.bridge;
}

async function add(node: NodeNetwork, called: NetworkOfCall, call: PluginCall) {
  const { conf, store, known } = called;
  if (call.conf["prevResult"] !== undefined)
    throw new CniError(
      cniCodes.invalidNetworkConf,
      `the network ${conf.name}: the plugin ${BUILTIN_TYPE} must be the first of its list`,
    );
  const id = idOf(call);
  const namespace = openPodNamespace(node, call.netns);
  try {
    const network = ensureAndRemember(node, called, known.bridge);
    const present = store.find(id);
    if (present !== undefined) {
      // ADD again: after a call that was killed, or by a runtime that has not got the answer.
      const found = inspect(node, conf, namespace, present);
      if (found.problem === undefined) return resultOf({ ...conf, ...found, ...present, netns: call.netns });
      await detach(node, conf.name, store, id, node.removeLinks);
    }
    try {
      const { attachment, allocations } = allocate(node, conf, store, id);
      const links = connectPod(node, { conf, network, id, namespace, allocations });
      const entries = openHostPorts(node, conf.name, network.bridge, attachment);
      if (entries.length > 0) network.hostPorts.set(formatId(id), entries);
      return resultOf({ ...conf, ...links, ...attachment, bridge: network.bridge, netns: call.netns });
    } catch (error) {
      throw await undo(node, conf, store, id, toCniError(error));
    }
  } finally {
    namespace.close();
  }
}

/** Removes what a failed ADD has made. Returns the error, which says so if that fails too. */
async function undo(
  node: NodeNetwork,
  conf: BuiltinConf,
  store: AttachmentStore,
  id: AttachmentId,
  error: CniError,
): Promise<CniError> {
  try {
    await detach(node, conf.name, store, id, node.removeLinks);
    return error;
  } catch (failure) {
    const details = `what it has made stays until DEL or GC: ${toCniError(failure).message}`;
    return new CniError(error.code, error.message, { details, cause: error });
  }
}

function check(node: NodeNetwork, conf: BuiltinConf, store: AttachmentStore, call: PluginCall): void {
  const id = idOf(call);
  const attachment = store.find(id);
  if (attachment === undefined)
    throw new CniError(cniCodes.unknownContainer, `the network ${conf.name} has no attachment ${formatId(id)}`);
  const namespace = openPodNamespace(node, call.netns);
  try {
    const isDefaultGateway = conf.isDefaultGateway && mayHaveDefaultRoute(call.conf["prevResult"]);
    const { problem } = inspect(node, { ...conf, isDefaultGateway }, namespace, attachment);
    if (problem !== undefined) throw new CniError(builtinCodes.mismatch, problem);
  } finally {
    namespace.close();
  }
  const expected = addressesOfResult(call.conf["prevResult"]);
  const missing = attachment.addresses.find((address) => expected !== undefined && !expected.includes(address));
  if (missing !== undefined)
    throw new CniError(
      builtinCodes.mismatch,
      `the pod has the address ${missing}, which the result of its ADD has not`,
    );
}

/** False for a result of version 1.1.0 without one: a secondary network has got the default route of the pod. */
function mayHaveDefaultRoute(result: unknown): boolean {
  if (!isObject(result) || !Array.isArray(result["ips"])) return true;
  const { routes = [] } = result;
  return !Array.isArray(routes) || routes.some((route) => isObject(route) && String(route["dst"]).endsWith("/0"));
}

/** The addresses of a result of version 1.1.0; undefined if there is no result. */
function addressesOfResult(result: unknown): readonly unknown[] | undefined {
  if (typeof result !== "object" || result === null || !("ips" in result) || !Array.isArray(result.ips))
    return undefined;
  return result.ips.map((ip: unknown) => (typeof ip === "object" && ip !== null && "address" in ip ? ip.address : ip));
}

/** Throws `CniError` with code 50 if ADD cannot succeed: without nftables, or because the bridge, the name or a subnet belongs to something else. */
function status(node: NodeNetwork, { conf, store, readOthers }: NetworkOfCall): void {
  try {
    hasChain(node.netfilter, TABLE, masqueradeChain(conf.name));
    const bridge = findLink(node.route, conf.bridge);
    if (bridge !== undefined) refuseOtherKind(conf, bridge);
    // Without ranges, ADD gets them from the runtime.
    if (conf.ranges.length > 0) refuseConflicts(node, conf, { bridge, recorded: store.list(), others: readOthers() });
  } catch (error) {
    throw new CniError(cniCodes.notAvailable, toCniError(error).message, { cause: error });
  }
}
