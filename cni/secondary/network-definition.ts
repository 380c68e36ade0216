import { isDeepStrictEqual } from "node:util";
import { isObject } from "../../proto/is-object.ts";
import { type NetworkConf, type PluginConf, parseNetworkConf, withCniArgs } from "../conf.ts";
import { loadNetwork } from "../conf-dir.ts";
import { containsDelegate, DELEGATE_NETWORK, DELEGATE_TYPE } from "../delegate-network.ts";
import { CniError, cniCodes } from "../error.ts";

/** A NetworkAttachmentDefinition, as the API server has it. */
export interface NetworkDefinition {
  readonly namespace: string;
  readonly name: string;
  /** `spec.config`: a network, or a single plugin, in JSON; empty if the network is a file of the node. */
  readonly config: string;
}

export interface NetworkFolders {
  /** The folder that `berth cni install` got as `--chain-dir`, whether or not the agent executes its first network. */
  readonly chainDir: string;
  /** The folder with the default network. */
  readonly confDir: string;
}

/**
 * The network that a definition means: its own configuration, whose name defaults to the definition's; without one that of
 * the file whose network has the definition's name. `cniArgs` are merged into the `args` of each plugin. NPWG standard, sections 3.4.1 and
 * 3.4.2. Plugins keep addresses and rules by the name of the network, so the name of the default network means that network alone.
 *
 * @throws CniError with code 7, or another one of `parseNetworkConf` and `loadNetwork`, for a network that cannot be used
 */
export async function loadDefinition(
  files: Parameters<typeof loadNetwork>[0],
  { chainDir, confDir }: NetworkFolders,
  { namespace, name, config }: NetworkDefinition,
  cniArgs: Readonly<Record<string, unknown>> | undefined,
  defaultConf: Pick<NetworkConf, "name" | "plugins">,
): Promise<NetworkConf> {
  const where = `the NetworkAttachmentDefinition ${namespace}/${name}`;
  const conf =
    config.trim() === ""
      ? await loadNetwork(files, chainDir, name)
      : parseNetworkConf(withDefaultName(config, name), where);
  if (conf.plugins.length === 0) throw invalid(`${where}: plugins: found none, must be a list of at least one plugin`);
  if (containsDelegate(conf)) throw invalid(`${where} contains ${DELEGATE_TYPE}, which would call itself without end`);
  if (conf.name === DELEGATE_NETWORK)
    throw invalid(`${where}: name: found "${DELEGATE_NETWORK}", must be another one: the delegate's network has it`);
  if (conf.name === defaultConf.name && !isSameChain(conf, defaultConf))
    throw invalid(
      `${where}: name: found "${conf.name}", must be another one: the default network in ${confDir} has it with another configuration, and the two would share addresses and rules`,
    );
  return cniArgs === undefined ? conf : withCniArgs(conf, cniArgs);
}

const isSameChain = (one: Pick<NetworkConf, "plugins">, other: Pick<NetworkConf, "plugins">) =>
  isDeepStrictEqual(one.plugins.map(ownFields), other.plugins.map(ownFields));

/** Without those of the network, which a single plugin has among its own. */
const ownFields = ({ fields }: PluginConf) => ({ ...fields, name: undefined, cniVersion: undefined });

/** The configuration with this name if it has none. Text that is no JSON object stays: its reader says what is wrong. */
function withDefaultName(text: string, name: string): string {
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch {
    // See above.
    return text;
  }
  if (!isObject(fields) || (fields["name"] !== undefined && fields["name"] !== "")) return text;
  return JSON.stringify({ ...fields, name });
}

const invalid = (message: string) => new CniError(cniCodes.invalidNetworkConf, message);
