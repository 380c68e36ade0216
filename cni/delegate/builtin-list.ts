import { dirname, join } from "node:path/posix";
import type { Files } from "../../host/fs/files.ts";
import { BUILTIN_TYPE, DEFAULT_BRIDGE } from "../builtin/network-conf.ts";
import { type NetworkConf, parseNetworkConf } from "../conf.ts";
import type { ConfDirs } from "../conf-dir.ts";
import { CURRENT_VERSION } from "../version.ts";
import type { DelegateConf } from "./delegate-conf.ts";
import type { NetworkOwnerOptions } from "./installed-delegate.ts";

const STANDALONE_CIDR = "10.241.0.0/24";

/** The ranges of a node without a cluster: its configured pod CIDRs, or else the default. */
export const standaloneRanges = (podCIDRs: readonly string[]): readonly string[] =>
  podCIDRs.length > 0 ? podCIDRs : [STANDALONE_CIDR];

const FILE = "10-builtin.conflist";
const CAPABILITIES = { portMappings: true, bandwidth: true, ipRanges: true, ips: true, mac: true };

/**
 * How an agent that owns the network uses the node's built-in one: in place of the chain that the delegate names, as long as that chain's
 * folder has no configuration, or not at all.
 */
export type BuiltinUse = "replacesChain" | "withoutChain" | "never";

/** A node of a cluster without a chain waits for one: it would be `Ready` with pods that reach no other node. */
export function builtinUseOf(source: NetworkOwnerOptions["source"], isInCluster: boolean): BuiltinUse {
  if (source === "builtin") return "replacesChain";
  return source === "auto" && !isInCluster ? "withoutChain" : "never";
}

/** The folders beside the agent's socket, which the delegate knows. An agent keeps at most one of them, by which the delegate knows the use. */
const FOLDERS = { replacesChain: "network.d", withoutChain: "network-fallback.d" } as const;

/** The folder in which an agent with this use keeps the list. */
export const builtinFolderOf = (socket: string, use: keyof typeof FOLDERS): string =>
  join(dirname(socket), FOLDERS[use]);

/** The path of the list in that folder. */
export const builtinListOf = (socket: string, use: keyof typeof FOLDERS): string =>
  join(builtinFolderOf(socket, use), FILE);

/** The folders that an agent with another use of the built-in network has kept. */
export const unusedBuiltinFolders = (socket: string, use: BuiltinUse): readonly string[] =>
  (["replacesChain", "withoutChain"] as const)
    .filter((other) => other !== use)
    .map((other) => builtinFolderOf(socket, other));

type ChainOf = Pick<DelegateConf, "socket" | "confDir">;

/** The folders of the network that an agent with this use executes. */
export function chainFoldersOf({ socket, confDir }: ChainOf, use: BuiltinUse): ConfDirs {
  if (use === "replacesChain") return [builtinFolderOf(socket, use)];
  return use === "withoutChain" ? [confDir, builtinFolderOf(socket, use)] : [confDir];
}

/** The folders of the network that a delegate without its agent executes: those that the agent has executed. */
export async function findChainFolders(files: Pick<Files, "list">, delegate: ChainOf): Promise<ConfDirs> {
  for (const use of ["replacesChain", "withoutChain"] as const)
    if ((await files.list(builtinFolderOf(delegate.socket, use))) !== undefined) return chainFoldersOf(delegate, use);
  return chainFoldersOf(delegate, "never");
}

/** A built-in network by its name: DEL needs no more. Other plugins of its list are unknown. */
export const builtinConfOf = (name: string): NetworkConf =>
  parseNetworkConf(JSON.stringify({ cniVersion: CURRENT_VERSION, name, plugins: [{ type: BUILTIN_TYPE }] }), name);

/** The list of a built-in network alone, as JSON; of the node's own one by default. A pod gets one address of each CIDR. */
export function formatBuiltinList(
  podCIDRs: readonly string[],
  { name, bridge }: { readonly name: string; readonly bridge: string } = { name: "berth", bridge: DEFAULT_BRIDGE },
): string {
  const ranges = podCIDRs.map((subnet) => [{ subnet }]);
  const plugin = { type: BUILTIN_TYPE, bridge, ranges, capabilities: CAPABILITIES };
  // Otherwise each call looks for a folder with further plugins.
  const list = { cniVersion: "1.1.0", name, loadOnlyInlinedPlugins: true, plugins: [plugin] };
  return `${JSON.stringify(list, undefined, 2)}\n`;
}
