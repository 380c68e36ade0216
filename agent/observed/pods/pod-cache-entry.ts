import type { ToldExit } from "../../../cri/runtime.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import { SIGKILLED } from "../../decide/container/oom-reason.ts";
import type { ObservedContainer, ObservedPod, ObservedSandbox } from "../../decide/pod/observed.ts";
import { type ContainerEvent, hasEnded, isNews } from "./cri-events.ts";

export type NodeId = SandboxId | ContainerId;

/** That something is out of date. A read ends only the mark that it found: one made since tells of something newer. */
export type Mark = object;

/** What is known of one pod, and what of it is known to be out of date. */
export interface Entry {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
  readonly sandboxes: Map<SandboxId, ObservedSandbox>;
  readonly containers: Map<ContainerId, ObservedContainer>;
  /** The sandbox of each container: only the list tells it, the status does not. */
  readonly parents: Map<ContainerId, SandboxId>;
  loggedAttempts: ReadonlyMap<string, number>;
  clearedAttempts: ReadonlyMap<string, number>;
  hasFiles: boolean;
  hasVolumes: boolean;
  hasIds: boolean;
  pendingHooks: ReadonlySet<string>;
  /** Under which ids events may name the pod. */
  ids: ReadonlySet<string>;
  /** Single sandboxes and containers to be read again, each by its latest mark. */
  readonly staleIds: Map<NodeId, Mark>;
  /** Nothing is certain: everything is to be listed again. */
  isStale: boolean;
  areFilesStale: boolean;
  /** Calls of ours that change the pod, counted: a list that was begun before one of them says nothing after it. */
  mutations: number;
  /** Containers whose stop is under way: the end of our call wakes the pod, so that the event of the end need not. */
  readonly stopping: Set<string>;
  /** Events since the last look. */
  readonly heard: ContainerEvent[];
  /** How often in a row a stop was heard of that the runtime did not show yet. */
  doubts: number;
  /** How containers have ended by the word of an event, until the runtime's own status says it too. */
  readonly toldExits: Map<ContainerId, ToldExit>;
  /** Of what a stop was heard that the runtime does not show yet. */
  readonly doubtful: Set<NodeId>;
  /** Whether these are going to be read again by themselves. */
  isAwaited: boolean;
}

export function createEntry(uid: PodUid, namespace: string, name: string, isStale: boolean): Entry {
  return {
    uid,
    namespace,
    name,
    sandboxes: new Map(),
    containers: new Map(),
    parents: new Map(),
    loggedAttempts: new Map(),
    clearedAttempts: new Map(),
    hasFiles: false,
    hasVolumes: false,
    hasIds: false,
    pendingHooks: new Set(),
    ids: new Set(),
    staleIds: new Map(),
    isStale,
    areFilesStale: true,
    mutations: 0,
    stopping: new Set(),
    heard: [],
    doubts: 0,
    toldExits: new Map(),
    doubtful: new Set(),
    isAwaited: false,
  };
}

function knownOf(entry: Entry, id: string): ObservedSandbox | ObservedContainer | undefined {
  return entry.sandboxes.get(id as SandboxId) ?? entry.containers.get(id as ContainerId);
}

/** Whether an event is worth a turn of its pod. Of what is still to be read nobody can tell yet. */
export function mayBeNews(entry: Entry, event: ContainerEvent): boolean {
  const id = event.containerId as NodeId;
  return entry.staleIds.has(id) || isAhead(entry, id) || isNews(event, knownOf(entry, id));
}

const isAhead = ({ toldExits }: Entry, id: NodeId): boolean => toldExits.has(id as ContainerId);

/** The sandbox or container is to be read again at the next look. */
export function markStale(entry: Entry, id: NodeId): void {
  entry.staleIds.set(id, {});
}

/** Forgets a sandbox or container that is not there any more. */
export function dropFrom(entry: Entry, id: NodeId): void {
  entry.sandboxes.delete(id as SandboxId);
  entry.containers.delete(id as ContainerId);
  entry.parents.delete(id as ContainerId);
  entry.staleIds.delete(id);
  entry.toldExits.delete(id as ContainerId);
}

/** Marks what the events of a pod have made stale. Returns the ids of which a stop was heard. */
export function digestEvents(entry: Entry): readonly NodeId[] {
  const stopped: NodeId[] = [];
  for (const event of entry.heard.splice(0)) {
    const id = event.containerId as NodeId;
    const known = knownOf(entry, id);
    if (!isNews(event, known) && !isAhead(entry, id)) continue;
    if (event.change === "stopped") stopped.push(id);
    if (isBelieved(event) && known !== undefined && !("ready" in known)) entry.toldExits.set(known.id, event.exit);
    // What one of our own calls has just made is going to be read anyway; the event is its echo.
    if (entry.staleIds.has(id)) continue;
    if (known === undefined) entry.isStale = true;
    else markStale(entry, id);
  }
  return stopped;
}

function isBelieved(event: ContainerEvent): event is ContainerEvent & { readonly exit: ToldExit } {
  return event.exit !== undefined && event.exit.exitCode !== SIGKILLED;
}

/** True of what is known to have stopped by an event alone. */
export function isDoubtful(entry: Entry, id: NodeId): boolean {
  const known = knownOf(entry, id);
  return known !== undefined && (!hasEnded(known) || isAhead(entry, id));
}

/** The runtime has shown life for so long after an event told of an end that it is right; what was believed is read again. */
export function disbelieve({ doubtful, toldExits, staleIds }: Entry): void {
  doubtful.clear();
  for (const id of toldExits.keys()) staleIds.set(id, {});
  toldExits.clear();
}

/** In the order in which decisions see instances: by attempt, then by creation. */
export function newestFirst<T extends { readonly attempt: number; readonly createdAt: number }>(
  all: Iterable<T>,
): readonly T[] {
  return [...all].toSorted((a, b) => b.attempt - a.attempt || b.createdAt - a.createdAt);
}

/** The entry as decisions see it. */
export function toObservedPod(entry: Entry, images: ObservedPod["images"]): ObservedPod {
  const { uid, namespace, name, loggedAttempts, clearedAttempts, pendingHooks, toldExits } = entry;
  const { hasFiles, hasVolumes, hasIds } = entry;
  return {
    uid,
    namespace,
    name,
    sandboxes: newestFirst(entry.sandboxes.values()),
    containers: newestFirst(entry.containers.values()),
    images,
    loggedAttempts,
    clearedAttempts,
    hasFiles,
    hasVolumes,
    hasIds,
    pendingHooks,
    health: new Map(),
    ...(toldExits.size > 0 && { isAhead: true }),
  };
}
