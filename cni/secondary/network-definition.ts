import { isObject } from "../../proto/is-object.ts";
import { type NetworkConf, parseNetworkConf, withCniArgs } from "../conf.ts";
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

/**
 * The network that a definition means: its own configuration, whose name defaults to the definition's; without one that of
 * the file whose network has the definition's name. `cniArgs` are merged into the `args` of each plugin. NPWG standard, sections 3.4.1 and
 * 3.4.2.
 *
 * @throws CniError with code 7, or another one of `parseNetworkConf` and `loadNetwork`, for a network that cannot be used
 */
export async function loadDefinition(
  files: Parameters<typeof loadNetwork>[0],
  confDir: string,
  { namespace, name, config }: NetworkDefinition,
  cniArgs: Readonly<Record<string, unknown>> | undefined,
): Promise<NetworkConf> {
  const where = `the NetworkAttachmentDefinition ${namespace}/${name}`;
  const conf =
    config.trim() === ""
      ? await loadNetwork(files, confDir, name)
      : parseNetworkConf(withDefaultName(config, name), where);
  if (conf.plugins.length === 0) throw invalid(`${where}: plugins: found none, must be a list of at least one plugin`);
  if (containsDelegate(conf)) throw invalid(`${where} contains ${DELEGATE_TYPE}, which would call itself without end`);
  if (conf.name === DELEGATE_NETWORK)
    throw invalid(`${where}: name: found "${DELEGATE_NETWORK}", must be another one: the delegate's network has it`);
  return cniArgs === undefined ? conf : withCniArgs(conf, cniArgs);
}

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
