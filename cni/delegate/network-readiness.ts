import type { Clock } from "../../host/clock.ts";
import type { Files } from "../../host/fs/files.ts";
import { binariesOf, type NetworkConf } from "../conf.ts";
import { CniError, describeCniError } from "../error.ts";
import type { Executor } from "../executor.ts";
import type { Cni } from "../network.ts";
import type { PluginBinaries } from "../plugin-binaries.ts";
import type { PluginCallRecord } from "../plugin-calls.ts";
import { type ExecuteCallDeps, loadChain } from "./execute-call.ts";

export interface NetworkReadinessDeps extends Pick<Executor, "inProcess">, Pick<ExecuteCallDeps, "confDir"> {
  /** Rooted at `/`. */
  readonly files: ExecuteCallDeps["files"] & Pick<Files, "stat">;
  readonly binaries: Pick<PluginBinaries, "find">;
  readonly clock: Pick<Clock, "monotonicMs">;
}

export interface NetworkReadiness {
  /**
   * Why the network cannot serve ADD: no list, a file that cannot be used, a missing binary, or a plugin's answer to STATUS; undefined
   * if it can. `cni` limits the time of the plugins, so that one that hangs is the problem. Rejects with `FilesError`, and with the
   * signal's reason when that aborts.
   */
  findProblem(cni: Pick<Cni, "status">, signal: AbortSignal): Promise<string | undefined>;
  /** A plugin was called for a pod. */
  onCall(call: Pick<PluginCallRecord, "verb" | "network" | "error">): void;
}

/** As long as the relist audit of the runtime waits. */
const ASK_AGAIN_AFTER_MS = 300_000;

/** A network whose plugins have answered STATUS with success. */
interface ReadyNetwork {
  readonly fingerprint: string;
  readonly failedAdds: number;
  readonly askedAtMs: number;
}

/**
 * Asks plugins by STATUS whether they can serve ADD. A plugin may become unready at any time, since its daemon has ended or no address is
 * left, and no event says so. Container runtimes ask whenever the kubelet asks them, which starts every plugin every few seconds on an
 * idle node. Here a network that was ready is asked again
 *
 * - when its list or a plugin's binary has changed,
 * - when an ADD of it has failed, whatever the code: 50 and 51 are codes of STATUS; for ADD a plugin uses codes of its own,
 * - after five minutes.
 *
 * A network that is not ready is asked each time.
 */
export function createNetworkReadiness(deps: NetworkReadinessDeps): NetworkReadiness {
  const { files, confDir, clock } = deps;
  let ready: ReadyNetwork | undefined;
  let network: string | undefined;
  let failedAdds = 0;

  function isStillReady(fingerprint: string, nowMs: number): boolean {
    if (ready === undefined || ready.fingerprint !== fingerprint || ready.failedAdds !== failedAdds) return false;
    return nowMs - ready.askedAtMs < ASK_AGAIN_AFTER_MS;
  }

  return {
    async findProblem(cni, signal) {
      try {
        const conf = await loadChain(files, confDir);
        network = conf.name;
        const fingerprint = await fingerprintOf(deps, conf);
        const asking: ReadyNetwork = { fingerprint, failedAdds, askedAtMs: clock.monotonicMs() };
        if (isStillReady(fingerprint, asking.askedAtMs)) return undefined;
        await cni.status(conf, signal);
        // An ADD that has failed in between makes the next call ask again.
        ready = asking;
        return undefined;
      } catch (error) {
        ready = undefined;
        if (error instanceof CniError) return describeCniError(error);
        throw error;
      }
    },
    onCall(call) {
      if (call.verb === "ADD" && call.error !== undefined && call.network === network) failedAdds += 1;
    },
  };
}

/** The list and the files of its plugins. Rejects with `CniError` for a plugin that is missing. */
async function fingerprintOf({ files, binaries, inProcess }: NetworkReadinessDeps, conf: NetworkConf): Promise<string> {
  const found: unknown[] = [conf.text];
  for (const type of binariesOf(conf)) {
    if (inProcess.has(type)) continue;
    const path = await binaries.find(type);
    const stat = await files.stat(path);
    found.push(path, stat?.inode, stat?.modifiedMs);
  }
  return JSON.stringify(found);
}
