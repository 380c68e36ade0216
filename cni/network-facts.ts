import { type Files, FilesError } from "../host/fs/files.ts";
import { isObject } from "../proto/is-object.ts";
import { joinWithAnd } from "../proto/join-with-and.ts";
import { BUILTIN_TYPE, DEFAULT_BRIDGE } from "./builtin/network-conf.ts";
import { binariesOf, type PluginConf } from "./conf.ts";
import { readConfDir } from "./conf-dir.ts";

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
  readonly bridges: readonly PodBridge[];
}

/** A bridge of this machine whose ports are the links of pods. */
export interface PodBridge {
  readonly name: string;
  /** Of the pods' addresses; both if the configuration has no ranges. */
  readonly families: readonly (4 | 6)[];
}

/** Where the runtimes and the kubelet's documentation expect them. */
export const usualCni = { confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"] } as const;

const EXECUTABLE = 0o111;

/**
 * Reads the first network configuration of `confDir`, and which of its plugins are in none of `binDirs`. Rejects with `FilesError`
 * if the folder or the file cannot be read, such as without being root.
 */
export async function readCniFacts(
  files: Pick<Files, "list" | "read" | "stat">,
  { confDir, binDirs }: { readonly confDir: string; readonly binDirs: readonly string[] },
): Promise<CniFacts> {
  const nothing = { confDir, binDirs, plugins: [], missingPlugins: [], bridges: [] };
  const [first] = await readConfDir(files, confDir);
  if (first === undefined) return { ...nothing, file: undefined };
  if ("problem" in first) {
    const { cause, message } = first.problem;
    if (cause instanceof FilesError && cause.code === "EACCES") throw cause;
    return { ...nothing, file: first.file, problem: message };
  }
  const plugins = binariesOf(first.conf);
  const found = await Promise.all(plugins.map((plugin) => isInstalled(files, binDirs, plugin)));
  const missingPlugins = plugins.filter((_, index) => !found[index]);
  const bridges = first.conf.plugins.flatMap((plugin) => bridgeOf(plugin) ?? []);
  return { confDir, binDirs, file: first.file, plugins, missingPlugins, bridges };
}

/**
 * Why a runtime can set up no network with what its folder has: no file, a broken file, or programs that are missing; undefined if
 * it can. The plugins themselves may still refuse.
 */
export function cniProblemOf({ file, confDir, binDirs, problem, missingPlugins }: CniFacts): string | undefined {
  if (file === undefined) return `${confDir} has no network configuration`;
  if (problem !== undefined) return problem;
  if (missingPlugins.length === 0) return undefined;
  const are = missingPlugins.length === 1 ? "it is" : "they are";
  return `${file} needs ${joinWithAnd(missingPlugins)}, and ${are} not in ${joinWithAnd(binDirs)}`;
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

async function isInstalled(files: Pick<Files, "stat">, folders: readonly string[], name: string): Promise<boolean> {
  for (const folder of folders) {
    const found = await files.stat(`${folder}/${name}`);
    if (found?.kind === "file" && (found.mode & EXECUTABLE) !== 0) return true;
  }
  return false;
}
