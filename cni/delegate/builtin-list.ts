import { dirname, join } from "node:path/posix";
import type { Files } from "../../host/fs/files.ts";
import { BUILTIN_TYPE, DEFAULT_BRIDGE } from "../builtin/network-conf.ts";
import type { DelegateConf } from "./delegate-conf.ts";

const STANDALONE_CIDR = "10.241.0.0/24";

/** The ranges of a node without a cluster: its configured pod CIDRs, or else the default. */
export const standaloneRanges = (podCIDRs: readonly string[]): readonly string[] =>
  podCIDRs.length > 0 ? podCIDRs : [STANDALONE_CIDR];

const FILE = "10-builtin.conflist";
const CAPABILITIES = { portMappings: true, bandwidth: true, ipRanges: true, ips: true, mac: true };

/**
 * Where an agent with `--network=builtin` keeps the network that it executes: beside its socket, which the delegate knows. An
 * agent without that flag removes the folder.
 */
export const builtinFolderOf = (socket: string): string => join(dirname(socket), "network.d");

/** The path of the list in that folder. */
export const builtinListOf = (socket: string): string => join(builtinFolderOf(socket), FILE);

/** The folder of the network that a delegate without its agent executes: the agent's own one if it has one. */
export async function chainFolderOf(
  files: Pick<Files, "list">,
  { socket, confDir }: Pick<DelegateConf, "socket" | "confDir">,
): Promise<string> {
  const folder = builtinFolderOf(socket);
  return (await files.list(folder)) === undefined ? confDir : folder;
}

/** The list of a built-in network alone, as JSON; of the node's own one by default. A pod gets one address of each CIDR. */
export function formatBuiltinList(
  podCIDRs: readonly string[],
  { name, bridge }: { readonly name: string; readonly bridge: string } = { name: "berth", bridge: DEFAULT_BRIDGE },
): string {
  const ranges = podCIDRs.map((subnet) => [{ subnet }]);
  const plugin = { type: BUILTIN_TYPE, bridge, ranges, capabilities: CAPABILITIES };
  return `${JSON.stringify({ cniVersion: "1.1.0", name, plugins: [plugin] }, undefined, 2)}\n`;
}
