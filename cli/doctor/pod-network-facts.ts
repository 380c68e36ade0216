import type { Config } from "../../agent/config/config.ts";
import { NETWORK_SOCKET } from "../../agent/config/local-socket.ts";
import { BUILTIN_TYPE } from "../../cni/builtin/network-conf.ts";
import { parseNetworkConf } from "../../cni/conf.ts";
import { readConfDir } from "../../cni/conf-dir.ts";
import {
  builtinFolderOf,
  builtinListOf,
  chainFolderOf,
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

/** The network that pods get by the delegate. */
export interface PodNetworkFacts {
  /** Who executes it with this configuration. */
  readonly owner: FoundNetworkOwner;
  /** Why the runtime does not call the delegate of this configuration; undefined also if it does not say which folder it reads. */
  readonly folderProblem: RuntimeFolderProblem | undefined;
  /** The network that an agent of this machine executes; undefined if the runtime executes it. */
  readonly executed: CniFacts | undefined;
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
      : undefined;
  const executed =
    network.source === "builtin" ? await readBuiltin(files, config, socket) : await readChain(files, owner, runtimeDir);
  return { owner, folderProblem, executed };
}

async function readChain(
  files: Pick<Files, "list" | "read" | "stat">,
  owner: FoundNetworkOwner,
  runtimeDir: string | undefined,
): Promise<CniFacts | undefined> {
  // Another agent's delegate may be the runtime's network.
  const delegate = owner.by === "agent" ? owner.delegate : await delegateIn(files, runtimeDir);
  if (delegate === undefined) return undefined;
  // This agent removes the list of an earlier start with --network=builtin.
  const confDir = owner.by === "agent" ? delegate.confDir : await chainFolderOf(files, delegate);
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
  { network: { podCIDRs }, clusterConfigSource }: PodNetworkConfig,
  socket: string,
): Promise<CniFacts> {
  const found = await readCniFacts(files, { confDir: builtinFolderOf(socket), binDirs: [] }, [BUILTIN_TYPE]);
  const isInCluster = clusterConfigSource !== undefined;
  if (isInCluster && found.file !== undefined) return found;
  const file = builtinListOf(socket);
  const { problem: _, ...rest } = found;
  const list = formatBuiltinList(isInCluster ? [] : standaloneRanges(podCIDRs));
  const bridges = bridgesOf(parseNetworkConf(list, file, "list"));
  return { ...rest, file, plugins: [BUILTIN_TYPE], missingPlugins: [], notExecutable: [], bridges };
}
