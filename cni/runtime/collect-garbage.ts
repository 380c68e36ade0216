import { isOfPod, keyOfFileName } from "../cache-entry.ts";
import type { NetworkConf } from "../conf.ts";
import type { CollectedGarbage, ListedSandboxes } from "../delegate/collect-garbage.ts";
import { DELEGATE_NETWORK } from "../delegate-network.ts";
import { CniError, throwFailures } from "../error.ts";
import { type CachedAttachment, type Cni, NO_PARAMETERS } from "../network.ts";
import type { ResultCache } from "../result-cache.ts";

export interface RuntimeGarbageDeps {
  /** libcni's cache. */
  readonly cache: Pick<ResultCache, "list">;
  /** Whether a network namespace is mounted at a path. */
  readonly isNamespace: (path: string) => Promise<boolean>;
  /** The network that the container runtime executes now; undefined if there is no usable one. */
  readonly loadNetwork: () => Promise<NetworkConf | undefined>;
  /** Opened only if there is something to delete. */
  readonly openCni: () => Promise<Pick<Cni, "del">>;
}

/** `conf`: undefined for the configuration in the cache. */
interface StaleAttachment {
  readonly attachment: CachedAttachment;
  readonly conf: NetworkConf | undefined;
}

/**
 * Deletes the attachments that a container runtime has made itself and that have outlived their pods, as when it was killed during
 * RunPodSandbox or has lost its state: it calls no DEL for them any more, and their addresses would stay taken.
 *
 * Several runtimes may share the cache, and none of them takes a lock of ours. So this deletes an attachment only if its network
 * namespace is gone, and if no sandbox of this runtime has it, for which the runtime calls DEL itself. It does not call GC of the
 * plugins, during which no ADD may run. Goes on after a failure of a plugin, and rejects with `CniError` at the end; rejects with
 * `FilesError` if the cache cannot be read, and with the signal's reason when that aborts.
 */
export async function collectRuntimeGarbage(
  deps: RuntimeGarbageDeps,
  sandboxes: Pick<ListedSandboxes, "isReady">,
  signal: AbortSignal,
): Promise<CollectedGarbage> {
  const stale = await findStale(deps, sandboxes);
  if (stale.length === 0) return { deleted: [], againAfterMs: undefined };
  const cni = await deps.openCni();
  const failures: CniError[] = [];
  const deleted = [];
  for (const { attachment, conf } of stale) {
    const { network, containerId, ifName } = attachment;
    try {
      await cni.del(network, attachment, conf, signal);
      deleted.push({ network, containerId, ifName });
    } catch (error) {
      if (!(error instanceof CniError)) throw error;
      failures.push(error);
    }
  }
  throwFailures(failures);
  return { deleted, againAfterMs: undefined };
}

async function findStale(
  { cache, isNamespace, loadNetwork }: RuntimeGarbageDeps,
  { isReady }: Pick<ListedSandboxes, "isReady">,
): Promise<readonly StaleAttachment[]> {
  // A torn file is set aside by this: with it the runtime's own DEL would fail for ever.
  const { entries, unreadable } = await cache.list();
  const stale: StaleAttachment[] = [];
  for (const entry of entries) {
    if (!isOfPod(entry) || isReady.has(entry.containerId) || entry.network === DELEGATE_NETWORK) continue;
    if (entry.netns !== "" && !(await isNamespace(entry.netns))) stale.push({ attachment: entry, conf: undefined });
  }
  const conf = unreadable.length === 0 ? undefined : await loadNetwork();
  for (const { fileName } of conf === undefined ? [] : unreadable) {
    const key = keyOfFileName(fileName, conf?.name ?? "");
    if (key === undefined || isReady.has(key.containerId)) continue;
    stale.push({ attachment: { ...key, ...NO_PARAMETERS }, conf });
  }
  return stale;
}
