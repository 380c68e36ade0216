import { type CriCode, CriError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import {
  type Container,
  ContainerState,
  type ContainerStatus,
  type PodSandbox,
  PodSandboxState,
} from "../../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import { listedContainer, listedSandbox, reasonOfExit, toObservedContainer, toObservedSandbox } from "./from-cri.ts";
import { type CriId, markStale, type PodCacheEntry, removeFrom, type StaleToken } from "./pod-cache-entry.ts";
import type { TerminationMessages } from "./termination-message.ts";

export type RuntimeReader = Pick<Runtime, "listPodSandbox" | "listContainers" | "podSandboxStatus" | "containerStatus">;

/** What a refresh reads from. */
export interface RefreshDeps {
  readonly runtime: RuntimeReader;
  readonly terminationMessages: TerminationMessages;
}

/** How many reads of a container's status must fail in a row before the runtime's list is used instead. */
const MAX_CONTAINER_READS = 3;

/**
 * Reads what is marked as stale in an entry, and nothing else. Rejects with `CriError` when every read has ended; the
 * marks of failed reads stay.
 */
export async function refreshEntry({ runtime, terminationMessages }: RefreshDeps, entry: PodCacheEntry): Promise<void> {
  if (entry.isStale) {
    // Clear the mark before the request: what makes the entry stale meanwhile counts for the next observation.
    entry.isStale = false;
    try {
      await readLists(runtime, entry);
    } catch (error) {
      entry.isStale = true;
      throw error;
    }
  }
  // A read that outlived a failed refresh would overwrite what the next refresh reads, with an older status.
  const reads = await Promise.allSettled(
    [...entry.staleIds].map(([id, token]) => readOne({ runtime, terminationMessages }, entry, id, token)),
  );
  const failed = reads.find((read) => read.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}

/** Codes after which a list would show nothing more: the runtime has not answered, or does not have the object. */
const UNLISTABLE_CODES: ReadonlySet<CriCode> = new Set(["UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "NOT_FOUND"]);

async function readLists(runtime: RuntimeReader, entry: PodCacheEntry): Promise<void> {
  const filter = { podUid: entry.uid };
  const [sandboxes, containers] = await Promise.all([runtime.listPodSandbox(filter), runtime.listContainers(filter)]);
  applyLists(entry, sandboxes, containers);
}

/** Applies lists to an entry; what differs from the cache becomes stale. Returns true if anything differed. */
export function applyLists(
  entry: PodCacheEntry,
  sandboxes: readonly PodSandbox[],
  containers: readonly Container[],
): boolean {
  const present = new Set<string>([...sandboxes, ...containers].map(({ id }) => id));
  const gone = [...entry.sandboxes.keys(), ...entry.containers.keys()].filter((id) => !present.has(id));
  for (const id of gone) removeFrom(entry, id);
  for (const { id, podSandboxId } of containers) entry.parents.set(id as ContainerId, podSandboxId as SandboxId);
  const changed = [
    ...sandboxes.filter((sandbox) => !isKnownSandbox(entry, sandbox)),
    ...containers.filter((container) => !isKnownContainer(entry, container)),
  ];
  for (const { id } of changed) markStale(entry, id as CriId);
  return gone.length > 0 || changed.length > 0;
}

function isKnownSandbox(entry: PodCacheEntry, { id, state }: PodSandbox): boolean {
  return entry.sandboxes.get(id as SandboxId)?.ready === (state === PodSandboxState.SANDBOX_READY);
}

function isKnownContainer(entry: PodCacheEntry, { id, state }: Container): boolean {
  const known = entry.containers.get(id as ContainerId);
  switch (known?.state) {
    case "created":
      return state === ContainerState.CONTAINER_CREATED;
    case "running":
      return state === ContainerState.CONTAINER_RUNNING;
    // An exited container cannot change any more.
    case "exited":
      return state === ContainerState.CONTAINER_EXITED;
    case "unknown":
    case undefined:
      return false;
  }
}

/**
 * Merges an exit that an event reported into a status that does not show it yet. The runtime cleans a container up,
 * which takes some ten milliseconds, before its status changes. Reason and exit code are those that the status is going
 * to have.
 */
function withEventExit({ eventExits }: PodCacheEntry, status: ContainerStatus): ContainerStatus {
  const id = status.id as ContainerId;
  const eventExit = eventExits.get(id);
  if (eventExit === undefined) return status;
  if (status.state !== ContainerState.CONTAINER_RUNNING) {
    eventExits.delete(id);
    // A runtime that was killed before it saved the exit makes one up: 255, `Unknown` in containerd.
    if (status.reason !== "Unknown") return status;
  }
  const reason = reasonOfExit(eventExit.exitCode);
  return { ...status, ...eventExit, reason, state: ContainerState.CONTAINER_EXITED };
}

/*
 * A relist can overtake a status:
 *
 *   1. an observation requests a status         3. the relist shows the exit, marks the container and wakes the pod
 *   2. the runtime reads it, and then the       4. the status arrives, from before the exit
 *      container exits
 *
 * If step 4 cleared the mark of step 3, the next observation would read nothing, and the exit would be missed until the
 * next relist.
 */
async function readOne(
  { runtime, terminationMessages }: RefreshDeps,
  entry: PodCacheEntry,
  id: CriId,
  token: StaleToken,
): Promise<void> {
  const parent = entry.parents.get(id as ContainerId);
  try {
    const isRead =
      parent === undefined
        ? await readSandbox(runtime, entry, id as SandboxId)
        : await readContainer({ runtime, terminationMessages }, entry, id as ContainerId, parent);
    if (isRead && entry.staleIds.get(id) === token) entry.staleIds.delete(id);
  } catch (error) {
    if (!(error instanceof CriError && error.code === "NOT_FOUND")) throw error;
    removeFrom(entry, id);
    // The containers of a removed sandbox are removed, too.
    for (const [container, sandbox] of [...entry.parents]) if (sandbox === id) removeFrom(entry, container);
  }
}

/**
 * Reads a sandbox. If the runtime answers with an error, a list shows what is needed to remove the sandbox: returns
 * false, and the status is read again in the next observation.
 */
async function readSandbox(runtime: RuntimeReader, entry: PodCacheEntry, id: SandboxId): Promise<boolean> {
  try {
    entry.sandboxes.set(id, toObservedSandbox(await runtime.podSandboxStatus(id)));
    entry.sandboxReadErrors.delete(id);
    return true;
  } catch (error) {
    if (!(error instanceof CriError) || UNLISTABLE_CODES.has(error.code)) throw error;
    const [listed] = await runtime.listPodSandbox({ id });
    if (listed === undefined) throw new CriError("NOT_FOUND", error.verb, error.details, { cause: error });
    entry.sandboxes.set(id, listedSandbox(listed, entry.sandboxes.get(id)));
    entry.sandboxReadErrors.set(id, error);
    return false;
  }
}

/**
 * Reads a container. If the runtime answers with an error again and again, a list shows what is needed to stop and remove
 * the container: returns false, and the status is read again in the next observation.
 */
async function readContainer(
  { runtime, terminationMessages }: RefreshDeps,
  entry: PodCacheEntry,
  id: ContainerId,
  sandboxId: SandboxId,
): Promise<boolean> {
  let read: ContainerStatus;
  try {
    read = await runtime.containerStatus(id);
  } catch (error) {
    if (!(error instanceof CriError) || UNLISTABLE_CODES.has(error.code)) throw error;
    const times = (entry.containerReadErrors.get(id)?.times ?? 0) + 1;
    entry.containerReadErrors.set(id, { error, times });
    if (times < MAX_CONTAINER_READS) throw error;
    const [listed] = await runtime.listContainers({ id });
    if (listed === undefined) throw new CriError("NOT_FOUND", error.verb, error.details, { cause: error });
    entry.containers.set(id, listedContainer(listed, entry.containers.get(id), entry.eventExits.get(id)));
    if (listed.state !== ContainerState.CONTAINER_RUNNING) entry.eventExits.delete(id);
    return false;
  }
  const status = withEventExit(entry, read);
  const container = toObservedContainer({ ...status, message: await terminationMessages.read(status) }, sandboxId);
  entry.containers.set(id, container);
  entry.containerReadErrors.delete(id);
  return true;
}
