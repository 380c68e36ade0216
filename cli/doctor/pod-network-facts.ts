import type { Config } from "../../agent/config/config.ts";
import { NETWORK_SOCKET } from "../../agent/config/local-socket.ts";
import { BUILTIN_TYPE } from "../../cni/builtin/network-conf.ts";
import { parseNetworkConf } from "../../cni/conf.ts";
import { readConfDir, readConfDirs } from "../../cni/conf-dir.ts";
import {
  type BuiltinListUse,
  type BuiltinUse,
  builtinFolderOf,
  builtinListOf,
  builtinUseOf,
  findConfDirs,
  formatBuiltinList,
  standaloneRanges,
} from "../../cni/delegate/builtin-list.ts";
import { type DelegateConf, delegateOf } from "../../cni/delegate/delegate-conf.ts";
import { type FoundNetworkOwner, findNetworkOwner } from "../../cni/delegate/installed-delegate.ts";
import { findRuntimeFolderProblem, type RuntimeFolderProblem } from "../../cni/delegate/runtime-folder.ts";
import { DELEGATE_TYPE } from "../../cni/delegate-network.ts";
import { CniError } from "../../cni/error.ts";
import { bridgesOf, type CniFacts, readCniFacts } from "../../cni/network-facts.ts";
import type { Files } from "../../host/fs/files.ts";
import { shellWord } from "../../proto/shell-word.ts";

/** The network that pods get by the delegate. */
export interface PodNetworkFacts {
  /** Who executes it with this configuration. */
  readonly owner: FoundNetworkOwner;
  /** Why the runtime does not call the delegate of this configuration, or calls another one; undefined also if it does not say which folder it reads. */
  readonly folderProblem: RuntimeFolderProblem | undefined;
  /** The network that an agent of this machine executes; undefined if the runtime executes it. */
  readonly executed: CniFacts | undefined;
  /** The addresses of pods if `executed` is the built-in network of this configuration; empty in a cluster, where they are the Node object's. */
  readonly builtinRanges: readonly string[] | undefined;
  /** Whether the configuration names no cluster. */
  readonly isStandalone: boolean;
  /** Whether an agent with this configuration executes the built-in network while `--chain-dir` has no configuration. */
  readonly isBuiltinFallback: boolean;
}

type PodNetworkConfig = Pick<Config, "network" | "rootDir" | "clusterConfigSource">;

/**
 * Reads who executes the network of pods, and which network an agent executes. `runtimeDir` is the folder that the runtime reads;
 * undefined if it does not say. Rejects with `FilesError`.
 */
export async function readPodNetworkFacts(
  files: Pick<Files, "list" | "read" | "stat" | "realPath">,
  config: PodNetworkConfig,
  runtimeDir: string | undefined,
): Promise<PodNetworkFacts> {
  const { network, rootDir } = config;
  const socket = `${rootDir}/${NETWORK_SOCKET}`;
  const owner = await findNetworkOwner(network, { files, socket });
  const folderProblem =
    owner.by === "agent" && runtimeDir !== undefined
      ? await findRuntimeFolderProblem(files, runtimeDir, network.delegateDir)
      : await findOtherFolder(files, network, { socket, runtimeDir });
  const isStandalone = config.clusterConfigSource === undefined;
  const use = builtinUseOf(network.source, !isStandalone);
  const { isBuiltin, executed } = await readExecuted(files, config, { socket, use, owner, runtimeDir });
  const builtinRanges = isBuiltin ? rangesOf(config) : undefined;
  const isBuiltinFallback = use === "asFallback";
  return { owner, folderProblem, executed, builtinRanges, isStandalone, isBuiltinFallback };
}

/** The runtime may call a delegate of this agent that is in another folder than the configured one: then the agent does not serve it. */
async function findOtherFolder(
  files: Pick<Files, "list" | "read">,
  { owner, delegateDir }: Config["network"],
  { socket, runtimeDir }: Pick<ExecutedNetworkInput, "socket" | "runtimeDir">,
): Promise<RuntimeFolderProblem | undefined> {
  if (owner === "runtime" || runtimeDir === undefined) return undefined;
  const installed = await delegateIn(files, runtimeDir);
  if (installed?.socket !== socket) return undefined;
  return {
    found: `the container runtime calls the berth-cni of ${runtimeDir} for this agent, which looks for it in ${delegateDir}`,
    cure: `set --network-delegate-dir=${shellWord(runtimeDir)} for berth run, and restart the agent`,
  };
}

interface ExecutedNetworkInput {
  readonly socket: string;
  readonly use: BuiltinUse;
  readonly owner: FoundNetworkOwner;
  readonly runtimeDir: string | undefined;
}

async function readExecuted(
  files: Pick<Files, "list" | "read" | "stat">,
  config: PodNetworkConfig,
  { socket, use, owner, runtimeDir }: ExecutedNetworkInput,
): Promise<Pick<PodNetworkFacts, "executed"> & { readonly isBuiltin: boolean }> {
  const readOwn = async (kept: BuiltinListUse) => ({
    executed: await readBuiltin(files, config, { socket, use: kept }),
    isBuiltin: true,
  });
  if (use === "insteadOfChain") return await readOwn(use);
  const executed = await readNetworkOfDelegate(files, owner, runtimeDir);
  const isMissing = owner.by === "agent" && executed?.file === undefined;
  return isMissing && use === "asFallback" ? await readOwn(use) : { executed, isBuiltin: false };
}

const rangesOf = ({ network: { podCIDRs }, clusterConfigSource }: PodNetworkConfig): readonly string[] =>
  clusterConfigSource === undefined ? standaloneRanges(podCIDRs) : [];

async function readNetworkOfDelegate(
  files: Pick<Files, "list" | "read" | "stat">,
  owner: FoundNetworkOwner,
  runtimeDir: string | undefined,
): Promise<CniFacts | undefined> {
  // Another agent's delegate may be the runtime's network.
  const delegate = owner.by === "agent" ? owner.delegate : await delegateIn(files, runtimeDir);
  if (delegate === undefined) return undefined;
  const { confDir } = owner.by === "agent" ? delegate : await readConfDirs(files, await findConfDirs(files, delegate));
  const found = await readCniFacts(files, { confDir, binDirs: delegate.binDirs }, [BUILTIN_TYPE]);
  if (!found.plugins.includes(DELEGATE_TYPE)) return found;
  return { ...found, problem: `${found.file} contains ${DELEGATE_TYPE}, which would call itself without end` };
}

/** The delegate in the first list of a folder. */
async function delegateIn(
  files: Pick<Files, "list" | "read">,
  folder: string | undefined,
): Promise<DelegateConf | undefined> {
  const [first] = folder === undefined ? [] : await readConfDir(files, folder);
  if (first === undefined || "problem" in first) return undefined;
  try {
    return delegateOf(first.conf);
  } catch (error) {
    // Its agent does not start with this list, and says why.
    if (error instanceof CniError) return undefined;
    throw error;
  }
}

/** The built-in network of an agent, whose list exists only after its start; in a cluster with the pod CIDRs of the Node object. */
async function readBuiltin(
  files: Pick<Files, "list" | "read" | "stat">,
  config: PodNetworkConfig,
  { socket, use }: { readonly socket: string; readonly use: BuiltinListUse },
): Promise<CniFacts> {
  const found = await readCniFacts(files, { confDir: builtinFolderOf(socket, use), binDirs: [] }, [BUILTIN_TYPE]);
  const isInCluster = config.clusterConfigSource !== undefined;
  if (isInCluster && found.file !== undefined) return found;
  const file = builtinListOf(socket, use);
  const { problem: _, ...rest } = found;
  const list = formatBuiltinList(rangesOf(config));
  const bridges = bridgesOf(parseNetworkConf(list, file, "list"));
  return { ...rest, file, plugins: [BUILTIN_TYPE], missingPlugins: [], notExecutable: [], bridges };
}
