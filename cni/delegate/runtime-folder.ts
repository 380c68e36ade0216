import type { Files } from "../../host/fs/files.ts";
import { type ConfFile, readConfDir } from "../conf-dir.ts";
import { containsDelegate, DELEGATE_TYPE } from "../delegate-network.ts";

/** Why a container runtime does not call the delegate, and what to do. */
export interface RuntimeFolderProblem {
  readonly found: string;
  readonly cure: string;
}

/**
 * Why a container runtime that reads its networks from `confDir` does not call the delegate whose list is in `delegateDir`; undefined
 * if it does, and where there is no such list any more, since `berth cni uninstall` has removed it. Runtimes use the first file of
 * their folder. Rejects with `FilesError`.
 */
export async function findRuntimeFolderProblem(
  files: Pick<Files, "list" | "read" | "realPath">,
  confDir: string,
  delegateDir: string,
): Promise<RuntimeFolderProblem | undefined> {
  const installed = await readConfDir(files, delegateDir);
  if (!installed.some(isDelegate)) return undefined;
  const [read, wanted] = await Promise.all([files.realPath(confDir), files.realPath(delegateDir)]);
  if (read !== wanted)
    return {
      found: `the container runtime reads its networks from ${confDir}, but the list of ${DELEGATE_TYPE} is in ${delegateDir}`,
      cure: `set conf_dir = "${delegateDir}" in its configuration and restart it`,
    };
  const [first] = installed;
  if (first === undefined || isDelegate(first)) return undefined;
  return {
    found: `the container runtime uses ${first.file}, which comes before the list of ${DELEGATE_TYPE}`,
    cure: "remove that file",
  };
}

const isDelegate = (entry: ConfFile) => "conf" in entry && containsDelegate(entry.conf);
