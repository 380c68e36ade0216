import { CriError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import {
  type Container,
  ContainerState,
  type ContainerStatus,
  type PodSandbox,
  PodSandboxState,
} from "../../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import { toObservedContainer, toObservedSandbox } from "./from-cri.ts";
import { dropFrom, type Entry, type Mark, markStale, type NodeId } from "./pod-cache-entry.ts";
import type { LastWords } from "./termination-message.ts";

export type ReadingVerbs = Pick<Runtime, "listPodSandbox" | "listContainers" | "podSandboxStatus" | "containerStatus">;

/** What of the node is read. */
export interface Reading {
  readonly runtime: ReadingVerbs;
  readonly lastWords: LastWords;
}

/** Brings an entry up to date by asking only for what is marked as stale. Rejects with `CriError`; the marks then stay. */
export async function refreshEntry({ runtime, lastWords }: Reading, entry: Entry): Promise<void> {
  if (entry.isStale) {
    // Taken off before the question: what makes it stale while that is under way counts for the next look.
    entry.isStale = false;
    try {
      await readLists(runtime, entry);
    } catch (error) {
      entry.isStale = true;
      throw error;
    }
  }
  await Promise.all([...entry.staleIds].map(([id, mark]) => readOne({ runtime, lastWords }, entry, id, mark)));
}

async function readLists(runtime: ReadingVerbs, entry: Entry): Promise<void> {
  const filter = { podUid: entry.uid };
  const [sandboxes, containers] = await Promise.all([runtime.listPodSandbox(filter), runtime.listContainers(filter)]);
  applyLists(entry, sandboxes, containers);
}

/** Takes over what lists show; what differs from what is known becomes stale. True when anything differed. */
export function applyLists(entry: Entry, sandboxes: readonly PodSandbox[], containers: readonly Container[]): boolean {
  const present = new Set<string>([...sandboxes, ...containers].map(({ id }) => id));
  const gone = [...entry.sandboxes.keys(), ...entry.containers.keys()].filter((id) => !present.has(id));
  for (const id of gone) dropFrom(entry, id);
  for (const { id, podSandboxId } of containers) entry.parents.set(id as ContainerId, podSandboxId as SandboxId);
  const changed = [
    ...sandboxes.filter((sandbox) => !isKnownSandbox(entry, sandbox)),
    ...containers.filter((container) => !isKnownContainer(entry, container)),
  ];
  for (const { id } of changed) markStale(entry, id as NodeId);
  return gone.length > 0 || changed.length > 0;
}

function isKnownSandbox(entry: Entry, { id, state }: PodSandbox): boolean {
  return entry.sandboxes.get(id as SandboxId)?.ready === (state === PodSandboxState.SANDBOX_READY);
}

function isKnownContainer(entry: Entry, { id, state }: Container): boolean {
  const known = entry.containers.get(id as ContainerId);
  switch (known?.state) {
    case "created":
      return state === ContainerState.CONTAINER_CREATED;
    case "running":
      return state === ContainerState.CONTAINER_RUNNING;
    // What has ended stays ended: nothing about it can be news.
    case "exited":
      return state === ContainerState.CONTAINER_EXITED;
    case "unknown":
    case undefined:
      return false;
  }
}

/**
 * A runtime tidies a container away before its status says that it has ended, which takes some ten milliseconds. Until then the event
 * is believed, in the words that the status is going to have.
 */
function withToldExit({ toldExits }: Entry, status: ContainerStatus): ContainerStatus {
  const id = status.id as ContainerId;
  const told = toldExits.get(id);
  if (told === undefined) return status;
  if (status.state !== ContainerState.CONTAINER_RUNNING) {
    toldExits.delete(id);
    // A runtime that was killed before it had written the end down makes one up: containerd's is 255, `Unknown`.
    if (status.reason !== "Unknown") return status;
  }
  const reason = told.exitCode === 0 ? "Completed" : "Error";
  return { ...status, ...told, reason, state: ContainerState.CONTAINER_EXITED };
}

/*
 * An audit can overtake a status:
 *
 *   1. a look asks for a status                 3. the audit's list shows the end, marks the container and wakes the pod
 *   2. the runtime takes it, and then the       4. the status arrives, from before that
 *      container ends
 *
 * Were the audit's mark ended with ours, the woken look would read nothing, and the end would be unknown until the next audit.
 */
async function readOne({ runtime, lastWords }: Reading, entry: Entry, id: NodeId, mark: Mark): Promise<void> {
  const parent = entry.parents.get(id as ContainerId);
  try {
    if (parent === undefined) {
      const sandbox = toObservedSandbox(await runtime.podSandboxStatus(id as SandboxId));
      entry.sandboxes.set(sandbox.id, sandbox);
    } else {
      const status = withToldExit(entry, await runtime.containerStatus(id as ContainerId));
      const container = toObservedContainer({ ...status, message: await lastWords.of(status) }, parent);
      entry.containers.set(container.id, container);
    }
    if (entry.staleIds.get(id) === mark) entry.staleIds.delete(id);
  } catch (error) {
    if (!(error instanceof CriError && error.code === "NOT_FOUND")) throw error;
    dropFrom(entry, id);
    // A sandbox takes its containers along.
    for (const [container, sandbox] of [...entry.parents]) if (sandbox === id) dropFrom(entry, container);
  }
}
