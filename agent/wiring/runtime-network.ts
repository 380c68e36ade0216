import { cniProblemOf, missingBinaries, readCniFacts, usualCni } from "../../cni/network-facts.ts";
import { type CniFolders, containerdCni, containerdConfig } from "../../cri/containerd-config.ts";
import { CriError } from "../../cri/error.ts";
import type { CriCallOptions, Runtime } from "../../cri/runtime.ts";
import type { RuntimeControl } from "../../cri/runtime-control.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import { withNetworkProblem, withNetworkReady } from "../observed/node/network-condition.ts";

interface NetworkCauseDeps {
  readonly runtime: Pick<RuntimeControl, "verboseStatus">;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "list" | "read" | "stat">;
  readonly log: Pick<Log, "debug">;
}

/**
 * A runtime's status whose condition NetworkReady also knows the files of its network. If it is not ready, it says which file or
 * program is missing, after the runtime's words, which say only that its network is not initialized. If the runtime calls it ready
 * and its list needs a binary that is missing, it is not: every pod would fail. Rejects as `status`.
 *
 * It does not call STATUS of the plugins. containerd from 2.0 on and CRI-O call it whenever they are asked for their status, and
 * include the plugin's answer in their message: a second call would start each plugin twice. Earlier releases of containerd do not
 * speak CNI 1.1.0, which has introduced STATUS.
 */
export function withNetworkCause(status: Runtime["status"], deps: NetworkCauseDeps): Runtime["status"] {
  // While the network is ready the runtime is asked once for its folders: its configuration changes only when it starts again.
  let known: { readonly folders: CniFolders | undefined } | undefined;
  return async (options) => {
    const response = await status(options).catch((error: unknown) => {
      known = undefined;
      throw error;
    });
    const condition = response.status?.conditions.find(({ type }) => type === "NetworkReady");
    if (condition === undefined) return response;
    if (condition.status) {
      known ??= await readOrLog(deps, async () => ({ folders: await readFolders(deps, options) }));
      const folders = known?.folders;
      // Without the runtime's own folders nothing contradicts it.
      const missing = folders && (await readOrLog(deps, async () => missingBinaries(await readFacts(deps, folders))));
      // It may have started again with other folders.
      if (missing !== undefined) known = undefined;
      return withNetworkProblem(response, missing);
    }
    known = undefined;
    const cause = await readOrLog(deps, async () => {
      return cniProblemOf(await readFacts(deps, (await readFolders(deps, options)) ?? usualCni));
    });
    if (cause === undefined) return response;
    return withNetworkReady(response, (one) => ({
      ...one,
      message: one.message === "" ? cause : `${one.message}: ${cause}`,
    }));
  };
}

const readFacts = ({ files }: NetworkCauseDeps, folders: CniFolders) => readCniFacts(files, folders);

/** Undefined for a runtime that does not tell them. */
const readFolders = async ({ runtime }: NetworkCauseDeps, options: CriCallOptions | undefined) =>
  containerdCni(containerdConfig(await runtime.verboseStatus(options)));

/** Undefined if it cannot be read. */
async function readOrLog<T>({ log }: NetworkCauseDeps, read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof CriError || error instanceof FilesError)) throw error;
    log.debug({ err: error }, "cannot read the network configuration of the container runtime");
    return undefined;
  }
}
