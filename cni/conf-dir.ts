import { messageOf } from "../host/error-message.ts";
import { type Files, FilesError } from "../host/fs/files.ts";
import { type ConfForm, type NetworkConf, parseNetworkConf, parsePluginConf, withPlugins } from "./conf.ts";
import { CniError, cniCodes } from "./error.ts";

/** A file of a folder of network configurations: its network, or why it has none. */
export type ConfFile =
  | { readonly file: string; readonly conf: NetworkConf }
  | { readonly file: string; readonly problem: CniError };

/**
 * Folders of network configurations, in order. The first folder with a configuration, even a broken one, decides: pods get its first
 * network, and no later folder is read.
 */
export type ConfDirs = readonly [string, ...(readonly string[])];

type ConfFiles = Pick<Files, "list" | "read">;

const MAX_FILE_BYTES = 1 << 20;

/**
 * Reads the networks of a folder, in the order of the file names: container runtimes use the first one. Files with other
 * endings than `.conf`, `.conflist` and `.json` are no networks. A list whose `loadOnlyInlinedPlugins` is false also gets the
 * plugins of the `.conf` files in the folder of its name. A network whose name an earlier file has is a problem. Rejects with
 * `FilesError` if the folder cannot be read; one that does not exist is empty.
 */
export async function readConfDir(files: ConfFiles, confDir: string): Promise<readonly ConfFile[]> {
  const found: ConfFile[] = [];
  for (const name of await namesIn(files, confDir, /\.(conf|conflist|json)$/)) {
    const file = `${confDir}/${name}`;
    const entry = await readConfFile(files, confDir, file);
    const earlier =
      "conf" in entry ? found.find((one) => "conf" in one && one.conf.name === entry.conf.name) : undefined;
    found.push("conf" in entry && earlier !== undefined ? { file, problem: duplicate(entry, earlier.file) } : entry);
  }
  return found;
}

/** Reads the folder that decides; the first one if none has a configuration. Rejects as `readConfDir` does. */
export async function readConfDirs(
  files: ConfFiles,
  confDirs: ConfDirs,
): Promise<{ readonly confDir: string; readonly found: readonly ConfFile[] }> {
  for (const confDir of confDirs) {
    const found = await readConfDir(files, confDir);
    if (found.length > 0) return { confDir, found };
  }
  return { confDir: confDirs[0], found: [] };
}

/** Whether a folder decides, perhaps by a file or a folder that cannot be read. */
export async function hasConfiguration(files: ConfFiles, confDirs: ConfDirs): Promise<boolean> {
  return await readConfDirs(files, confDirs).then(
    ({ found }) => found.length > 0,
    () => true,
  );
}

/** The network that serves pods, and its folder. Rejects as `loadNetwork`. */
export async function loadFirstNetwork(
  files: ConfFiles,
  confDirs: ConfDirs,
): Promise<{ readonly confDir: string; readonly conf: NetworkConf }> {
  const { confDir, found } = await readConfDirs(files, confDirs);
  return { confDir, conf: chooseNetwork(confDir, found) };
}

/**
 * The network with this name, or the one that container runtimes use if none is named.
 *
 * @throws CniError with code 7 if there is none; for the network of the runtimes also the problem of its file
 */
export async function loadNetwork(files: ConfFiles, confDir: string, name?: string): Promise<NetworkConf> {
  return chooseNetwork(confDir, await readConfDir(files, confDir), name);
}

function chooseNetwork(confDir: string, found: readonly ConfFile[], name?: string): NetworkConf {
  const [first] = found;
  if (first === undefined)
    throw new CniError(
      cniCodes.invalidNetworkConf,
      `${confDir} has no network configuration: it must hold a file that ends with .conflist, .conf or .json`,
    );
  if (name === undefined) {
    if ("conf" in first) return first.conf;
    throw first.problem;
  }
  const networks = found.flatMap((entry) => ("conf" in entry ? [entry.conf] : []));
  const network = networks.find((conf) => conf.name === name);
  if (network !== undefined) return network;
  const problems = found.flatMap((entry) => ("problem" in entry ? [entry.problem.message] : []));
  const names = networks.length === 0 ? "no network" : `only ${networks.map((conf) => conf.name).join(", ")}`;
  throw new CniError(
    cniCodes.invalidNetworkConf,
    [`${confDir} has no network ${JSON.stringify(name)}, ${names}`, ...problems].join("; "),
  );
}

async function readConfFile(files: ConfFiles, confDir: string, file: string): Promise<ConfFile> {
  try {
    const conf = parseNetworkConf(await readText(files, file), file, formOf(file));
    const whole = conf.loadOnlyInlinedPlugins ? conf : await withFolder(files, confDir, file, conf);
    if (whole.plugins.length > 0) return { file, conf: whole };
    const message = `${file}: plugins: found none, must be a list of at least one plugin; ${confDir}/${conf.name} has none either`;
    return { file, problem: new CniError(cniCodes.invalidNetworkConf, message) };
  } catch (error) {
    if (error instanceof CniError) return { file, problem: error };
    if (!(error instanceof FilesError)) throw error;
    // The folder of the list's own name cannot be read.
    return { file, problem: new CniError(cniCodes.ioFailure, error.message, { cause: error }) };
  }
}

/** By the ending of its name, as for libcni. */
const formOf = (file: string): ConfForm => (file.endsWith(".conflist") ? "list" : "single plugin");

async function withFolder(files: ConfFiles, confDir: string, file: string, conf: NetworkConf): Promise<NetworkConf> {
  if (!file.endsWith(".conflist")) return conf;
  const folder = `${confDir}/${conf.name}`;
  const more = [];
  for (const name of await namesIn(files, folder, /\.conf$/)) {
    const path = `${folder}/${name}`;
    more.push(parsePluginConf(await readText(files, path), path));
  }
  return withPlugins(conf, more);
}

async function namesIn(files: ConfFiles, folder: string, ending: RegExp): Promise<readonly string[]> {
  const entries = (await files.list(folder)) ?? [];
  return entries.filter(({ name, kind }) => kind !== "directory" && ending.test(name)).map(({ name }) => name);
}

async function readText(files: ConfFiles, file: string): Promise<string> {
  try {
    return await files.read(file, MAX_FILE_BYTES);
  } catch (cause) {
    throw new CniError(cniCodes.ioFailure, messageOf(cause), { cause });
  }
}

function duplicate({ file, conf }: { readonly file: string; readonly conf: NetworkConf }, earlier: string): CniError {
  const message = `${file}: name: found ${JSON.stringify(conf.name)}, must be unique: ${earlier} has it, too, and comes first`;
  return new CniError(cniCodes.invalidNetworkConf, message);
}
