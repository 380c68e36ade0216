import { type AttachmentFacts, type AttachmentState, stateOfAttachment } from "../attachment-state.ts";
import type { RecordedAttachment } from "../builtin/recorded-attachments.ts";
import { type AttachmentKey, type CacheEntry, cacheFileName, isOfPod, keyOfFileName } from "../cache-entry.ts";
import { stateOfNamespace } from "../cached-namespace.ts";
import type { NetworkConf } from "../conf.ts";
import { DELEGATE_NETWORK } from "../delegate-network.ts";
import { CniError, throwFailures } from "../error.ts";
import type { CollectedGarbage, ListedSandboxes } from "../garbage.ts";
import { type CachedAttachment, type ChooseValid, type Cni, NO_PARAMETERS } from "../network.ts";
import type { ResultCache } from "../result-cache.ts";
import { deleteSecondaryNetworks } from "../secondary/pod-networks.ts";
import { findSecondaryNetworks, secondaryNetworksOf } from "../secondary/secondary-network.ts";
import type { AttachmentAges } from "./attachment-ages.ts";
import { builtinConfOf } from "./builtin-list.ts";
import { isOfDelegate } from "./delegate-entry.ts";
import { type ExecuteCallDeps, executedNetworkIfUsable } from "./execute-call.ts";

export interface CollectGarbageDeps extends Pick<ExecuteCallDeps, "files" | "confDirs"> {
  readonly cni: Pick<Cni, "gc" | "del">;
  readonly cache: Pick<ResultCache, "list" | "remove" | "addedAt">;
  readonly ages: Pick<AttachmentAges, "ageAt">;
  /** The attachments of built-in networks whose ADD an executor with this cache has started. */
  readonly recordedAttachments: () => readonly RecordedAttachment[];
  /** How long an attachment without a sandbox is young, in milliseconds; at least `YOUNG_FOR_MS`. */
  readonly youngForMs: number;
  /** The socket of the agent in the delegate's list. */
  readonly socket: string;
  /** Whether a network namespace is mounted at a path. */
  readonly isNamespace: (path: string) => Promise<boolean>;
}

/**
 * Deletes the attachments that have outlived their sandboxes, as after a crash, and calls GC of the chain's plugins with those that
 * exist. The runtime's cached entry of the delegate tells which attachments of an earlier chain are ours; the record of a built-in
 * network tells what a killed ADD has left. Goes on after a failure of a plugin, and rejects at the end;
 * rejects as `Cni` does.
 */
export async function collectGarbage(
  deps: CollectGarbageDeps,
  sandboxes: ListedSandboxes,
  signal: AbortSignal,
): Promise<CollectedGarbage> {
  const { files, confDirs } = deps;
  const collection = createCollection(deps, sandboxes, signal);
  const chain = await executedNetworkIfUsable(files, confDirs);
  // The entry of a default network names the pod's other networks, so these go first.
  await collectSecondaryNetworks(collection, chain);
  if (chain !== undefined) await collectCurrentChain(collection, chain);
  await collectEarlierChains(collection, chain);
  await collectRecords(collection, chain);
  await removeTornEntries(collection);
  throwFailures(collection.failures);
  const youngestMs = collection.youngestMs();
  const againAfterMs = youngestMs === undefined ? undefined : deps.youngForMs - youngestMs;
  return { deleted: collection.deleted, againAfterMs };
}

type Collection = ReturnType<typeof createCollection>;

/** What the phases of one collection share: the deleted attachments, the failures, and the state of each attachment. */
function createCollection(deps: CollectGarbageDeps, sandboxes: ListedSandboxes, signal: AbortSignal) {
  const deleted: AttachmentKey[] = [];
  const failures: CniError[] = [];
  let youngestMs: number | undefined;
  const noteYoung = (ageMs: number) => {
    youngestMs = Math.min(youngestMs ?? deps.youngForMs, ageMs);
  };
  return {
    ...{ deps, sandboxes, signal, deleted, failures },
    youngestMs: () => youngestMs,
    async stateOf(attachment: CachedAttachment): Promise<AttachmentState> {
      const facts = await factsOf(deps, attachment, sandboxes);
      const state = stateOfAttachment(facts, deps.youngForMs);
      if (state === "young") noteYoung(facts.ageMs ?? 0);
      return state;
    },
    noteYoung,
    /** Collects a failure of a plugin, so that the collection goes on. */
    async attempt(work: () => Promise<void>): Promise<void> {
      await work().catch((error: unknown) => {
        if (!(error instanceof CniError)) throw error;
        failures.push(error);
      });
    },
  };
}

/**
 * Deletes the secondary networks that have outlived their sandboxes: those that the entries of default networks name, of this chain or of an
 * earlier one, and those of pods that have only the delegate's entry beside them.
 */
async function collectSecondaryNetworks(
  { deps, signal, deleted, stateOf, attempt }: Collection,
  chain: NetworkConf | undefined,
): Promise<void> {
  const { cni, cache, socket } = deps;
  const { entries } = await cache.list();
  const ofDelegate = entries.filter((one) => isOfDelegate(one, socket));
  const isOurs = (entry: CacheEntry) =>
    entry.network === chain?.name || ofDelegate.some((one) => isSameInterface(one, entry));
  const named = entries.filter(isOurs).map((entry) => ({ entry, secondaries: secondaryNetworksOf(entry) }));
  const alone = ofDelegate.filter((one) => entries.every((other) => other === one || !isSameInterface(one, other)));
  // The entry of the default network is torn or lost.
  const unnamed = alone.map((entry) => ({ entry, secondaries: findSecondaryNetworks(entry, entries) }));
  for (const { entry, secondaries } of [...named, ...unnamed]) {
    if (secondaries.length === 0 || (await stateOf(entry)) !== "stale") continue;
    await attempt(async () => {
      await deleteSecondaryNetworks({ cni }, secondaries, entry, signal);
      const { containerId } = entry;
      deleted.push(...secondaries.map(({ conf, ifName }) => ({ network: conf.name, containerId, ifName })));
    });
  }
}

/** Calls GC of the chain: it deletes the attachments that have outlived their sandboxes, and what plugins have of unknown ones. */
async function collectCurrentChain(
  { deps, sandboxes, signal, deleted, stateOf, attempt }: Collection,
  chain: NetworkConf,
): Promise<void> {
  const chooseValid: ChooseValid = async (cached) => {
    const states = await Promise.all(cached.map(stateOf));
    const existing = cached.filter((_, index) => states[index] !== "stale");
    return [...existing, ...readyWithoutEntry(chain.name, cached, sandboxes)];
  };
  await attempt(async () => {
    deleted.push(...((await deps.cni.gc(chain, chooseValid, signal)) ?? []));
  });
}

/** The interface for which container runtimes call the delegate. */
const POD_INTERFACE = "eth0";

/**
 * The attachments of ready sandboxes that the cache does not have, as when its files were deleted: plugins would take the links and addresses
 * of pods that run for garbage. A sandbox of the host's network, or of an earlier chain, has none of this network: naming it changes nothing.
 */
function readyWithoutEntry(
  network: string,
  cached: readonly CachedAttachment[],
  { isReady }: ListedSandboxes,
): readonly CachedAttachment[] {
  const known = new Set(cached.flatMap(({ containerId, ifName }) => (ifName === POD_INTERFACE ? [containerId] : [])));
  const unknown = [...isReady.keys()].filter((id) => isReady.get(id) === true && !known.has(id));
  return unknown.map((containerId) => ({ network, containerId, ifName: POD_INTERFACE, ...NO_PARAMETERS }));
}

/** Deletes the stale attachments of earlier chains, and the runtime's own entries of the delegate whose attachments are gone. */
async function collectEarlierChains(
  { deps, signal, deleted, stateOf, attempt }: Collection,
  chain: NetworkConf | undefined,
): Promise<void> {
  const { cni, cache, socket } = deps;
  const { entries } = await cache.list();
  for (const entry of entries.filter((one) => isOfDelegate(one, socket))) {
    const beside = entries.filter((one) => one.network !== DELEGATE_NETWORK && isSameInterface(one, entry));
    // What GC of the chain has left it has to delete the next time.
    if (beside.some(({ network }) => network === chain?.name) || (await stateOf(entry)) !== "stale") continue;
    await attempt(async () => {
      for (const one of beside) await cni.del(one.network, one, undefined, signal);
      deleted.push(...beside);
      // The secondary networks that could not be deleted are found by this entry the next time.
      if (findSecondaryNetworks(entry, entries).length === 0) await cache.remove(entry);
    });
  }
}

/**
 * Deletes recorded attachments of built-in networks that have neither a sandbox nor an entry in the cache: their ADD was killed. GC
 * of the current chain deletes those of its network; this finds those of a list that has been renamed or removed. Other plugins
 * of that list are unknown now. A list with `disableGC` is left alone.
 */
async function collectRecords(
  { deps, sandboxes, signal, deleted, noteYoung, attempt }: Collection,
  chain: NetworkConf | undefined,
): Promise<void> {
  const { cni, cache, ages, recordedAttachments, youngForMs } = deps;
  await attempt(async () => {
    const recorded = recordedAttachments().filter(({ containerId }) => !sandboxes.isReady.has(containerId));
    if (recorded.length === 0) return;
    const cached = new Set((await cache.list()).entries.map(cacheFileName));
    for (const { network, containerId, ifName, writtenAt } of recorded) {
      const key = { network, containerId, ifName };
      if (cached.has(cacheFileName(key)) || (chain?.disableGC === true && chain.name === network)) continue;
      const ageMs = ages.ageAt(sandboxes.listedAtMs, containerId, writtenAt);
      // Its ADD may still be running, or the runtime may be creating its sandbox.
      if (ageMs < youngForMs) {
        noteYoung(ageMs);
        continue;
      }
      await attempt(async () => {
        await cni.del(network, { ...key, ...NO_PARAMETERS }, builtinConfOf(network), signal);
        deleted.push(key);
      });
    }
  });
}

/** Removes the runtime's own entries of the delegate that a killed runtime has left torn, once their sandboxes are gone. */
async function removeTornEntries({ deps: { cache }, sandboxes }: Collection): Promise<void> {
  const { unreadable } = await cache.list();
  const torn = unreadable.flatMap(({ fileName }) => keyOfFileName(fileName, DELEGATE_NETWORK) ?? []);
  for (const key of torn) if (!sandboxes.isReady.has(key.containerId)) await cache.remove(key);
}

async function factsOf(
  { cache, isNamespace, ages }: CollectGarbageDeps,
  attachment: CachedAttachment,
  { isReady, listedAtMs }: ListedSandboxes,
): Promise<AttachmentFacts> {
  const { containerId, args } = attachment;
  const ready = isReady.get(containerId);
  const addedAt = await cache.addedAt(attachment);
  return {
    sandbox: ready === undefined ? undefined : ready ? "ready" : "not ready",
    netns: await stateOfNamespace(attachment, isNamespace),
    isOfPod: addedAt === undefined ? undefined : isOfPod({ args }),
    ageMs: addedAt === undefined ? undefined : ages.ageAt(listedAtMs, containerId, addedAt),
  };
}

const isSameInterface = (a: CacheEntry, b: CacheEntry) => a.containerId === b.containerId && a.ifName === b.ifName;
