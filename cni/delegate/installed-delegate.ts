import { dirname } from "node:path/posix";
import type { Files } from "../../host/fs/files.ts";
import { readConfDir } from "../conf-dir.ts";
import { DELEGATE_LIST_FILE } from "../delegate-network.ts";
import { CniError } from "../error.ts";
import { type DelegateConf, delegateOf } from "./delegate-conf.ts";

/** What an agent is configured to do with the network of pods. */
export interface NetworkOwnerOptions {
  /** `--network`: `NetworkSource` of the configuration says what each means. */
  readonly source: "auto" | "chain" | "builtin";
  /** `auto`: the agent, if the installed delegate names its socket; else the runtime. */
  readonly owner: "auto" | "agent" | "runtime";
  /** The folder of the delegate's list. */
  readonly delegateDir: string;
}

/** Who executes the network of pods, or why an agent with this configuration does not start, and what to do. */
export type FoundNetworkOwner =
  | { readonly by: "runtime" }
  | { readonly by: "agent"; readonly delegate: DelegateConf }
  | { readonly by: "none"; readonly problem: string; readonly cure: string };

export interface InstalledDelegateDeps {
  /** Rooted at `/`. */
  readonly files: Pick<Files, "list" | "read">;
  /** The agent's socket for the delegate. */
  readonly socket: string;
  /** A broken file of a folder without the delegate. */
  readonly onBroken?: (file: string, problem: CniError) => void;
}

/** The owner `agent` needs an installed delegate that names its socket; so does `--network=builtin`. Rejects with `FilesError`. */
export async function findNetworkOwner(
  options: NetworkOwnerOptions,
  deps: InstalledDelegateDeps,
): Promise<FoundNetworkOwner> {
  const { source, owner, delegateDir } = options;
  const { socket } = deps;
  const isBuiltin = source === "builtin";
  if (owner === "runtime") {
    if (!isBuiltin) return { by: "runtime" };
    const problem = "--network=builtin: only the agent executes it, and the network's owner is runtime";
    return { by: "none", problem, cure: "set --network-owner=agent" };
  }
  const uninstalled = (problem: string): FoundNetworkOwner => ({
    by: "none",
    problem,
    cure: cureOfDelegate(options, socket),
  });
  let delegate: DelegateConf | undefined;
  try {
    delegate = await readDelegate(delegateDir, deps);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    return uninstalled(`cannot read the list of berth-cni: ${error.message}`);
  }
  if (delegate?.socket === socket) return { by: "agent", delegate };
  // Another agent of this machine may own the installed delegate.
  if (owner === "auto" && !isBuiltin) return { by: "runtime" };
  const found =
    delegate === undefined ? "has no list with berth-cni" : `has the socket ${delegate.socket}, not ${socket}`;
  return uninstalled(`${isBuiltin ? "--network=builtin" : "--network-owner=agent"}: ${delegateDir} ${found}`);
}

/** What makes an agent with this socket start that finds no usable delegate. */
export function cureOfDelegate(
  { source, delegateDir }: Pick<NetworkOwnerOptions, "source" | "delegateDir">,
  socket: string,
): string {
  const otherwise = source === "builtin" ? "leave out --network=builtin" : "set --network-owner=runtime";
  const install = `berth cni install --conf-dir ${delegateDir} --root-dir ${dirname(socket)}`;
  const elsewhere = "for a list in another folder set --network-delegate-dir";
  return `${install}, then conf_dir = "${delegateDir}" in the runtime's configuration, and restart it and the agent; ${elsewhere}; or ${otherwise}`;
}

/** Rejects with `CniError` for a list of berth-cni that cannot be used. */
async function readDelegate(
  delegateDir: string,
  { files, onBroken }: InstalledDelegateDeps,
): Promise<DelegateConf | undefined> {
  const entries = await readConfDir(files, delegateDir);
  for (const entry of entries) {
    const delegate = "conf" in entry ? delegateOf(entry.conf) : undefined;
    if (delegate !== undefined) return delegate;
  }
  for (const entry of entries) {
    if (!("problem" in entry)) continue;
    const { file, problem } = entry;
    if (file === `${delegateDir}/${DELEGATE_LIST_FILE}`) throw problem;
    onBroken?.(file, problem);
  }
  return undefined;
}
