import type { Clock, Instant } from "../../host/clock.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import { isUnusableFile } from "../../host/fs/unusable-file.ts";
import type { Log } from "../../host/log/log.ts";
import { type AttachmentKey, type CacheEntry, decodeCacheEntry, isOfPod } from "../cache-entry.ts";
import { cachedConfIfUsable } from "../cached-conf.ts";
import { type NamespaceState, stateOfNamespace } from "../cached-namespace.ts";
import { DELEGATE_NETWORK } from "../delegate-network.ts";
import { CniError, describeCniError } from "../error.ts";
import type { CollectedGarbage, ListedSandboxes } from "../garbage.ts";
import type { Cni } from "../network.ts";
import { ASIDE_SUFFIX, MAX_FILE_BYTES, RESULTS_FOLDER } from "../result-cache.ts";
import type { TimeLimit } from "../time-limit.ts";
import { createFailedDeletions, type FailedDeletions } from "./failed-deletions.ts";

/** What is known of an attachment that a container runtime has made itself. */
export interface RuntimeAttachmentFacts {
  /** Whether a container runtime has made it for a pod. */
  readonly isOfPod: boolean;
  /** Whether a sandbox of this runtime has it. */
  readonly hasSandbox: boolean;
  /** `unknown` also if this process may not look at it. */
  readonly netns: NamespaceState;
  /** Whether this process sees the network namespaces of the runtime's pods; undefined if no pod shows it. */
  readonly seesNamespaces: boolean | undefined;
  /** Whether it was made before the machine booted: then its pod has ended, also one of another runtime. */
  readonly isBeforeBoot: boolean;
}

/**
 * Whether an attachment has outlived its pod, and nothing but this agent will delete it. The runtime calls DEL for the sandboxes that
 * it knows. Other runtimes may share the cache, and a sandbox in creation is not listed yet: both have a namespace, which an agent
 * with mounts of its own may not see. Undefined if no pod shows whether this one sees it.
 *
 * @internal
 */
export function isLeftOver(facts: RuntimeAttachmentFacts): boolean | undefined {
  if (!facts.isOfPod || facts.hasSandbox || facts.netns !== "gone") return false;
  return facts.seesNamespaces ?? (facts.isBeforeBoot ? true : undefined);
}

export interface RuntimeGarbageDeps {
  /** Rooted at libcni's cache, `/var/lib/cni` on a node. */
  readonly files: Pick<Files, "list" | "read" | "stat" | "rename">;
  /** Whether a network namespace is mounted at a path. */
  readonly isNamespace: (path: string) => Promise<boolean>;
  readonly bootedAt: Instant;
  /** Opened only if there is something to delete. */
  readonly openCni: (timeLimit: TimeLimit) => Promise<Pick<Cni, "del">>;
  readonly clock: Pick<Clock, "now" | "monotonicMs">;
  readonly log: Pick<Log, "warn">;
}

/**
 * How old a file that is not JSON must be to be torn. libcni does not write its files atomically, and a disk may keep the writer waiting.
 * An entry that is set aside too early costs little: the runtime's DEL works without it.
 */
const TORN_AFTER_MS = 10_000;

/**
 * Creates a function that deletes the attachments that a container runtime has made itself and that have outlived their pods, as when
 * it was killed during RunPodSandbox or has lost its state: it calls no DEL for them any more, and their addresses stay taken. The
 * function also sets torn files of the cache aside, with which the runtime's own DEL fails each time.
 *
 * It does not call GC of the plugins: no ADD may run meanwhile, and the runtime takes no lock of ours. A DEL that fails is logged, and is to be
 * tried again after `againAfterMs` unless it cannot succeed, as is what the signal leaves no time for. Rejects with `FilesError` if the
 * cache cannot be read, and with the signal's reason if that aborts a DEL and is no `CniError`.
 */
export function createRuntimeGarbageCollection(
  deps: RuntimeGarbageDeps,
): (
  sandboxes: Pick<ListedSandboxes, "isReady">,
  signal: AbortSignal,
  timeLimit: TimeLimit,
) => Promise<CollectedGarbage> {
  const failed = createFailedDeletions(deps.clock);
  return async (sandboxes, signal, timeLimit) => {
    const { found, againAfterMs } = await readCache(deps);
    const { leftOver, undecided } = await findLeftOver(deps, found, sandboxes);
    failed.retain([...leftOver, ...undecided].map(({ fileName }) => fileName));
    for (const { fileName } of undecided) failed.postpone(fileName);
    // A plugin that hangs does not keep the others from their turn.
    const due = leftOver
      .filter(({ fileName }) => failed.isDue(fileName))
      .toSorted((a, b) => failed.failures(a.fileName) - failed.failures(b.fileName));
    const { deleted, hasRest } =
      due.length === 0 ? nothingDeleted : await deleteEach(deps, due, failed, signal, timeLimit);
    const restAfterMs = hasRest ? REST_AFTER_MS : undefined;
    return { deleted, againAfterMs: earliest([againAfterMs, failed.againAfterMs(), restAfterMs]) };
  };
}

/** When the attachments follow for which a plugin that hangs has left no time. */
const REST_AFTER_MS = 10_000;

const nothingDeleted = { deleted: [], hasRest: false };

/** Returns the attachments that were deleted, and whether the signal has aborted before the turn of all. */
async function deleteEach(
  deps: RuntimeGarbageDeps,
  due: readonly CachedFile[],
  failed: FailedDeletions,
  signal: AbortSignal,
  timeLimit: TimeLimit,
): Promise<{ readonly deleted: readonly AttachmentKey[]; readonly hasRest: boolean }> {
  const cni = await deps.openCni(timeLimit);
  const deleted: AttachmentKey[] = [];
  for (const file of due) {
    if (signal.aborted) return { deleted, hasRest: true };
    if (await deleteOrLog(deps, cni, file, failed, signal)) deleted.push(keyOf(file.entry));
  }
  return { deleted, hasRest: false };
}

function earliest(times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}

const keyOf = ({ network, containerId, ifName }: CacheEntry): AttachmentKey => ({ network, containerId, ifName });

interface CachedFile {
  readonly fileName: string;
  readonly entry: CacheEntry;
  readonly writtenAt: Instant;
}

/** Reads the entries of the cache, and sets torn files aside. `againAfterMs`: when one that may be in writing is old enough. */
async function readCache(deps: RuntimeGarbageDeps) {
  const { files, clock } = deps;
  const found: CachedFile[] = [];
  let againAfterMs: number | undefined;
  for (const { name: fileName, kind } of (await files.list(RESULTS_FOLDER)) ?? []) {
    // The agent that owns the delegate cares for its entries.
    if (kind !== "file" || fileName.endsWith(ASIDE_SUFFIX) || fileName.startsWith(`${DELEGATE_NETWORK}-`)) continue;
    const path = `${RESULTS_FOLDER}/${fileName}`;
    const stat = await files.stat(path);
    if (stat === undefined) continue;
    const text = await readIfUsable(files, path);
    if (text === undefined) continue;
    const entry = decodeCacheEntry(text, undefined);
    if (typeof entry !== "string") found.push({ fileName, entry, writtenAt: stat.modifiedMs });
    if (isJson(text)) continue;
    const leftMs = stat.modifiedMs + TORN_AFTER_MS - clock.now();
    if (leftMs <= 0 || leftMs > TORN_AFTER_MS) await setAside(deps, path);
    else againAfterMs = Math.max(againAfterMs ?? 0, leftMs);
  }
  return { found, againAfterMs };
}

/** Another form of entry, as of another release of libcni, is not torn. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // Only whether it is JSON matters.
    return false;
  }
}

/** Undefined for a file that its runtime or another agent has removed since, and for one that no entry can be, such as a large one. */
async function readIfUsable(files: RuntimeGarbageDeps["files"], path: string): Promise<string | undefined> {
  try {
    return await files.read(path, MAX_FILE_BYTES);
  } catch (error) {
    // A disk that has lost its power may leave anything.
    if (error instanceof FilesError && error.code === "ERR_ENCODING_INVALID_ENCODED_DATA") return "";
    if (isUnusableFile(error)) return undefined;
    throw error;
  }
}

async function setAside({ files, log }: RuntimeGarbageDeps, path: string): Promise<void> {
  try {
    await files.rename(path, `${path}${ASIDE_SUFFIX}`);
  } catch (error) {
    // Race: another agent has set it aside.
    if (error instanceof FilesError && error.code === "ENOENT") return;
    throw error;
  }
  log.warn({ file: `${path}${ASIDE_SUFFIX}` }, "a file of the network's cache is torn, and was set aside");
}

async function findLeftOver(
  deps: RuntimeGarbageDeps,
  found: readonly CachedFile[],
  { isReady }: Pick<ListedSandboxes, "isReady">,
): Promise<{ readonly leftOver: readonly CachedFile[]; readonly undecided: readonly CachedFile[] }> {
  const looked: (CachedFile & Pick<RuntimeAttachmentFacts, "netns">)[] = [];
  for (const file of found) looked.push({ ...file, netns: await lookAt(deps, file.entry) });
  const ofReady = looked.filter(({ entry, netns }) => isReady.get(entry.containerId) === true && netns !== "unknown");
  const seesNamespaces = ofReady.length === 0 ? undefined : ofReady.every(({ netns }) => netns === "mounted");
  const filesWith = (verdict: true | undefined) =>
    looked.filter(
      ({ entry, netns, writtenAt }) =>
        isLeftOver({
          ...{ isOfPod: isOfPod(entry), hasSandbox: isReady.has(entry.containerId), netns, seesNamespaces },
          isBeforeBoot: writtenAt < deps.bootedAt,
        }) === verdict,
    );
  return { leftOver: filesWith(true), undecided: filesWith(undefined) };
}

async function lookAt({ isNamespace }: RuntimeGarbageDeps, entry: CacheEntry): Promise<NamespaceState> {
  try {
    return await stateOfNamespace(entry, isNamespace);
  } catch {
    // A path that this process may not look at says nothing.
    return "unknown";
  }
}

/** Whether DEL has succeeded. */
async function deleteOrLog(
  { log }: RuntimeGarbageDeps,
  cni: Pick<Cni, "del">,
  { fileName, entry }: CachedFile,
  failed: FailedDeletions,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    // By the entry, also if another process has deleted it since.
    await cni.del(entry.network, entry, cachedConfIfUsable(entry), signal);
    failed.remove(fileName);
    return true;
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    if (!failed.add(fileName, error)) return false;
    const { network, containerId, ifName } = entry;
    const reason = describeCniError(error);
    const message = "an attachment whose sandbox is gone cannot be deleted; its addresses may stay taken";
    log.warn({ attachment: `${network} ${containerId} ${ifName}`, reason }, message);
    return false;
  }
}
