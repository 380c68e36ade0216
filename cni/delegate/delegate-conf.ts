import { podAnnotationsCapability } from "../../proto/kubernetes/well-known-names.ts";
import type { NetworkConf } from "../conf.ts";
import { DELEGATE_NETWORK, DELEGATE_TYPE } from "../delegate-network.ts";
import { CniError, cniCodes } from "../error.ts";
import { shownValue } from "../shown-value.ts";
import type { CniVersion } from "../version.ts";

/** The version that the delegate speaks. */
export const DELEGATE_VERSION: CniVersion = "1.0.0";

/** A runtime hands a capability's argument over only to a plugin that declares it. A pod's annotations select secondary networks. */
const CAPABILITIES = [
  ...["portMappings", "bandwidth", "ipRanges", "dns", "mac", "ips", "cgroupPath"],
  podAnnotationsCapability,
] as const;

/** The delegate's own fields in its configuration. All paths are absolute. */
export interface DelegateConf {
  /** The socket of the agent. */
  readonly socket: string;
  /** The folder that `berth cni install` got as `--chain-dir`. The agent may execute the built-in network instead (`BuiltinUse`). */
  readonly confDir: string;
  /** The folders of the plugins' binaries. */
  readonly binDirs: readonly string[];
  /** The folder of the cached results and of the locks. */
  readonly cacheDir: string;
  /** How long one call may take in all. */
  readonly timeoutMs: number;
}

/** The configuration list that makes a container runtime call the delegate, and nothing else; as JSON. */
export function formatDelegateList(conf: DelegateConf): string {
  const { socket, confDir, binDirs, cacheDir, timeoutMs } = conf;
  const capabilities = Object.fromEntries(CAPABILITIES.map((capability) => [capability, true]));
  const plugin = { type: DELEGATE_TYPE, capabilities, socket, confDir, binDirs, cacheDir, timeoutMs };
  const list = { cniVersion: DELEGATE_VERSION, name: DELEGATE_NETWORK, plugins: [plugin] };
  return `${JSON.stringify(list, undefined, 2)}\n`;
}

/**
 * Reads the delegate's own fields from the configuration of the plugin. `where` is for error texts.
 *
 * @throws CniError with code 7 that names the field, what was found and what it must be
 */
export function parseDelegateConf(fields: Readonly<Record<string, unknown>>, where: string): DelegateConf {
  const path = (name: string): string => {
    const value = fields[name];
    if (isAbsolute(value)) return value;
    throw invalid(where, name, value, "an absolute path");
  };
  const { binDirs, timeoutMs } = fields;
  if (!Array.isArray(binDirs) || binDirs.length === 0 || !binDirs.every(isAbsolute))
    throw invalid(where, "binDirs", binDirs, "a list of absolute paths");
  if (typeof timeoutMs !== "number" || !Number.isSafeInteger(timeoutMs) || timeoutMs <= 0)
    throw invalid(where, "timeoutMs", timeoutMs, "a whole number of milliseconds above 0");
  return { socket: path("socket"), confDir: path("confDir"), binDirs, cacheDir: path("cacheDir"), timeoutMs };
}

/** The delegate's fields in a network; undefined for a network that does not contain it. Throws as `parseDelegateConf`. */
export function delegateOf({ name, plugins }: Pick<NetworkConf, "name" | "plugins">): DelegateConf | undefined {
  const plugin = plugins.find(({ type }) => type === DELEGATE_TYPE);
  return plugin && parseDelegateConf(plugin.fields, `the network ${name}`);
}

const isAbsolute = (value: unknown): value is string => typeof value === "string" && value.startsWith("/");

function invalid(where: string, name: string, value: unknown, must: string): CniError {
  const message = `${where}: ${name}: found ${shownValue(value)}, must be ${must}; berth cni install writes the list`;
  return new CniError(cniCodes.invalidNetworkConf, message);
}
