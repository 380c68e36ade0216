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
 * How an agent that owns the network uses the built-in one: instead of the networks of `--chain-dir`, as the fallback while that folder has
 * no configuration, or never.
 */
export type BuiltinUse = BuiltinListUse | "never";

/** The uses for which the agent keeps a list of the built-in network. */
export type BuiltinListUse = "insteadOfChain" | "asFallback";

/** A node of a cluster has no fallback: it would be `Ready` with pods that reach no other node. */
export function builtinUseOf(source: NetworkOwnerOptions["source"], isInCluster: boolean): BuiltinUse {
  if (source === "builtin") return "insteadOfChain";
  return source === "auto" && !isInCluster ? "asFallback" : "never";
}

/** The folders beside the agent's socket, which the delegate knows. An agent keeps at most one of them, by which the delegate knows the use. */
const FOLDERS: Readonly<Record<BuiltinListUse, string>> = {
  insteadOfChain: "network.d",
  asFallback: "network-fallback.d",
};

/** The folder in which an agent with this use keeps the list. */
export const builtinFolderOf = (socket: string, use: BuiltinListUse): string => join(dirname(socket), FOLDERS[use]);

/** The path of the list in that folder. */
export const builtinListOf = (socket: string, use: BuiltinListUse): string => join(builtinFolderOf(socket, use), FILE);

/** The folders that an agent with another use of the built-in network has kept. */
export const unusedBuiltinFolders = (socket: string, use: BuiltinUse): readonly string[] =>
  (["insteadOfChain", "asFallback"] as const)
    .filter((other) => other !== use)
    .map((other) => builtinFolderOf(socket, other));

type DelegateFolders = Pick<DelegateConf, "socket" | "confDir">;

/** The folders of the network that an agent with this use executes. */
export function confDirsOf({ socket, confDir }: DelegateFolders, use: BuiltinUse): ConfDirs {
  if (use === "insteadOfChain") return [builtinFolderOf(socket, use)];
  return use === "asFallback" ? [confDir, builtinFolderOf(socket, use)] : [confDir];
}

/** The folders of the network that a delegate without its agent executes: those that the agent has executed. */
export async function findConfDirs(files: Pick<Files, "list">, delegate: DelegateFolders): Promise<ConfDirs> {
  for (const use of ["insteadOfChain", "asFallback"] as const)
    if ((await files.list(builtinFolderOf(delegate.socket, use))) !== undefined) return confDirsOf(delegate, use);
  return confDirsOf(delegate, "never");
}

/** A built-in network by its name: DEL needs no more. Other plugins of its list are unknown. */
export const builtinConfOf = (name: string): NetworkConf =>
  parseNetworkConf(JSON.stringify({ cniVersion: CURRENT_VERSION, name, plugins: [{ type: BUILTIN_TYPE }] }), name);

/**
 * The list of a built-in network alone, as JSON; by default of the one that the agent executes without a list of the user. A pod gets one
 * address of each CIDR.
 */
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
