import type { Clock } from "../host/clock.ts";
import type { Exec } from "../host/exec.ts";
import type { Files } from "../host/fs/files.ts";
import type { Netlink } from "../host/netlink/netlink.ts";
import { type AttachmentLocks, type AttachmentLocksDeps, createAttachmentLocks } from "./attachment-locks.ts";
import { BUILTIN_TYPE } from "./builtin/network-conf.ts";
import { createBuiltinNetwork } from "./builtin/plugin.ts";
import { type RecordedAttachment, recordedAttachments } from "./builtin/recorded-attachments.ts";
import { type IdleRemoval, removeIdleNetworks } from "./builtin/remove-network.ts";
import { type Cni, createCni } from "./network.ts";
import { createPluginBinaries, type PluginBinaries } from "./plugin-binaries.ts";
import type { InProcessPlugin } from "./plugin-call.ts";
import { createPluginCalls, type PluginCallRecord } from "./plugin-calls.ts";
import { createResultCache, type ResultCache, type UnreadableEntry } from "./result-cache.ts";
import { createSetDefaultRoute, type SetDefaultRoute } from "./secondary/default-route.ts";
import { type TimeLimit, unlimited } from "./time-limit.ts";

export interface ExecutorOptions {
  readonly exec: Exec;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "stat">;
  /** Rooted at the folder of cached results, where the locks are, too. */
  readonly cacheFiles: Files;
  readonly netlink: Netlink;
  readonly clock: Clock;
  /** The folders of the plugins' binaries, the first one first. */
  readonly binDirs: readonly string[];
  /** The environment of this process, which is also that of the plugins: many run iptables and need its PATH. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Written into the files of the locks that this process holds. */
  readonly description: string;
  readonly onUnreadable: (entry: UnreadableEntry) => void;
  readonly onLongWait?: AttachmentLocksDeps["onLongWait"];
  /** Whether this process lives on after a call, as the agent does, and may defer the deletion of links. */
  readonly isDaemon?: boolean;
}

/** What executes the networks of this machine: binaries, the built-in network, the cache, and locks across processes. */
export interface Executor {
  readonly cache: ResultCache;
  readonly locks: AttachmentLocks;
  readonly setDefaultRoute: SetDefaultRoute;
  readonly binaries: PluginBinaries;
  /** The plugins of this process by their `type`. */
  readonly inProcess: ReadonlyMap<string, InProcessPlugin>;
  /** The attachments of built-in networks whose ADD an executor with this cache has started. Throws `CniError`. */
  recordedAttachments(): readonly RecordedAttachment[];
  /** Removes the built-in networks that have no pods. Rejects with `CniError`, and with the signal's reason when that aborts. */
  removeIdleNetworks(signal: AbortSignal): Promise<IdleRemoval>;
  /**
   * Executes networks, and calls `onCall` after each call of a plugin. `timeLimit` is that of the one call for which it is created; without
   * it each plugin has the time of a plugin.
   */
  createCni(onCall: (record: PluginCallRecord) => void, timeLimit?: TimeLimit): Cni;
}

/** A plugin may take as long as a DHCP server takes to answer. */
const PLUGIN_TIMEOUT_MS = 90_000;

/** The record of the built-in network. Nothing of it outlives a boot. */
const BUILTIN_FOLDER = "/run/berth/network";

/** Creates an executor. Any number of processes may have one on the same folders: an attachment has one executor at a time. */
export function createExecutor(options: ExecutorOptions): Executor {
  const { exec, files, cacheFiles, netlink, clock, binDirs, onUnreadable, isDaemon = false } = options;
  const { description, onLongWait } = options;
  const env = Object.fromEntries(
    Object.entries(options.env).flatMap(([name, value]) => (value ? [[name, value]] : [])),
  );
  const binaries = createPluginBinaries({ exec, files, binDirs, env, timeoutMs: PLUGIN_TIMEOUT_MS });
  const cache = createResultCache({ files: cacheFiles, clock, onUnreadable });
  const builtin = createBuiltinNetwork({
    ...{ netlink, folder: BUILTIN_FOLDER, cacheDir: cacheFiles.root },
    deferredRemovalClock: isDaemon ? clock : undefined,
  });
  const inProcess: ReadonlyMap<string, InProcessPlugin> = new Map([[BUILTIN_TYPE, builtin]]);
  const locks = createAttachmentLocks({ files: cacheFiles, clock, description, onLongWait });
  return {
    cache,
    locks,
    setDefaultRoute: createSetDefaultRoute(netlink),
    binaries,
    inProcess,
    recordedAttachments: () => recordedAttachments(BUILTIN_FOLDER, cacheFiles.root),
    removeIdleNetworks: (signal) =>
      removeIdleNetworks({ netlink, folder: BUILTIN_FOLDER, locks, cacheDir: cacheFiles.root }, signal),
    createCni: (onCall, timeLimit = unlimited) =>
      createCni({
        createCallPlugin: (shareLocks) =>
          createPluginCalls({ binaries: binaries.forCall(shareLocks, timeLimit), inProcess, clock, timeLimit, onCall }),
        ...{ cache, locks, timeLimit },
      }),
  };
}
