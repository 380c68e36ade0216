import { type Files, FilesError } from "../../host/fs/files.ts";
import type { AttachmentLocks } from "../attachment-locks.ts";
import type { RecordedAttachment } from "../builtin/recorded-attachments.ts";
import { type CacheEntry, cacheFileName } from "../cache-entry.ts";
import { parseCachedConf } from "../cached-conf.ts";
import type { AddSignals, Attachment } from "../chain.ts";
import type { NetworkConf } from "../conf.ts";
import { type ConfDirs, hasConfiguration, loadFirstNetwork } from "../conf-dir.ts";
import { containsDelegate, DELEGATE_NETWORK, DELEGATE_TYPE } from "../delegate-network.ts";
import { CniError, cniCodes } from "../error.ts";
import type { Cni } from "../network.ts";
import { formatResult } from "../result.ts";
import type { ResultCache, UnreadableEntry } from "../result-cache.ts";
import type { SetDefaultRoute } from "../secondary/default-route.ts";
import {
  addPodNetworks,
  checkSecondaryNetworks,
  deleteSecondaryNetworks,
  type NetworkDefinitions,
  selectsNetworks,
} from "../secondary/pod-networks.ts";
import { findSecondaryNetworks, secondaryNetworksOf } from "../secondary/secondary-network.ts";
import type { TimeLimit } from "../time-limit.ts";
import { hasCheck } from "../version.ts";
import type { AttachmentAges } from "./attachment-ages.ts";
import { builtinConfOf } from "./builtin-list.ts";
import type { DelegateCall } from "./delegate-call.ts";
import { DELEGATE_VERSION } from "./delegate-conf.ts";
import type { DeletedAttachments } from "./deleted-attachments.ts";

export interface ExecuteCallDeps {
  readonly cni: Cni;
  readonly cache: Pick<ResultCache, "read" | "write" | "list" | "pathOf">;
  readonly locks: Pick<AttachmentLocks, "withAttachment">;
  /** The attachments of built-in networks whose ADD an executor with this cache has started. Throws `CniError`. */
  readonly recordedAttachments: () => readonly RecordedAttachment[];
  /** What the call may take of its caller's time. */
  readonly timeLimit: Pick<TimeLimit, "ofLock">;
  readonly setDefaultRoute: SetDefaultRoute;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "list" | "read">;
  /** The folders of the network that is executed: each call looks which one has it. */
  readonly confDirs: ConfDirs;
  /** The folder that `berth cni install` got as `--chain-dir`, whether or not the agent executes its first network. */
  readonly chainDir: string;
  /** The secondary networks that pods select. */
  readonly definitions: NetworkDefinitions;
  /** The attachments that earlier calls have deleted; undefined in a process that executes one call. */
  readonly deleted?: DeletedAttachments;
  /** Learns when each ADD begins and when it has succeeded; undefined in a process that executes one call. */
  readonly ages?: Pick<AttachmentAges, "resetAge">;
}

/** A call's result as JSON of the delegate's version; undefined for a verb that has none. */
export type CallOutput = Readonly<Record<string, unknown>> | undefined;

/**
 * Executes a call of the delegate, in the agent or in the delegate's own process. ADD takes the first network of the folder that decides
 * (`ConfDirs`). CHECK and DEL take the network of the attachment from the cache, and DEL without an entry from the record of a built-in
 * network, since the folders may have another network by now. Secondary networks come after it, and are deleted before it. Rejects as
 * `Cni`; `undoSignal` is that of its `add`.
 */
export async function executeCall(
  deps: ExecuteCallDeps,
  call: DelegateCall,
  signal: AbortSignal,
  undoSignal = signal,
): Promise<CallOutput> {
  const { containerId, ifName } = call.attachment;
  const execute = () => executeVerb(deps, call, { signal, undoSignal });
  if (!selectsNetworks(call.attachment)) return await execute();
  // Otherwise DEL would run between two networks of an ADD that has been given up, and leave the later ones.
  const wait = { signal, leftMs: () => deps.timeLimit.ofLock(call.verb) };
  return await deps.locks.withAttachment({ network: DELEGATE_NETWORK, containerId, ifName }, execute, wait);
}

async function executeVerb(
  deps: ExecuteCallDeps,
  { verb, attachment }: DelegateCall,
  signals: AddSignals,
): Promise<CallOutput> {
  const { cni, cache, files, confDirs, deleted, ages } = deps;
  const { signal } = signals;
  switch (verb) {
    case "ADD": {
      deleted?.remove(attachment);
      // The record of a built-in network exists during ADD, and the wall clock may be set in between.
      ages?.resetAge(attachment.containerId);
      const { confDir, conf } = await loadExecutedNetwork(files, confDirs);
      const result = await addPodNetworks({ ...deps, confDir }, conf, attachment, signals);
      ages?.resetAge(attachment.containerId);
      return formatResult(result, DELEGATE_VERSION);
    }
    case "CHECK": {
      const entry = findEntry((await cache.list()).entries, attachment);
      if (entry === undefined)
        throw new CniError(cniCodes.unknownContainer, `the cache has no result of ADD for ${attachment.containerId}`);
      const conf = parseCachedConf(entry);
      // The runtime sees the delegate's version alone, and would take the refusal of an earlier one for a broken network.
      if (hasCheck(conf.cniVersion)) await cni.check(conf, attachment, signal);
      await checkSecondaryNetworks(deps, entry, attachment, signal);
      return undefined;
    }
    case "DEL":
      await deletePodNetworks(deps, attachment, signal);
      return undefined;
  }
}

async function deletePodNetworks(deps: ExecuteCallDeps, attachment: Attachment, signal: AbortSignal): Promise<void> {
  const { cni, cache, files, confDirs, deleted } = deps;
  const executed = await readExecutedNetwork(files, confDirs);
  const conf = executed instanceof Error ? undefined : executed.conf;
  const ofExecuted = await readEntry(deps, conf, attachment);
  // The runtime's second DEL. With an entry, another process, such as berth cni, has added the attachment again.
  if (ofExecuted === undefined && deleted?.has(attachment) === true) return;
  const { entries, unreadable } =
    ofExecuted === undefined ? await cache.list() : { entries: [ofExecuted], unreadable: [] };
  const entry = findEntry(entries, attachment);
  const secondaries = entry === undefined ? findSecondaryNetworks(attachment, entries) : secondaryNetworksOf(entry);
  await deleteSecondaryNetworks(deps, secondaries, attachment, signal);
  // A torn entry does not name its network. A built-in network has a record of the attachment, whatever list the folder has now.
  const recorded = entry === undefined ? findRecorded(deps, attachment) : undefined;
  const network = entry?.network ?? recorded ?? conf?.name;
  if (entry === undefined) {
    // The folder may hold the list of what ADD has made: a runtime makes no further call after a DEL that succeeds.
    if (executed instanceof FilesError) throw executed;
    await throwIfTorn(deps, unreadable, { attachment, executed, network });
  }
  // Neither a network nor an entry: this call cannot delete anything more. The next one may find a usable list.
  if (network === undefined) return;
  const ofRecord = recorded === undefined ? undefined : builtinConfOf(recorded);
  await cni.del(network, attachment, conf?.name === network ? conf : ofRecord, signal);
  deleted?.add(attachment);
}

/** The built-in network that has made the interface; undefined if none has. */
function findRecorded(
  { recordedAttachments }: Pick<ExecuteCallDeps, "recordedAttachments">,
  { containerId, ifName }: Attachment,
): string | undefined {
  return recordedAttachments().find((one) => one.containerId === containerId && one.ifName === ifName)?.network;
}

/**
 * Rejects if the attachment has a torn entry of another network than the one for which DEL is called. DEL must not succeed then: the runtime
 * would make no further call, and what that network has made would stay.
 */
async function throwIfTorn(
  { cache, files, confDirs, chainDir }: Pick<ExecuteCallDeps, "cache" | "files" | "confDirs" | "chainDir">,
  unreadable: readonly UnreadableEntry[],
  { attachment, executed, network }: TornEntryInput,
): Promise<void> {
  const { containerId, ifName } = attachment;
  const fileNameIn = (network: string) => cacheFileName({ network, containerId, ifName });
  const usable = [DELEGATE_NETWORK, ...(network === undefined ? [] : [network])].map(fileNameIn);
  const torn = unreadable.find(
    ({ fileName }) => fileName.endsWith(`-${containerId}-${ifName}`) && !usable.includes(fileName),
  );
  if (torn === undefined) return;
  const problem =
    executed instanceof CniError
      ? executed
      : new CniError(cniCodes.invalidNetworkConf, `${executed.confDir} has another network now, ${executed.conf.name}`);
  const file = cache.pathOf(torn.asideName);
  const unknown = `${file} does not say which network ${ifName} of ${containerId} has: ${torn.reason}`;
  const isOfChain = confDirs.includes(chainDir);
  const put = `put the list of its network first in ${chainDir} again${isOfChain ? "" : " and start the agent without --network=builtin"}`;
  const isBroken = executed instanceof CniError && (await hasConfiguration(files, confDirs));
  const remedy = `${isBroken && isOfChain ? "correct the list" : put}, or delete that file: then what the network has made for the pod, such as its address, stays`;
  throw new CniError(problem.code, `${problem.message}; ${unknown}; ${remedy}`, { cause: problem });
}

interface TornEntryInput {
  readonly attachment: Attachment;
  readonly executed: ExecutedNetwork | CniError;
  /** The network for which DEL is called. */
  readonly network: string | undefined;
}

/** The network that is executed, and its folder. */
export type ExecutedNetwork = Awaited<ReturnType<typeof loadFirstNetwork>>;

/** Rejects with `CniError` code 7 if there is no network, or it contains the delegate. */
export async function loadExecutedNetwork(
  files: ExecuteCallDeps["files"],
  confDirs: ConfDirs,
): Promise<ExecutedNetwork> {
  const loaded = await loadFirstNetwork(files, confDirs);
  const { confDir, conf } = loaded;
  if (!containsDelegate(conf)) return loaded;
  const message = `${confDir}: the network ${conf.name} contains ${DELEGATE_TYPE}, which would call itself without end; the list of berth cni install belongs into another folder`;
  throw new CniError(cniCodes.invalidNetworkConf, message);
}

/**
 * As `loadExecutedNetwork`; undefined for folders without a configuration, or with a broken one: DEL works without either. Rejects with
 * `FilesError`.
 */
export async function executedNetworkIfUsable(
  files: ExecuteCallDeps["files"],
  confDirs: ConfDirs,
): Promise<NetworkConf | undefined> {
  const executed = await readExecutedNetwork(files, confDirs);
  if (executed instanceof FilesError) throw executed;
  return executed instanceof CniError ? undefined : executed.conf;
}

/** As `loadExecutedNetwork`, or its problem. */
async function readExecutedNetwork(
  files: ExecuteCallDeps["files"],
  confDirs: ConfDirs,
): Promise<ExecutedNetwork | CniError | FilesError> {
  try {
    return await loadExecutedNetwork(files, confDirs);
  } catch (error) {
    if (error instanceof CniError || error instanceof FilesError) return error;
    throw error;
  }
}

/** The attachment's entry in the cache for this network; undefined if there is none, or no network. */
async function readEntry(
  { cache }: ExecuteCallDeps,
  conf: NetworkConf | undefined,
  { containerId, ifName }: Attachment,
): Promise<CacheEntry | undefined> {
  return conf && (await cache.read({ network: conf.name, containerId, ifName }));
}

/** The attachment's entry, for any network but the delegate's: the runtime's own entry is beside that of the executed network. */
function findEntry(entries: readonly CacheEntry[], { containerId, ifName }: Attachment): CacheEntry | undefined {
  return entries.find(
    (entry) => entry.network !== DELEGATE_NETWORK && entry.containerId === containerId && entry.ifName === ifName,
  );
}
