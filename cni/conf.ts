import { messageOf } from "../host/error-message.ts";
import { isObject } from "../proto/is-object.ts";
import { CniError, cniCodes } from "./error.ts";
import { isNetworkName, isPluginType, networkNameRule } from "./names.ts";
import { shownValue } from "./shown-value.ts";
import { type CniVersion, cniVersions, selectVersion } from "./version.ts";

type Fields = Readonly<Record<string, unknown>>;

/** The configuration of one plugin of a chain. */
export interface PluginConf {
  readonly type: string;
  /** The capabilities that it declares as true. */
  readonly capabilities: readonly string[];
  /** The plugin for addresses that this plugin calls itself. */
  readonly ipamType: string | undefined;
  /** All fields as they were read. */
  readonly fields: Fields;
}

/** A network: a list of plugins that are called one after the other. Specification, section 1. */
export interface NetworkConf {
  readonly name: string;
  /** The version of the protocol that is spoken with its plugins. */
  readonly cniVersion: CniVersion;
  readonly disableCheck: boolean;
  readonly disableGC: boolean;
  readonly loadOnlyInlinedPlugins: boolean;
  readonly plugins: readonly PluginConf[];
  /** Itself as a list in JSON, as the cache keeps it. */
  readonly text: string;
}

/** The names of the binaries that a network needs: its plugins and their plugins for addresses, each once. */
export function binariesOf({ plugins }: Pick<NetworkConf, "plugins">): readonly string[] {
  const names = plugins.flatMap(({ type, ipamType }) => (ipamType === undefined ? [type] : [type, ipamType]));
  return [...new Set(names)];
}

/** What a text must be: `by type` is a single plugin if it has a `type`, and otherwise a list. */
export type ConfForm = "list" | "single plugin" | "by type";

/**
 * Reads a network: a list, or a single plugin, which becomes a list of one. `where` is for error texts. A list may have no plugins
 * yet: they may be in a folder beside it.
 *
 * @throws CniError with code 6 for text that is not JSON, 1 for an unknown version, 7 for any other problem
 */
export function parseNetworkConf(text: string, where: string, form: ConfForm = "by type"): NetworkConf {
  const fields = parseObject(text, where);
  const field = (name: string) => `${where}: ${name}`;
  const isList = form === "list" || (form === "by type" && !("type" in fields));
  if (!isList && "plugins" in fields)
    throw invalid(
      `${field("plugins")}: found in a file of a single plugin; rename the file so that it ends with .conflist`,
    );
  const { name } = fields;
  if (typeof name !== "string" || !isNetworkName(name))
    throw invalid(`${field("name")}: found ${shownValue(name)}, must be a text of ${networkNameRule}`);
  const loadOnlyInlinedPlugins = parseBoolean(fields, "loadOnlyInlinedPlugins", where);
  if (loadOnlyInlinedPlugins && !("plugins" in fields))
    throw invalid(`${field("loadOnlyInlinedPlugins")}: found true, must be false in a list without plugins`);
  const cniVersion = parseVersion(fields, where);
  return {
    name,
    cniVersion,
    disableCheck: parseBoolean(fields, "disableCheck", where),
    disableGC: parseBoolean(fields, "disableGC", where),
    loadOnlyInlinedPlugins,
    plugins: isList ? parsePlugins(fields, where) : [toPluginConf(fields, where, "")],
    // Other programs read the cache, too, and expect a list there.
    text: isList ? text : JSON.stringify({ cniVersion, name, plugins: [fields] }),
  };
}

/**
 * Reads the configuration of one plugin from a file of the folder beside a list.
 *
 * @throws CniError as `parseNetworkConf`
 */
export function parsePluginConf(text: string, where: string): PluginConf {
  return toPluginConf(parseObject(text, where), where, "");
}

/** The network with further plugins at its end. Its text contains them, so that the cache needs no other file. */
export function withPlugins(conf: NetworkConf, more: readonly PluginConf[]): NetworkConf {
  if (more.length === 0) return conf;
  const plugins = [...conf.plugins, ...more];
  const whole = { loadOnlyInlinedPlugins: true, plugins: plugins.map(({ fields }) => fields) };
  return { ...conf, plugins, text: JSON.stringify({ ...JSON.parse(conf.text), ...whole }) };
}

/** The network whose plugins get `cniArgs` as `args.cni`, beside those that they have there. CNI's conventions, "args". */
export function withCniArgs(conf: NetworkConf, cniArgs: Fields): NetworkConf {
  const plugins = conf.plugins.map((plugin) => {
    const args = isObject(plugin.fields["args"]) ? plugin.fields["args"] : {};
    const own = isObject(args["cni"]) ? args["cni"] : {};
    return { ...plugin, fields: { ...plugin.fields, args: { ...args, cni: { ...own, ...cniArgs } } } };
  });
  const text = JSON.stringify({ ...JSON.parse(conf.text), plugins: plugins.map(({ fields }) => fields) });
  return { ...conf, plugins, text };
}

function parsePlugins(fields: Fields, where: string): readonly PluginConf[] {
  if (!("plugins" in fields)) return [];
  const { plugins } = fields;
  if (!Array.isArray(plugins) || plugins.length === 0)
    throw invalid(`${where}: plugins: found ${shownValue(plugins)}, must be a list of at least one plugin`);
  return plugins.map((plugin: unknown, index) => {
    const path = `plugins[${index}]`;
    if (!isObject(plugin))
      throw invalid(`${where}: ${path}: found ${shownValue(plugin)}, must be an object with a type`);
    return toPluginConf(plugin, where, `${path}.`);
  });
}

function toPluginConf(fields: Fields, where: string, path: string): PluginConf {
  const { type, ipam } = fields;
  const typeRule = "must be the name of a plugin's binary";
  if (typeof type !== "string" || !isPluginType(type))
    throw invalid(`${where}: ${path}type: found ${shownValue(type)}, ${typeRule}`);
  const ipamType = isObject(ipam) ? ipam["type"] : undefined;
  if (ipamType !== undefined && ipamType !== "" && (typeof ipamType !== "string" || !isPluginType(ipamType)))
    throw invalid(`${where}: ${path}ipam.type: found ${shownValue(ipamType)}, ${typeRule}`);
  return {
    type,
    capabilities: parseCapabilities(fields, where, path),
    ipamType: typeof ipamType === "string" && ipamType !== "" ? ipamType : undefined,
    fields,
  };
}

function parseCapabilities(fields: Fields, where: string, path: string): readonly string[] {
  const capabilities = fields["capabilities"] ?? {};
  const rule = 'must be an object of booleans, such as {"portMappings": true}';
  if (!isObject(capabilities) || !Object.values(capabilities).every((value) => typeof value === "boolean"))
    throw invalid(`${where}: ${path}capabilities: found ${shownValue(capabilities)}, ${rule}`);
  return Object.keys(capabilities).filter((name) => capabilities[name] === true);
}

function parseVersion(fields: Fields, where: string): CniVersion {
  const { cniVersion = "", cniVersions: others = [] } = fields;
  if (typeof cniVersion !== "string")
    throw invalid(`${where}: cniVersion: found ${shownValue(cniVersion)}, must be a text such as "1.0.0"`);
  if (!Array.isArray(others) || !others.every((version) => typeof version === "string"))
    throw invalid(`${where}: cniVersions: found ${shownValue(others)}, must be a list of texts such as "1.0.0"`);
  const named = [cniVersion, ...others];
  const version = selectVersion(named);
  if (version !== undefined) return version;
  const found = named.filter((text) => text !== "").join(", ");
  throw new CniError(
    cniCodes.incompatibleVersion,
    `${where}: cniVersion: found ${found}, must include one of ${cniVersions.join(", ")}`,
  );
}

/** A boolean, or the text of one, as libcni reads it. */
function parseBoolean(fields: Fields, name: string, where: string): boolean {
  const value = fields[name] ?? false;
  const text = String(value).toLowerCase();
  if ((typeof value === "boolean" || typeof value === "string") && (text === "true" || text === "false"))
    return text === "true";
  throw invalid(`${where}: ${name}: found ${shownValue(value)}, must be true or false`);
}

function parseObject(text: string, where: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const reason = messageOf(cause).replace(/^JSON Parse error: /, "");
    throw new CniError(cniCodes.decodingFailure, `${where} is not JSON: ${reason}`, { cause });
  }
  if (isObject(value)) return value;
  throw new CniError(cniCodes.decodingFailure, `${where}: found ${shownValue(value)}, must be a JSON object`);
}

const invalid = (message: string) => new CniError(cniCodes.invalidNetworkConf, message);
