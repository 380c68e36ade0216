import { cniProblemOf, readCniFacts, usualCni } from "../../cni/network-facts.ts";
import { containerdCni, containerdConfig } from "../../cri/containerd-config.ts";
import { CriError } from "../../cri/error.ts";
import type { CriCallOptions, Runtime } from "../../cri/runtime.ts";
import type { RuntimeControl } from "../../cri/runtime-control.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import { withNetworkReady } from "../observed/node/network-condition.ts";

interface NetworkCauseDeps {
  readonly runtime: Pick<RuntimeControl, "verboseStatus">;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "list" | "read" | "stat">;
  readonly log: Pick<Log, "debug">;
}

/**
 * A runtime's status whose condition NetworkReady also says which file or program is missing, since the runtime says only that its
 * network is not initialized. The runtime's words come first. While the network is ready nothing more is read. Rejects as `status`.
 *
 * It does not call STATUS of the plugins. containerd from 2.0 on and CRI-O call it whenever they are asked for their status, and
 * include the plugin's answer in their message: a second call would start each plugin twice. Earlier releases of containerd do not
 * speak CNI 1.1.0, which has introduced STATUS.
 */
export function withNetworkCause(status: Runtime["status"], deps: NetworkCauseDeps): Runtime["status"] {
  return async (options) => {
    const response = await status(options);
    const isNotReady = response.status?.conditions.some(({ type, status: is }) => type === "NetworkReady" && !is);
    const cause = isNotReady === true ? await readCause(deps, options) : undefined;
    if (cause === undefined) return response;
    return withNetworkReady(response, (condition) => {
      const { message } = condition;
      return { ...condition, message: message === "" ? cause : `${message}: ${cause}` };
    });
  };
}

/** Undefined if what the runtime uses is in order, or cannot be read. */
async function readCause(
  { runtime, files, log }: NetworkCauseDeps,
  options: CriCallOptions | undefined,
): Promise<string | undefined> {
  try {
    const folders = containerdCni(containerdConfig(await runtime.verboseStatus(options))) ?? usualCni;
    return cniProblemOf(await readCniFacts(files, folders));
  } catch (error) {
    if (!(error instanceof CriError || error instanceof FilesError)) throw error;
    log.debug({ err: error }, "cannot read the network configuration of the container runtime");
    return undefined;
  }
}
