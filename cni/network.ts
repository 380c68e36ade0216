import {
  type AddOutcome,
  type AttachmentDeps,
  addAttachment,
  checkAttachment,
  deleteAttachment,
} from "./attachment.ts";
import { type AbandonedLocks, type AttachmentLocks, type ShareLocks, shareNoLocks } from "./attachment-locks.ts";
import { type AttachmentKey, type CacheEntry, cacheFileName, keyOfFileName } from "./cache-entry.ts";
import { type Attachment, chainStatus, collectChain } from "./chain.ts";
import type { NetworkConf } from "./conf.ts";
import { CniError, cniCodes, throwFailures } from "./error.ts";
import { checkParameters } from "./names.ts";
import type { CniVerb } from "./plugin-call.ts";
import type { CallPlugin } from "./plugin-calls.ts";
import type { TimeLimit } from "./time-limit.ts";
import { hasCheck, isAtLeast } from "./version.ts";

/**
 * Executes networks as the specification's section 3 says. Every method rejects with the `CniError` of the plugin that failed, with
 * `FilesError` if the cache cannot be used, with code 11 if another process works on the attachment for longer than the caller's time
 * allows, and with the signal's reason when that aborts.
 */
export interface Cni {
  /**
   * Calls the plugins in their order, and caches the result. If one fails, what the others have made is released. An
   * attachment that the cache has is not made again: two executors may get the same request. When `signal` aborts, what was made
   * stays for a DEL of the caller, who may not be alive any more: with an `undoSignal` it is released at once, under the same
   * lock, until that aborts, too.
   */
  add(conf: NetworkConf, attachment: Attachment, signal: AbortSignal, undoSignal?: AbortSignal): Promise<AddOutcome>;
  /**
   * Calls the plugins in reverse order, with the configuration, the parameters and the result of ADD from the cache; without a
   * cache entry with those given. An attachment that does not exist, and a network namespace that is gone, are success.
   */
  del(network: string, attachment: Attachment, conf: NetworkConf | undefined, signal: AbortSignal): Promise<void>;
  /** Rejects with code 3 if the cache has no such attachment, with code 1 if the network's version has no CHECK. */
  check(conf: NetworkConf, attachment: Attachment, signal: AbortSignal): Promise<"checked" | "disabled">;
  /** Rejects with the error of the first plugin that cannot serve ADD. Versions before 1.1.0 have no STATUS. */
  status(conf: NetworkConf, signal: AbortSignal): Promise<"ready" | "unsupported">;
  /**
   * Calls DEL for the attachments of a network that `chooseValid` leaves out, of the cache and of an ADD that was killed, and GC of each
   * plugin. Goes on after a failure, and rejects at the end. Resolves with the attachments that it has deleted, and with undefined if the
   * network disables GC.
   */
  gc(conf: NetworkConf, chooseValid: ChooseValid, signal: AbortSignal): Promise<readonly AttachmentKey[] | undefined>;
}

/**
 * An attachment in the cache, or one whose ADD was killed. Of the latter, and of one whose file is torn, only the key is known, and the
 * other fields are empty.
 */
export type CachedAttachment = AttachmentKey &
  Attachment &
  Pick<CacheEntry, "result"> & {
    /** ADD was killed before it wrote the cache: no runtime has its result. */
    readonly isOfKilledAdd?: true;
  };

/**
 * Chooses which attachments of a network still exist, and adds those that exist without an entry in the cache. It is called while no ADD
 * and no DEL of the network runs, in any process, so that none can be missing. GC rejects as it does.
 */
export type ChooseValid = (cached: readonly CachedAttachment[]) => Promise<readonly CachedAttachment[]>;

export interface CniDeps extends Pick<AttachmentDeps, "cache"> {
  readonly locks: AttachmentLocks;
  /** Limits how long a call waits for the locks. */
  readonly timeLimit: Pick<TimeLimit, "ofLock">;
  /** Creates the function that calls plugins while these locks are held. */
  readonly createCallPlugin: (shareLocks: ShareLocks) => CallPlugin;
}

export function createCni(deps: CniDeps): Cni {
  const { cache, createCallPlugin, locks, timeLimit } = deps;
  const waitFor = (verb: CniVerb, signal: AbortSignal) => ({ signal, leftMs: () => timeLimit.ofLock(verb) });
  const depsWith = (share: ShareLocks): AttachmentDeps => ({ cache, callPlugin: createCallPlugin(share) });
  return {
    async add(conf, attachment, signal, undoSignal = signal) {
      checkParameters(attachment);
      const key = keyOf(conf.name, attachment);
      const add = (share: ShareLocks) => addAttachment(depsWith(share), conf, key, attachment, { signal, undoSignal });
      return await locks.withAttachment(key, add, waitFor("ADD", signal));
    },
    async del(network, attachment, conf, signal) {
      checkParameters(attachment);
      const key = keyOf(network, attachment);
      const del = (share: ShareLocks) => deleteAttachment(depsWith(share), key, attachment, conf, signal);
      await locks.withAttachment(key, del, waitFor("DEL", signal));
    },
    async check(conf, attachment, signal) {
      checkParameters(attachment);
      const { name, cniVersion, disableCheck } = conf;
      const versionProblem = `the network ${name} has cniVersion ${cniVersion}, and CHECK exists from 0.4.0 on`;
      if (!hasCheck(cniVersion)) throw new CniError(cniCodes.incompatibleVersion, versionProblem);
      if (disableCheck) return "disabled";
      const key = keyOf(name, attachment);
      const check = (share: ShareLocks) => checkAttachment(depsWith(share), conf, key, attachment.netns, signal);
      await locks.withAttachment(key, check, waitFor("CHECK", signal));
      return "checked";
    },
    async status(conf, signal) {
      if (!isAtLeast(conf.cniVersion, "1.1.0")) return "unsupported";
      await chainStatus(createCallPlugin(shareNoLocks), conf, signal);
      return "ready";
    },
    async gc(conf, chooseValid, signal) {
      if (conf.disableGC) return undefined;
      const collect = (share: ShareLocks, abandoned: AbandonedLocks) =>
        collectGarbageOfNetwork({ ...depsWith(share), abandoned }, conf, chooseValid, signal);
      return await locks.withNetwork(conf.name, collect, waitFor("GC", signal));
    },
  };
}

const keyOf = (network: string, { containerId, ifName }: Attachment): AttachmentKey => ({
  network,
  containerId,
  ifName,
});

/** Of an attachment without a readable entry in the cache: plugins delete what they know of the container. */
export const NO_PARAMETERS = { netns: "", args: new Map<string, string>(), capabilityArgs: {}, result: {} };

async function collectGarbageOfNetwork(
  deps: AttachmentDeps & { readonly abandoned: AbandonedLocks },
  conf: NetworkConf,
  chooseValid: ChooseValid,
  signal: AbortSignal,
): Promise<readonly AttachmentKey[]> {
  const { entries, unreadable } = await deps.cache.list();
  const own = entries.filter(({ network }) => network === conf.name);
  const torn = unreadable.flatMap(({ fileName }) => keyOfFileName(fileName, conf.name) ?? []);
  const killed = await takeKilledAdds(deps.abandoned, [...own, ...torn]);
  const withoutEntry = (key: AttachmentKey) => ({ ...key, ...NO_PARAMETERS });
  const ofKilledAdds = killed.map((key) => ({ ...withoutEntry(key), isOfKilledAdd: true as const }));
  const cached: readonly CachedAttachment[] = [...own, ...torn.map(withoutEntry), ...ofKilledAdds];
  const chosen = new Set(await chooseValid(cached));
  const stale = cached.filter((attachment) => !chosen.has(attachment));
  const valid = [...chosen].map(({ containerId, ifName }) => ({ containerID: containerId, ifname: ifName }));
  const deleted: AttachmentKey[] = [];
  const failures: CniError[] = [];
  for (const attachment of stale) {
    const key = keyOf(conf.name, attachment);
    try {
      await deleteAttachment(deps, key, attachment, conf, signal);
      await deps.abandoned.remove(key);
      deleted.push(key);
    } catch (error) {
      if (!(error instanceof CniError)) throw error;
      failures.push(error);
    }
  }
  if (isAtLeast(conf.cniVersion, "1.1.0")) failures.push(...(await collectChain(deps.callPlugin, conf, valid, signal)));
  throwFailures(failures);
  return deleted;
}

/**
 * Returns the attachments that have a lock and no entry in the cache: their ADD was killed before it wrote one, so no runtime has its result.
 * GC of plugins, which would find them, exists only from 1.1.0 on. Removes the locks of attachments with an entry, whose ADD, CHECK or DEL was
 * killed later.
 */
async function takeKilledAdds(
  abandoned: AbandonedLocks,
  cached: readonly AttachmentKey[],
): Promise<readonly AttachmentKey[]> {
  const names = new Set(cached.map(cacheFileName));
  const killed: AttachmentKey[] = [];
  for (const key of await abandoned.list())
    if (names.has(cacheFileName(key))) await abandoned.remove(key);
    else killed.push(key);
  return killed;
}
