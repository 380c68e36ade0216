import { readConfDir, readConfDirs } from "../../cni/conf-dir.ts";
import { findConfDirs } from "../../cni/delegate/builtin-list.ts";
import { type DelegateConf, delegateOf } from "../../cni/delegate/delegate-conf.ts";
import { CniError } from "../../cni/error.ts";
import { type CallFolders, suggestedFlags } from "./suggested-cni-command.ts";
import type { CniVerbDeps } from "./verbs.ts";

/** An agent that executes the networks of pods on this machine. */
export interface InstalledAgent extends Pick<DelegateConf, "socket" | "binDirs" | "cacheDir"> {
  /** The folder whose first network the agent executes. */
  readonly confDir: string;
  readonly hasNetwork: boolean;
}

type AgentsDeps = Pick<CniVerbDeps, "files" | "findDelegateDirs">;

/** The agents that execute the networks of pods on this machine, by what `berth cni install` has written. Rejects with `FilesError`. */
export async function findInstalledAgents({ files, findDelegateDirs }: AgentsDeps): Promise<readonly InstalledAgent[]> {
  const agents: InstalledAgent[] = [];
  for (const folder of await findDelegateDirs())
    for (const entry of await readConfDir(files, folder)) {
      const delegate = "conf" in entry ? delegateIfUsable(entry.conf) : undefined;
      if (delegate === undefined) continue;
      const { socket, binDirs, cacheDir } = delegate;
      const { confDir, found } = await readConfDirs(files, await findConfDirs(files, delegate));
      agents.push({ socket, binDirs, cacheDir, confDir, hasNetwork: found.length > 0 });
    }
  return agents;
}

/**
 * Adds to the error of a folder without a configuration where this machine's agents have their networks; returns any other error unchanged.
 * Rejects with `FilesError`.
 */
export async function withNetworksOfAgents(
  error: CniError,
  call: Pick<CallFolders, "confDir">,
  deps: AgentsDeps,
): Promise<CniError> {
  if ((await readConfDir(deps.files, call.confDir)).length > 0) return error;
  const agents = (await findInstalledAgents(deps)).filter(
    ({ confDir, hasNetwork }) => hasNetwork && confDir !== call.confDir,
  );
  if (agents.length === 0) return error;
  const hints = agents.map(({ socket, ...folders }) => {
    const flags = suggestedFlags(folders);
    return `; the agent on ${socket} executes the first network of ${folders.confDir} for pods: repeat this command with ${flags}`;
  });
  return new CniError(error.code, `${error.message}${hints.join("")}`, { cause: error });
}

function delegateIfUsable(conf: Parameters<typeof delegateOf>[0]): ReturnType<typeof delegateOf> {
  try {
    return delegateOf(conf);
  } catch (error) {
    if (error instanceof CniError) return undefined;
    throw error;
  }
}
