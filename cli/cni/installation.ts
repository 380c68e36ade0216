import { dirname, join } from "node:path/posix";
import { BUILTIN_TYPE } from "../../cni/builtin/network-conf.ts";
import type { RecordedAttachment } from "../../cni/builtin/recorded-attachments.ts";
import { type CacheEntry, cacheFileName } from "../../cni/cache-entry.ts";
import { cachedConfIfUsable } from "../../cni/cached-conf.ts";
import { readConfDir } from "../../cni/conf-dir.ts";
import { type DelegateConf, delegateOf, formatDelegateList } from "../../cni/delegate/delegate-conf.ts";
import { isOfDelegate } from "../../cni/delegate/delegate-entry.ts";
import { containsDelegate, DELEGATE_LIST_FILE, DELEGATE_TYPE } from "../../cni/delegate-network.ts";
import { CniError, cniCodes } from "../../cni/error.ts";
import type { ResultCache } from "../../cni/result-cache.ts";
import type { Files } from "../../host/fs/files.ts";
import { fitsSocketPath, MAX_SOCKET_PATH_BYTES } from "../../proto/socket-path.ts";
import type { CniSettings } from "./settings.ts";

/** How long berth-cni waits for one call of all plugins before it fails with code 11; more than the executor gives one plugin. */
const TIMEOUT_MS = 120_000;

type Paths = Pick<CniSettings, "confDir" | "chainDir" | "binDirs" | "cacheDir" | "socket">;

export interface InstallationDeps {
  /** Rooted at `/`. */
  readonly files: Pick<
    Files,
    "list" | "read" | "readEnd" | "write" | "link" | "readLink" | "stat" | "rename" | "makeFolder" | "remove"
  >;
  readonly cache: Pick<ResultCache, "list" | "remove">;
  /** The attachments of built-in networks whose ADD an executor with this cache has started. Throws `CniError`. */
  readonly recordedAttachments: () => readonly RecordedAttachment[];
  /** The path of this program; undefined if it runs from source, so that no runtime can start it. */
  readonly program: string | undefined;
  /** The static form of the plugin; undefined if this program was built without it. */
  readonly staticDelegate: Uint8Array | undefined;
}

interface Installation {
  /** The delegate's list. */
  readonly list: string;
  /** The plugin that the runtime calls: its static form, or a link to this program. */
  readonly binary: string;
}

/**
 * Makes the delegate the network of a container runtime: writes its list into the runtime's own folder, and its plugin into the first
 * folder of plugins, in the static form if this program has it. The list comes last, so that a runtime that reads it finds the plugin.
 * `hasChain` says whether there is a network that the delegate executes. Rejects with `CniError` code 4 for folders that do not fit and
 * for a plugin file of another maker, and with `FilesError`.
 */
export async function installDelegate(
  paths: Paths,
  deps: InstallationDeps,
): Promise<Installation & { readonly hasChain: boolean }> {
  const { confDir, chainDir, binDirs, cacheDir, socket } = paths;
  const { files, program, staticDelegate } = deps;
  if (program === undefined)
    throw invalid(
      "only the compiled program can be a plugin; npm run build makes it, and dist/berth cni install works",
    );
  if (confDir === chainDir)
    throw invalid(
      `--conf-dir: found ${confDir}, must be another folder than --chain-dir: it gets the delegate's list alone`,
    );
  if (!fitsSocketPath(socket))
    throw invalid(`--root-dir: ${socket} is longer than the ${MAX_SOCKET_PATH_BYTES} bytes of a socket's path`);
  const { list, binary } = installationOf(paths);
  const others = (await readConfDir(files, confDir)).map(({ file }) => file).filter((file) => file !== list);
  if (others.length > 0)
    throw invalid(
      `--conf-dir: ${confDir} also holds ${others.join(", ")}; must be a folder for the delegate's list alone`,
    );
  const looping = await networkWithDelegate(files, chainDir);
  if (looping !== undefined)
    throw invalid(`--chain-dir: ${looping.file} contains ${DELEGATE_TYPE}, which would call itself without end`);
  if ((await files.stat(binary)) !== undefined && !(await isInstalled(binary, files)))
    throw invalid(`--bin-dir: ${binary} is a file that berth cni install has not made; remove it`);
  await files.makeFolder(dirname(binary), 0o755);
  await installBinary(binary, program, { files, staticDelegate });
  await files.makeFolder(confDir, 0o755);
  const delegate: DelegateConf = { socket, confDir: chainDir, binDirs, cacheDir, timeoutMs: TIMEOUT_MS };
  await files.write(list, formatDelegateList(delegate), 0o644);
  return { list, binary, hasChain: (await readConfDir(files, chainDir)).length > 0 };
}

/**
 * Removes the delegate: first the list, then the plugin, and what the runtime has cached of it; resolves with both paths, and whether
 * there was one. Rejects with `FilesError`, and with `CniError` code 4 for other folders than those of the list, and while the built-in
 * network has attachments, also one whose file in the cache is torn: a runtime has no binary that could remove them.
 */
export async function uninstallDelegate(
  paths: Pick<Paths, "confDir" | "binDirs" | "cacheDir">,
  { files, cache, recordedAttachments }: Pick<InstallationDeps, "files" | "cache" | "recordedAttachments">,
): Promise<Installation & { readonly wasInstalled: boolean }> {
  const { list, binary } = installationOf(paths);
  const installed = (await networkWithDelegate(files, paths.confDir))?.conf;
  const delegate = installed && delegateOf(installed);
  if (delegate !== undefined) checkSameFolders(paths, delegate, list);
  const { entries, unreadable } = await cache.list();
  const torn = new Set(unreadable.map(({ fileName }) => fileName));
  const ofTorn = recordedAttachments().filter((each) => torn.has(cacheFileName(each)));
  const names = [...entries.filter(isOfBuiltin).map(nameOf), ...ofTorn.map(({ containerId }) => containerId)];
  if (names.length > 0)
    throw invalid(`the built-in network has attachments, which only Berth can remove: ${names.join(", ")}`);
  await files.remove(list);
  const hasBinary = await isInstalled(binary, files);
  if (hasBinary) await files.remove(binary);
  // It may be left over, where another program has replaced the plugin, or where an install was killed.
  if ((await files.readLink(programLinkOf(binary))) !== undefined) await files.remove(programLinkOf(binary));
  // The runtime deletes the pods that run from the chain now, and would leave what it has cached of the delegate.
  const { socket } = delegate ?? {};
  if (socket !== undefined)
    for (const entry of entries.filter((one) => isOfDelegate(one, socket))) await cache.remove(entry);
  return { list, binary, wasInstalled: delegate !== undefined || hasBinary };
}

/** The link to this program beside the static form, which executes it when the agent is away. */
const programLinkOf = (binary: string) => `${binary}.program`;

/**
 * Words of berth-cni.c, by which its static form is known, of whatever release.
 *
 * @internal
 */
export const STATIC_FORM_WORDS = "berth cni install links it";
const MAX_STATIC_FORM_BYTES = 1 << 20;

/** Whether `berth cni install` has made a plugin: a link, or the static form. The link beside that one says nothing: it outlives the plugin. */
async function isInstalled(binary: string, files: InstallationDeps["files"]): Promise<boolean> {
  if ((await files.readLink(binary)) !== undefined) return true;
  if ((await files.stat(binary))?.kind !== "file") return false;
  return (await files.readEnd(binary, MAX_STATIC_FORM_BYTES)).includes(STATIC_FORM_WORDS);
}

/** Replaces the plugin atomically, since a runtime may call it at any time. */
async function installBinary(
  binary: string,
  program: string,
  { files, staticDelegate }: Pick<InstallationDeps, "files" | "staticDelegate">,
): Promise<void> {
  await files.link(programLinkOf(binary), program);
  if (staticDelegate === undefined) await files.rename(programLinkOf(binary), binary);
  else await files.write(binary, staticDelegate, 0o755);
}

/** With other folders it would ask another cache, and leave the plugin. */
function checkSameFolders(paths: Pick<Paths, "binDirs" | "cacheDir">, delegate: DelegateConf, list: string): void {
  if (delegate.cacheDir !== paths.cacheDir)
    throw invalid(`--cache-dir: found ${paths.cacheDir}, must be ${delegate.cacheDir} as in ${list}`);
  const [found, wanted] = [paths.binDirs.join(":"), delegate.binDirs.join(":")];
  if (found !== wanted) throw invalid(`--bin-dir: found ${found}, must be ${wanted} as in ${list}`);
}

function installationOf({ confDir, binDirs }: Pick<Paths, "confDir" | "binDirs">): Installation {
  return { list: join(confDir, DELEGATE_LIST_FILE), binary: join(binDirs[0] ?? "", DELEGATE_TYPE) };
}

async function networkWithDelegate(files: InstallationDeps["files"], folder: string) {
  const found = await readConfDir(files, folder);
  return found.flatMap((entry) => ("conf" in entry && containsDelegate(entry.conf) ? [entry] : []))[0];
}

function isOfBuiltin(entry: CacheEntry): boolean {
  return cachedConfIfUsable(entry)?.plugins.some(({ type }) => type === BUILTIN_TYPE) === true;
}

/** `shop/web`, or the id of a container that is no pod's. */
function nameOf({ args, containerId }: CacheEntry): string {
  const [namespace, pod] = [args.get("K8S_POD_NAMESPACE"), args.get("K8S_POD_NAME")];
  return namespace === undefined || pod === undefined ? containerId : `${namespace}/${pod}`;
}

const invalid = (message: string) => new CniError(cniCodes.invalidEnvironment, message);
