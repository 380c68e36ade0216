import type { Clock } from "../../host/clock.ts";
import type { FileStat, Files } from "../../host/fs/files.ts";
import type { Mounts } from "../../host/fs/mounts.ts";
import type { StatSync } from "../../host/fs/stat-sync.ts";
import { binariesOf, type NetworkConf } from "../conf.ts";
import { CniError, describeCniError } from "../error.ts";
import type { Executor } from "../executor.ts";
import type { Cni } from "../network.ts";
import type { PluginBinaries } from "../plugin-binaries.ts";
import type { PluginCallRecord } from "../plugin-calls.ts";
import { type ExecuteCallDeps, type ExecutedNetwork, loadExecutedNetwork } from "./execute-call.ts";
import { isUnchanged, mayStopAnswering } from "./file-changes.ts";

export interface NetworkReadinessDeps extends Pick<Executor, "inProcess">, Pick<ExecuteCallDeps, "confDirs"> {
  /** Rooted at `/`. */
  readonly files: ExecuteCallDeps["files"] & Pick<Files, "stat" | "readLink">;
  readonly statSync: StatSync;
  readonly mounts: Pick<Mounts, "list">;
  readonly binaries: Pick<PluginBinaries, "find" | "pathsOf">;
  readonly clock: Pick<Clock, "monotonicMs">;
}

export interface NetworkReadiness {
  /**
   * Whether the network was ready when `findProblem` looked last, and nothing has changed since. It takes a few calls of stat(2) and wakes no
   * other thread, so an idle node can ask every few seconds. False also where only `findProblem` can tell.
   */
  isStillReady(): boolean;
  /**
   * Why the network cannot serve ADD: no list, a file that cannot be used, a missing binary, or a plugin's answer to STATUS; undefined
   * if it can. `cni` limits the time of the plugins, so that one that hangs is the problem. `onNetwork` gets the network before its plugins
   * are asked. Rejects with `FilesError`, and with the signal's reason when that aborts.
   */
  findProblem(
    cni: Pick<Cni, "status">,
    signal: AbortSignal,
    onNetwork?: (network: ExecutedNetwork) => void,
  ): Promise<string | undefined>;
  /** A plugin was called for a pod. */
  onCall(call: Pick<PluginCallRecord, "verb" | "network" | "error">): void;
}

/** As long as the relist audit of the runtime waits. */
const ASK_AGAIN_AFTER_MS = 300_000;

/** The metadata of files by their paths, of each from before its content was read; undefined for one that did not exist. */
type FileStats = ReadonlyMap<string, FileStat | undefined>;

/** A network whose plugins have answered STATUS with success. */
interface ReadyNetwork {
  readonly fingerprint: string;
  readonly failedAdds: number;
  readonly askedAtMs: number;
  /** All files that decide; undefined if a file system with one of them may stop answering: stat(2) would stop the agent, too. */
  readonly stats: FileStats | undefined;
}

/**
 * Asks plugins by STATUS whether they can serve ADD. A plugin may become unready at any time, since its daemon has ended or no address is
 * left, and no event says so. Container runtimes ask whenever the kubelet asks them, which starts every plugin every few seconds on an
 * idle node. Here a network that was ready is asked again
 *
 * - when its list or a plugin's binary has changed, or an earlier folder has a list now,
 * - when an ADD of it has failed, whatever the code: 50 and 51 are codes of STATUS; for ADD a plugin uses codes of its own,
 * - after five minutes.
 *
 * A network that is not ready is asked each time. The list is read again when the metadata of a file has changed, which may be one that
 * does not matter, such as another list in the folder.
 */
export function createNetworkReadiness(deps: NetworkReadinessDeps): NetworkReadiness {
  const { files, statSync, confDirs, clock } = deps;
  let ready: ReadyNetwork | undefined;
  let network: string | undefined;
  let failedAdds = 0;

  const needsNoStatus = (asked: ReadyNetwork) =>
    asked.failedAdds === failedAdds && clock.monotonicMs() - asked.askedAtMs < ASK_AGAIN_AFTER_MS;

  return {
    isStillReady() {
      if (ready?.stats === undefined || !needsNoStatus(ready)) return false;
      return [...ready.stats].every(([path, stat]) => isUnchanged(statSync, path, stat));
    },
    async findProblem(cni, signal, onNetwork) {
      try {
        const seen = recordStats(files);
        const executed = await loadExecutedNetwork(seen.files, confDirs);
        onNetwork?.(executed);
        const { conf } = executed;
        network = conf.name;
        const fingerprint = await fingerprintOf(deps, conf, seen.note);
        const stats = (await mayStopAnswering(deps, [...seen.stats.keys()])) ? undefined : seen.stats;
        if (ready?.fingerprint === fingerprint && needsNoStatus(ready)) {
          ready = { ...ready, stats };
          return undefined;
        }
        const asking: ReadyNetwork = { fingerprint, failedAdds, askedAtMs: clock.monotonicMs(), stats };
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

/** Files that note the metadata of what is read. It is noted first, so that a change during the read shows in the next comparison. */
function recordStats(files: NetworkReadinessDeps["files"]) {
  const stats = new Map<string, FileStat | undefined>();
  const note = async (path: string) => {
    if (!stats.has(path)) stats.set(path, await files.stat(path));
  };
  const afterNote = async <T>(path: string, read: () => Promise<T>) => {
    await note(path);
    return await read();
  };
  const recorded: ExecuteCallDeps["files"] = {
    list: (path) => afterNote(path, () => files.list(path)),
    read: (path, maxBytes) => afterNote(path, () => files.read(path, maxBytes)),
  };
  return { files: recorded, note, stats };
}

/**
 * The list and the files of its plugins. Notes the paths of all binaries, since one that appears in an earlier folder takes the place of
 * another. Rejects with `CniError` for a plugin that is missing.
 */
async function fingerprintOf(
  { files, binaries, inProcess }: NetworkReadinessDeps,
  conf: NetworkConf,
  note: (path: string) => Promise<void>,
): Promise<string> {
  const found: unknown[] = [conf.text];
  for (const type of binariesOf(conf)) {
    if (inProcess.has(type)) continue;
    for (const path of binaries.pathsOf(type)) await note(path);
    const path = await binaries.find(type);
    const stat = await files.stat(path);
    found.push(path, stat?.inode, stat?.modifiedMs);
  }
  return JSON.stringify(found);
}
