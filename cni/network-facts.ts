import { type Files, FilesError } from "../host/fs/files.ts";
import { isObject } from "../proto/is-object.ts";
import { joinWithAnd } from "../proto/join-with-and.ts";
import { BUILTIN_TYPE, DEFAULT_BRIDGE } from "./builtin/network-conf.ts";
import { binariesOf, type NetworkConf, type PluginConf } from "./conf.ts";
import { readConfDir } from "./conf-dir.ts";
import { findPlugin } from "./find-plugin.ts";

/** The network configuration that the runtime uses: the first file of its folder, in the order of the names. */
export interface CniFacts {
  readonly confDir: string;
  readonly binDirs: readonly string[];
  /** Undefined if the folder has no configuration. */
  readonly file: string | undefined;
  /** Why the file, which it names, is not a network configuration. */
  readonly problem?: string;
  readonly plugins: readonly string[];
  readonly missingPlugins: readonly string[];
  /** The paths of the binaries that cannot be executed. */
  readonly notExecutable: readonly string[];
  readonly bridges: readonly PodBridge[];
}

/** A bridge of this machine whose ports are the links of pods. */
export interface PodBridge {
  readonly name: string;
  /** Of the pods' addresses; both if the configuration has no ranges. */
  readonly families: readonly (4 | 6)[];
}

/** Where libcni, and with it container runtimes, keep the results of ADD. */
export const usualCacheDir = "/var/lib/cni";

/** Where the runtimes and the kubelet's documentation expect them. */
export const usualCni = { confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"] } as const;

/**
 * Reads the first network configuration of `confDir`, and which of its plugins are in none of `binDirs` or cannot be executed.
 * `inProcess` are the plugins that need no binary. Rejects with `FilesError` if the folder or the file cannot be read, such as without
 * being root.
 */
export async function readCniFacts(
  files: Pick<Files, "list" | "read" | "stat">,
  { confDir, binDirs }: { readonly confDir: string; readonly binDirs: readonly string[] },
  inProcess: readonly string[] = [],
): Promise<CniFacts> {
  const nothing = { confDir, binDirs, plugins: [], missingPlugins: [], notExecutable: [], bridges: [] };
  const [first] = await readConfDir(files, confDir);
  if (first === undefined) return { ...nothing, file: undefined };
  if ("problem" in first) {
    const { cause, message } = first.problem;
    if (cause instanceof FilesError && cause.code === "EACCES") throw cause;
    return { ...nothing, file: first.file, problem: message };
  }
  const plugins = binariesOf(first.conf);
  const programs = plugins.filter((plugin) => !inProcess.includes(plugin));
  const found = await Promise.all(programs.map((plugin) => findPlugin(files, binDirs, plugin)));
  const missingPlugins = programs.filter((_, index) => found[index] === undefined);
  const notExecutable = found.flatMap((binary) => (binary?.isExecutable === false ? [binary.path] : []));
  const bridges = bridgesOf(first.conf);
  return { confDir, binDirs, file: first.file, plugins, missingPlugins, notExecutable, bridges };
}

/** The bridges of a network whose plugins have some, as far as this program knows these plugins. */
export const bridgesOf = ({ plugins }: Pick<NetworkConf, "plugins">): readonly PodBridge[] =>
  plugins.flatMap((plugin) => bridgeOf(plugin) ?? []);

/**
 * Why a runtime can set up no network with what its folder has: no file, a broken file, or programs that are missing or cannot be
 * executed; undefined if it can. The plugins themselves may still refuse.
 */
export function cniProblemOf({
  file,
  confDir,
  binDirs,
  problem,
  missingPlugins,
  notExecutable,
}: CniFacts): string | undefined {
  if (file === undefined) return `${confDir} has no network configuration`;
  if (problem !== undefined) return problem;
  const needs = (names: readonly string[], what: string) =>
    names.length === 0 ? [] : `${joinWithAnd(names)}, and ${names.length === 1 ? "it is" : "they are"} not ${what}`;
  const missing = [needs(missingPlugins, `in ${joinWithAnd(binDirs)}`), needs(notExecutable, "executable")].flat();
  return missing.length === 0 ? undefined : `${file} needs ${missing.join("; ")}`;
}

/** The default of the bridge plugin, which flannel calls by default. */
const BRIDGE_PLUGIN_DEFAULT = "cni0";

/** Undefined for plugins that use no bridge, or one that this function does not know. */
function bridgeOf({ type, fields }: PluginConf): PodBridge | undefined {
  if (type === BUILTIN_TYPE) return toBridge(fields, DEFAULT_BRIDGE);
  if (type === "bridge") return toBridge(fields, BRIDGE_PLUGIN_DEFAULT);
  const delegate = isObject(fields["delegate"]) ? fields["delegate"] : {};
  const isBridge = type === "flannel" && (delegate["type"] ?? "bridge") === "bridge";
  return isBridge ? toBridge(delegate, BRIDGE_PLUGIN_DEFAULT) : undefined;
}

function toBridge(fields: PluginConf["fields"], otherwise: string): PodBridge {
  const { bridge, ipam, ranges = isObject(ipam) ? [ipam, ipam["ranges"]] : [] } = fields;
  const subnets = [ranges].flat(3).flatMap((range: unknown) => (isObject(range) ? (range["subnet"] ?? []) : []));
  const families = new Set(subnets.map((subnet) => (String(subnet).includes(":") ? 6 : 4)));
  return {
    name: typeof bridge === "string" && bridge !== "" ? bridge : otherwise,
    families: families.size === 0 ? [4, 6] : [...families],
  };
}
