import { binariesOf } from "../conf.ts";
import { CniError, describeCniError } from "../error.ts";
import type { Executor } from "../executor.ts";
import type { Cni } from "../network.ts";
import type { PluginBinaries } from "../plugin-binaries.ts";
import { type ExecuteCallDeps, loadChain } from "./execute-call.ts";

export interface NetworkReadinessDeps extends Pick<Executor, "inProcess">, Pick<ExecuteCallDeps, "files" | "confDir"> {
  readonly binaries: Pick<PluginBinaries, "find">;
  readonly cni: Pick<Cni, "status">;
}

/**
 * Returns the function that says why the network cannot serve ADD: no list, a file that cannot be used, a missing binary, or a
 * plugin's answer to STATUS; undefined if it can. It starts plugins only for a list that has not been ready yet. Rejects with
 * `FilesError`, and with the signal's reason when that aborts.
 */
export function createNetworkReadiness(
  deps: NetworkReadinessDeps,
): (signal: AbortSignal) => Promise<string | undefined> {
  const { files, confDir, binaries, inProcess, cni } = deps;
  let readyText: string | undefined;
  return async (signal) => {
    try {
      const conf = await loadChain(files, confDir);
      for (const type of binariesOf(conf)) if (!inProcess.has(type)) await binaries.find(type);
      if (conf.text !== readyText) await cni.status(conf, signal);
      readyText = conf.text;
      return undefined;
    } catch (error) {
      readyText = undefined;
      if (error instanceof CniError) return describeCniError(error);
      throw error;
    }
  };
}
