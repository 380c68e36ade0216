import type { Instant } from "../../host/clock.ts";
import { type AttachmentFacts, type AttachmentState, stateOfAttachment, YOUNG_FOR_MS } from "../attachment-state.ts";
import type { AttachmentKey, CacheEntry } from "../cache-entry.ts";
import { DELEGATE_NETWORK } from "../delegate-network.ts";
import { CniError, throwFailures } from "../error.ts";
import type { CachedAttachment, ChooseValid, Cni } from "../network.ts";
import type { ResultCache } from "../result-cache.ts";
import { deleteSecondaryNetworks } from "../secondary/pod-networks.ts";
import { secondaryNetworksOf } from "../secondary/secondary-network.ts";
import { isOfDelegate } from "./delegate-entry.ts";
import { chainIfUsable, type ExecuteCallDeps } from "./execute-call.ts";

export interface CollectGarbageDeps extends Pick<ExecuteCallDeps, "files" | "confDir"> {
  readonly cni: Pick<Cni, "gc" | "del">;
  readonly cache: Pick<ResultCache, "list" | "remove" | "addedAt">;
  /** The socket of the agent in the delegate's list. */
  readonly socket: string;
  /** Whether a network namespace is mounted at a path. */
  readonly isNamespace: (path: string) => Promise<boolean>;
}

/** All sandboxes of the container runtime. */
export interface ListedSandboxes {
  /** Whether each is ready, by its id. */
  readonly isReady: ReadonlyMap<string, boolean>;
  /** When the runtime was asked for them. */
  readonly listedAt: Instant;
}

export interface CollectedGarbage {
  readonly deleted: readonly AttachmentKey[];
  /** When those that were too young can be decided; undefined if there were none. */
  readonly againAt: Instant | undefined;
}

/** An argument that only container runtimes give to plugins, for pods. */
const POD_ARGUMENT = "K8S_POD_INFRA_CONTAINER_ID";

/**
 * Deletes the attachments that have outlived their sandboxes, as after a crash, and calls GC of the chain's plugins with those that
 * exist. An attachment of an earlier chain is known by what the runtime has cached of the delegate beside it. Goes on after a failure
 * of a plugin, and rejects at the end; rejects as `Cni` does.
 */
export async function collectGarbage(
  deps: CollectGarbageDeps,
  sandboxes: ListedSandboxes,
  signal: AbortSignal,
): Promise<CollectedGarbage> {
  const { cni, cache, files, confDir, socket } = deps;
  const deleted: AttachmentKey[] = [];
  const failures: CniError[] = [];
  let youngestAt: Instant | undefined;
  const stateOf = async (attachment: CachedAttachment): Promise<AttachmentState> => {
    const facts = await factsOf(deps, attachment, sandboxes);
    const state = stateOfAttachment(facts, sandboxes.listedAt);
    if (state === "young") youngestAt = Math.max(youngestAt ?? 0, facts.addedAt ?? 0);
    return state;
  };
  const collectFailure = async (work: () => Promise<void>) => {
    await work().catch((error: unknown) => {
      if (!(error instanceof CniError)) throw error;
      failures.push(error);
    });
  };

  const chain = await chainIfUsable(files, confDir);
  const before = (await cache.list()).entries;
  const isOurs = (entry: CacheEntry) =>
    entry.network === chain?.name || before.some((one) => isOfDelegate(one, socket) && isSameInterface(one, entry));
  // The entry of a default network names the pod's other networks, so these go first.
  for (const entry of before.filter(isOurs)) {
    const secondaries = secondaryNetworksOf(entry);
    if (secondaries.length === 0 || (await stateOf(entry)) !== "stale") continue;
    await collectFailure(async () => {
      await deleteSecondaryNetworks({ cni }, entry, entry, signal);
      const { containerId } = entry;
      deleted.push(...secondaries.map(({ conf, ifName }) => ({ network: conf.name, containerId, ifName })));
    });
  }
  if (chain !== undefined)
    await collectFailure(async () => {
      const chooseValid: ChooseValid = async (cached) => {
        const states = await Promise.all(cached.map(stateOf));
        return cached.filter((_, index) => states[index] !== "stale");
      };
      deleted.push(...((await cni.gc(chain, chooseValid, signal)) ?? []));
    });
  const { entries } = await cache.list();
  for (const entry of entries.filter((one) => isOfDelegate(one, socket))) {
    const beside = entries.filter((one) => one.network !== DELEGATE_NETWORK && isSameInterface(one, entry));
    // What GC of the chain has left it has to delete the next time.
    if (beside.some(({ network }) => network === chain?.name) || (await stateOf(entry)) !== "stale") continue;
    await collectFailure(async () => {
      for (const one of beside) await cni.del(one.network, one, undefined, signal);
      deleted.push(...beside);
      await cache.remove(entry);
    });
  }
  throwFailures(failures);
  return { deleted, againAt: youngestAt === undefined ? undefined : youngestAt + YOUNG_FOR_MS };
}

async function factsOf(
  { cache, isNamespace }: CollectGarbageDeps,
  attachment: CachedAttachment,
  { isReady }: ListedSandboxes,
): Promise<AttachmentFacts> {
  const { containerId, netns, args } = attachment;
  const ready = isReady.get(containerId);
  const addedAt = await cache.addedAt(attachment);
  return {
    sandbox: ready === undefined ? undefined : ready ? "ready" : "not ready",
    netns: netns === "" ? "unknown" : (await isNamespace(netns)) ? "mounted" : "gone",
    isOfPod: addedAt === undefined ? undefined : args.has(POD_ARGUMENT),
    addedAt,
  };
}

const isSameInterface = (a: CacheEntry, b: CacheEntry) => a.containerId === b.containerId && a.ifName === b.ifName;
