import type { AttachmentKey, CacheEntry } from "./cache-entry.ts";
import { cachedConfIfUsable, undefinedForCniError } from "./cached-conf.ts";
import {
  type AddSignals,
  type Attachment,
  addToChain,
  checkChain,
  deleteAllOfChain,
  deleteFromChain,
} from "./chain.ts";
import type { NetworkConf } from "./conf.ts";
import { CniError, cniCodes } from "./error.ts";
import type { CallPlugin } from "./plugin-calls.ts";
import { type CniResult, formatResult, parseResult } from "./result.ts";
import type { ResultCache } from "./result-cache.ts";
import { isAtLeast } from "./version.ts";

export interface AddOutcome {
  readonly result: CniResult;
  /** An earlier ADD has made the attachment, and no plugin was called. */
  readonly isCached: boolean;
}

export interface AttachmentDeps {
  readonly callPlugin: CallPlugin;
  readonly cache: ResultCache;
}

/** ADD of one attachment, whose caller holds its lock: see `Cni`. */
export async function addAttachment(
  deps: AttachmentDeps,
  conf: NetworkConf,
  key: AttachmentKey,
  attachment: Attachment,
  { signal, undoSignal }: AddSignals,
): Promise<AddOutcome> {
  const { callPlugin, cache } = deps;
  const cached = await cache.read(key);
  if (cached !== undefined) return { result: earlierResult(cached, attachment, conf), isCached: true };
  // The caller may have gone while this process waited for the lock or was suspended: no plugin has run, so there is nothing to undo.
  signal.throwIfAborted();
  const result = await addToChain(callPlugin, conf, attachment, { signal, undoSignal });
  try {
    await cache.write({ ...key, ...attachment, config: conf.text, result: formatResult(result, conf.cniVersion) });
  } catch (error) {
    // Without the entry, DEL and CHECK would get neither this configuration nor this result.
    await deleteAllOfChain(callPlugin, conf, attachment, result, undoSignal);
    throw error;
  }
  if (signal.aborted && !undoSignal.aborted) {
    await deleteAttachment(deps, key, attachment, conf, undoSignal);
    throw signal.reason;
  }
  return { result, isCached: false };
}

/** DEL of one attachment, whose caller holds its lock. `given` is the network as it is now, if there still is one. */
export async function deleteAttachment(
  { callPlugin, cache }: AttachmentDeps,
  key: AttachmentKey,
  attachment: Attachment,
  given: NetworkConf | undefined,
  signal: AbortSignal,
): Promise<void> {
  const cached = await cache.read(key);
  const conf = (cached && cachedConf(cached)) ?? given;
  if (conf === undefined)
    throw new CniError(
      cniCodes.invalidNetworkConf,
      `the network ${key.network} has no configuration any more, and ${key.containerId} has none in the cache`,
    );
  const own = cached === undefined ? attachment : attachmentOf(cached, attachment.netns);
  await deleteFromChain(callPlugin, conf, own, cached && previousResult(cached, conf), signal);
  await cache.remove(key);
}

/** CHECK of one attachment, whose caller holds its lock. */
export async function checkAttachment(
  { callPlugin, cache }: AttachmentDeps,
  conf: NetworkConf,
  key: AttachmentKey,
  netns: string,
  signal: AbortSignal,
): Promise<void> {
  const cached = await cache.read(key);
  const own = (cached && cachedConf(cached)) ?? conf;
  const result = cached && previousResult(cached, own);
  if (cached === undefined || result === undefined)
    throw new CniError(cniCodes.unknownContainer, `the cache has no result of ADD for ${key.containerId}`);
  await checkChain(callPlugin, own, attachmentOf(cached, netns), result, signal);
}

/** The parameters of ADD, which CHECK and DEL must have, too. A namespace may have been moved, or be gone. */
const attachmentOf = ({ containerId, ifName, args, capabilityArgs }: CacheEntry, netns: string): Attachment => ({
  containerId,
  netns,
  ifName,
  args,
  capabilityArgs,
});

function earlierResult(cached: CacheEntry, { netns, containerId, ifName }: Attachment, conf: NetworkConf): CniResult {
  if (cached.netns === netns) return parseResult(cached.result, (cachedConf(cached) ?? conf).cniVersion);
  const message = `${ifName} of ${containerId} is attached already, in the network namespace ${cached.netns}; it must be deleted first`;
  throw new CniError(cniCodes.invalidEnvironment, message);
}

/** The configuration of ADD; undefined if another program has written one that this code does not accept. */
function cachedConf(entry: CacheEntry): NetworkConf | undefined {
  const conf = cachedConfIfUsable(entry);
  return conf?.name === entry.network && conf.plugins.length > 0 ? conf : undefined;
}

/** The result of ADD. Plugins get none before 0.4.0, nor one that cannot be read: DEL works without it. */
function previousResult({ result }: CacheEntry, { cniVersion }: NetworkConf): CniResult | undefined {
  return isAtLeast(cniVersion, "0.4.0") ? undefinedForCniError(() => parseResult(result, cniVersion)) : undefined;
}
