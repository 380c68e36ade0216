import { CriError } from "../../../cri/error.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { Container, PodSandbox } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import { imageOf } from "../../decide/container/image.ts";
import { awaitsReason } from "../../decide/container/oom-reason.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ImagePresence, ObservedContainer, ObservedPod } from "../../decide/pod/observed.ts";
import type { ObservedImages } from "../images.ts";
import type { ContainerEvent } from "./cri-events.ts";
import { type Owner, ownerOf } from "./from-cri.ts";
import {
  createEntry,
  digestEvents,
  disbelieve,
  type Entry,
  isDoubtful,
  markStale,
  mayBeNews,
  type NodeId,
  newestFirst,
  toObservedPod,
} from "./pod-cache-entry.ts";
import type { PodFiles } from "./pod-dirs.ts";
import { applyLists, type Reading, refreshEntry } from "./refresh.ts";

/**
 * The node's pods as last read, each with a note of what is out of date. A look reads only that: a pod at rest costs nothing,
 * and a start costs one status call for each call that changed something.
 */
export interface ObservedPods {
  /** Reads what is out of date. Rejects with `CriError` or `FilesError` while that is impossible. */
  observe(uid: PodUid, desired: DesiredPod | undefined): Promise<ObservedPod>;
  /** Whether a sandbox or container of the pod is on the node; `unknown` while the runtime was not read. */
  isBegun(uid: PodUid): boolean | "unknown";
  /** Lists everything and wakes the pods that differ from what was known. Rejects with `CriError`. */
  audit(): Promise<void>;
  /**
   * The connection is lost, or there was none: whatever happens from now on is missed, so nothing is known until the next audit.
   * Until then whoever looks is told `why`, or what was the reason before where none is given.
   */
  lose(why?: Absence): void;
  /** Takes an event; the pod it concerns is woken. `new` is a pod not seen before; whose `nobody's` is cannot be told yet. */
  hear(event: ContainerEvent): "known" | "new" | "nobody's";
  /** A call of ours that changes the pod begins. `stopping`: whoever made it wakes the pod when that container has ended. */
  mutating(uid: PodUid, stopping?: ContainerId): void;
  /** It has ended, and what it touched has to be read again before anything else is decided. */
  mutated(uid: PodUid, touched: Touched, stopping?: ContainerId): void;
  /** Nothing is left of the pod. */
  forget(uid: PodUid): void;
  wakeAll(): void;
}

/** Why the runtime cannot be read, and the socket at which it is waited for. */
export interface Absence {
  readonly error: CriError;
  readonly socket: string;
}

/** What a call of ours may have changed. A failed call may have changed anything. */
export type Touched =
  /** With the first sandbox of a pod with users of its own their ids are recorded. */
  | { readonly kind: "sandbox"; readonly id: SandboxId; readonly hasIds?: boolean }
  | { readonly kind: "container"; readonly id: ContainerId }
  /** What the answer to CreateContainer tells is all that a look could: it is there, and has not been started. */
  | { readonly kind: "made"; readonly container: ObservedContainer }
  /** A container that was removed, and has left a mark. */
  | { readonly kind: "marked"; readonly id: ContainerId }
  /** A container whose `postStart` hook is due, or has succeeded. */
  | { readonly kind: "hook"; readonly id: ContainerId; readonly instance: string; readonly isPending: boolean }
  /** The pod has files now, and none of its logs was touched. */
  | { readonly kind: "madeFiles"; readonly hasVolumes: boolean }
  | { readonly kind: "files" }
  | { readonly kind: "nothing" }
  | { readonly kind: "everything" };

export interface ObservedPodsSettings extends Reading {
  readonly images: ObservedImages;
  readonly files: PodFiles;
  readonly clock: Clock;
  readonly log: Log;
  readonly wake: (uid: PodUid) => void;
}

interface Room extends ObservedPodsSettings {
  readonly entries: Map<PodUid, Entry>;
  /** The pod of each sandbox and container: events name only those. */
  readonly owners: Map<string, PodUid>;
  /** Pods of which the last audit has found a folder and no name. They enter when they are looked at, which nobody may do yet. */
  readonly nameless: Set<PodUid>;
  /** What no kubelet has made; told once. */
  readonly strangers: Set<string>;
  /** True once everything was listed: from then on, what is not known is not there. */
  isComplete: boolean;
  /** Why it was not, as far as that is known. */
  whyIncomplete: string;
}

export function createObservedPods(settings: ObservedPodsSettings): ObservedPods {
  const room: Room = {
    ...settings,
    entries: new Map(),
    owners: new Map(),
    nameless: new Set(),
    strangers: new Set(),
    isComplete: false,
    whyIncomplete: "the container runtime has not been read yet",
  };
  const { entries, owners } = room;
  return {
    observe: (uid, desired) => observe(room, uid, desired),
    audit: () => audit(room),
    isBegun(uid) {
      const { sandboxes, containers, staleIds } = entries.get(uid) ?? {};
      // What was only listed yet is to be read.
      return room.isComplete ? Boolean(sandboxes?.size || containers?.size || staleIds?.size) : "unknown";
    },
    lose(why) {
      room.isComplete = false;
      if (why === undefined) return;
      room.whyIncomplete = `the container runtime is away, and waited for at ${why.socket}: ${why.error.message}`;
    },
    hear(event) {
      const uid = (event.podUid || owners.get(event.containerId)) ?? owners.get(event.podSandboxId ?? "");
      const entry = uid === undefined ? undefined : entries.get(uid);
      if (uid === undefined) return room.strangers.has(event.containerId) ? "known" : "nobody's";
      if (entry === undefined) return "new";
      if (!mayBeNews(entry, event)) return "known";
      entry.heard.push(event);
      if (!entry.stopping.has(event.containerId)) settings.wake(uid);
      return "known";
    },
    mutating(uid, stopping) {
      const entry = entries.get(uid);
      if (entry === undefined) return;
      entry.mutations++;
      if (stopping !== undefined) entry.stopping.add(stopping);
    },
    mutated(uid, touched, stopping) {
      if (stopping !== undefined) entries.get(uid)?.stopping.delete(stopping);
      touch(room, uid, touched);
    },
    wakeAll() {
      for (const uid of new Set([...entries.keys(), ...room.nameless])) settings.wake(uid);
    },
    forget(uid) {
      entries.delete(uid);
      room.nameless.delete(uid);
      for (const [id, owner] of owners) if (owner === uid) owners.delete(id);
    },
  };
}

async function observe(room: Room, uid: PodUid, desired: DesiredPod | undefined): Promise<ObservedPod> {
  if (!room.isComplete) throw unread(room);
  const { namespace = "default", name = "" } = desired?.pod.metadata ?? {};
  const known = room.entries.get(uid);
  // What only a folder told of has no name, until somebody wants the pod again: its logs are found by that.
  const isNameless = known?.name === "" && name !== "";
  const entry = known === undefined || isNameless ? createEntry(uid, namespace, name, isNameless) : known;
  room.entries.set(uid, entry);
  while (entry.areFilesStale) await lookAtFiles(room.files, entry);
  const stopped = digestEvents(entry);
  const ended = endedIn(entry);
  await refreshEntry(room, entry);
  for (const id of endedIn(entry)) if (!ended.has(id)) awaitReason(room, entry, id);
  claimIds(room, entry);
  if (awaitDoubtful(room, entry, stopped) === "given up") await refreshEntry(room, entry);
  return toObservedPod(entry, await imagesOf(room, entry, desired));
}

/** What a call of ours has changed meanwhile (a hook runs beside the looks) the look may have missed: it is made again. */
async function lookAtFiles(files: PodFiles, entry: Entry): Promise<void> {
  const { mutations } = entry;
  entry.areFilesStale = false;
  try {
    const { exist, ...found } = await files.look(entry);
    Object.assign(entry, { hasFiles: exist, ...found });
    if (entry.mutations !== mutations) entry.areFilesStale = true;
  } catch (error) {
    entry.areFilesStale = true;
    throw error;
  }
}

/** No call was made that the sentence could begin with. */
function unread({ whyIncomplete: message }: Room): CriError {
  return Object.assign(new CriError("UNAVAILABLE", "ListPodSandbox", message), { message });
}

/** Events find the pod by what it has now; what is gone names nobody. */
function claimIds({ owners }: Room, entry: Entry): void {
  const ids = new Set<string>([...entry.sandboxes.keys(), ...entry.containers.keys()]);
  for (const id of entry.ids) if (!ids.has(id)) owners.delete(id);
  for (const id of ids) owners.set(id, entry.uid);
  entry.ids = ids;
}

/** The images of the containers whose newest instance does not live: those that may have to be created next. */
async function imagesOf(
  { images }: Room,
  entry: Entry,
  desired: DesiredPod | undefined,
): Promise<ObservedPod["images"]> {
  const containers = newestFirst(entry.containers.values());
  const lives = ({ name }: { readonly name: string }) => {
    const newest = containers.find((each) => each.name === name);
    return newest?.state === "created" || newest?.state === "running";
  };
  const wanted = (desired === undefined ? [] : allContainers(desired.pod.spec))
    .filter((container) => !lives(container))
    .map(imageOf);
  const found = [...new Set(wanted)].map(async (image) => [image, await images.presence(image)] as const);
  return new Map<string, ImagePresence>(await Promise.all(found));
}

const DOUBT_FIRST_MS = 5;
const DOUBT_LONGEST_MS = 1_000;
const MOST_DOUBTS = 48;

/*
 * The event of an exit can be ahead of the runtime's own status: by some ten milliseconds, and by seconds on a busy machine. What was
 * heard is believed, so the status is read again after 5, 10, 20 ms … and then each second; if it still shows life after 41 s, the status
 * is right and the event was not. To give up early costs more: no other event comes, and what has ended counts as running.
 */
function awaitDoubtful({ clock, wake }: Room, entry: Entry, stopped: readonly NodeId[]): "given up" | undefined {
  const { doubtful, toldExits } = entry;
  for (const id of [...stopped, ...toldExits.keys()]) doubtful.add(id);
  for (const id of doubtful) if (!isDoubtful(entry, id)) doubtful.delete(id);
  if (doubtful.size === 0) entry.doubts = 0;
  if (doubtful.size === 0 || entry.isAwaited) return undefined;
  if (entry.doubts === MOST_DOUBTS) {
    entry.doubts = 0;
    disbelieve(entry);
    return "given up";
  }
  entry.isAwaited = true;
  const delayMs = Math.min(DOUBT_LONGEST_MS, DOUBT_FIRST_MS * 2 ** entry.doubts++);
  clock.wakeAt(clock.now() + delayMs, () => {
    entry.isAwaited = false;
    for (const id of doubtful)
      entry.heard.push({ kind: "container", change: "stopped", containerId: id, isSandbox: undefined });
    wake(entry.uid);
  });
  return undefined;
}

const LATE_REASON_MS = [20, 100, 1_000, 5_000] as const;

function endedIn({ containers }: Entry): ReadonlySet<ContainerId> {
  return new Set([...containers.values()].filter(({ state }) => state === "exited").map(({ id }) => id));
}

/*
 * A runtime hears of an end and of what the kernel killed for its memory by two ways:
 *
 *   1. the process is killed                    3. a look shows the end: 137, `Error`
 *   2. its end is heard, and written down       4. the word of the memory is heard; now the status says `OOMKilled`
 *
 * No event tells of the fourth. So what has just ended by SIGKILL, of which no such reason is shown, is read again.
 */
function awaitReason({ clock, entries, wake }: Room, entry: Entry, id: ContainerId): void {
  const ended = entry.containers.get(id);
  if (ended === undefined || !awaitsReason(ended)) return;
  for (const at of LATE_REASON_MS.map((delayMs) => ended.finishedAt + delayMs)) {
    if (at <= clock.now()) continue;
    clock.wakeAt(at, () => {
      const known = entry.containers.get(id);
      if (entries.get(entry.uid) !== entry || known === undefined || !awaitsReason(known)) return;
      markStale(entry, id);
      wake(entry.uid);
    });
  }
}

function touch(room: Room, uid: PodUid, touched: Touched): void {
  const entry = room.entries.get(uid);
  if (entry === undefined) return;
  entry.mutations++;
  switch (touched.kind) {
    case "nothing":
      return;
    case "madeFiles":
      entry.hasFiles = true;
      entry.hasVolumes ||= touched.hasVolumes;
      return;
    case "files":
      entry.areFilesStale = true;
      return;
    case "everything":
      entry.isStale = true;
      // Volumes that could not be prepared may have left folders.
      entry.areFilesStale = true;
      for (const id of [...entry.sandboxes.keys(), ...entry.containers.keys()]) markStale(entry, id);
      return;
    case "made":
      room.owners.set(touched.container.id, uid);
      entry.parents.set(touched.container.id, touched.container.sandboxId);
      entry.containers.set(touched.container.id, touched.container);
      return;
    case "hook": {
      const others = [...entry.pendingHooks].filter((instance) => instance !== touched.instance);
      entry.pendingHooks = new Set(touched.isPending ? [...others, touched.instance] : others);
      touchOne(room, entry, touched.id);
      return;
    }
    case "marked":
      entry.areFilesStale = true;
      touchOne(room, entry, touched.id);
      return;
    case "sandbox":
      entry.hasIds ||= touched.hasIds === true;
      touchOne(room, entry, touched.id);
      return;
    case "container":
      touchOne(room, entry, touched.id);
      return;
  }
}

function touchOne({ owners }: Room, entry: Entry, id: NodeId): void {
  owners.set(id, entry.uid);
  markStale(entry, id);
}

/*
 * A list and our own calls can cross:
 *
 *   1. the audit asks for all containers        3. our call creates a container, and its turn reads it
 *   2. the runtime takes its list               4. the list arrives, without it
 *
 * Taken at its word, the list would say that the container is gone, and the next turn would create a second one. So a list
 * says nothing of a pod that we changed since it was asked for: that pod reads itself anew in its own turn.
 */
async function audit(room: Room): Promise<void> {
  const { runtime, entries, files, wake } = room;
  // Of entries, not of uids: a pod may have come since, or have gone and begun anew.
  const before = new Map([...entries.values()].map((entry) => [entry, entry.mutations]));
  const [sandboxes, containers, onDisk] = await Promise.all([
    runtime.listPodSandbox({}),
    runtime.listContainers({}),
    files.owners(),
  ]).catch((error: Error) => {
    room.whyIncomplete = `the container runtime could not be read: ${error.message}`;
    throw error;
  });
  tellOfStrangers(room, [...sandboxes, ...containers]);
  for (const owner of [...sandboxes, ...containers].map(ownerOf)) enter(room, owner);
  const onDiskOnly = onDisk.filter(({ uid }) => !entries.has(uid));
  room.nameless.clear();
  for (const owner of onDiskOnly) enter(room, owner);
  for (const { uid } of onDiskOnly) if (!entries.has(uid)) room.nameless.add(uid);
  const isFirst = !room.isComplete;
  room.isComplete = true;
  const sandboxesOf = Map.groupBy(sandboxes, (each) => ownerOf(each)?.uid);
  const containersOf = Map.groupBy(containers, (each) => ownerOf(each)?.uid);
  for (const [uid, entry] of entries) {
    const wasChangedByUs = (before.get(entry) ?? 0) !== entry.mutations;
    if (wasChangedByUs) entry.isStale = true;
    const isNew = !wasChangedByUs && applyLists(entry, sandboxesOf.get(uid) ?? [], containersOf.get(uid) ?? []);
    if (isNew || wasChangedByUs || isFirst) wake(uid);
  }
  for (const { uid } of onDiskOnly) wake(uid);
}

/** Without a name the pod enters when it is looked at: whoever wants it knows what it is called. */
function enter({ entries }: Room, owner: Owner | undefined): void {
  if (owner === undefined || owner.name === "" || entries.has(owner.uid)) return;
  entries.set(owner.uid, createEntry(owner.uid, owner.namespace, owner.name, false));
}

function tellOfStrangers({ strangers, log }: Room, found: readonly (PodSandbox | Container)[]): void {
  const present = new Set(found.map(({ id }) => id));
  for (const id of strangers) if (!present.has(id)) strangers.delete(id);
  for (const each of found) {
    if (ownerOf(each) !== undefined || strangers.has(each.id)) continue;
    strangers.add(each.id);
    log.info({ id: each.id }, "the runtime shows something that belongs to no pod; it is left alone");
  }
}
