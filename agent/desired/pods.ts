import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { StaticPodSource } from "../../proto/kubernetes/static-pod.ts";
import { type DesiredNow, type DesiredPod, fullNameOf } from "../decide/desired.ts";
import { mergeSource, type OfferedPod, withPredecessor } from "../decide/merge.ts";
import type { PodRecords } from "./records.ts";

export type SourceKind = StaticPodSource["kind"];

/** What should run here: the words of all sources, merged, and kept on the disk. */
export interface DesiredPods {
  /** Brings back what the last agent had taken. */
  restore(): Promise<void>;
  /** The complete word of one source: what is not in it is not wanted from there any more. */
  offer(kind: SourceKind, pods: readonly OfferedPod[]): Promise<void>;
  /** `unknown` while a source that may want it has not spoken. */
  get(uid: PodUid): DesiredNow | undefined | "unknown";
  all(): readonly DesiredPod[];
  /** Nothing is left of the pod on the node. */
  finished(uid: PodUid): Promise<void>;
}

export interface DesiredPodsSettings {
  readonly records: PodRecords;
  readonly clock: Clock;
  readonly log: Log;
  /** The sources that will speak; only when all have is a pod that nobody asks for an orphan. */
  readonly kinds: readonly SourceKind[];
  readonly wake: (uid: PodUid) => void;
  readonly interrupt: (uid: PodUid) => void;
  /** All sources have spoken. */
  readonly complete: () => void;
}

export function createDesiredPods(settings: DesiredPodsSettings): DesiredPods {
  const { records, clock, log, kinds, wake, interrupt, complete } = settings;
  /** In the order in which they were accepted. */
  const pods = new Map<PodUid, DesiredPod>();
  /** Nearly every name belongs to one pod: only where it does not is the order looked at. */
  const countByName = new Map<string, number>();
  const words = new Map<SourceKind, readonly OfferedPod[]>();
  const silent = new Set(kinds);
  /** One merge at a time, so that records are written in the order of decisions. */
  let merging: Promise<void> = Promise.resolve();

  /** A record that cannot be written does not keep a pod from running; it would only be forgotten with the agent. */
  async function save(pod: DesiredPod): Promise<void> {
    try {
      await records.save(pod);
    } catch (error) {
      log.error(
        { err: error, pod: fullNameOf(pod.pod), uid: pod.uid },
        "the pod cannot be recorded; a restart would forget it",
      );
    }
  }

  function put(pod: DesiredPod): void {
    const name = fullNameOf(pod.pod);
    if (!pods.has(pod.uid)) countByName.set(name, (countByName.get(name) ?? 0) + 1);
    pods.set(pod.uid, pod);
  }

  function drop(pod: DesiredPod): void {
    const name = fullNameOf(pod.pod);
    const left = (countByName.get(name) ?? 1) - 1;
    if (left === 0) countByName.delete(name);
    else countByName.set(name, left);
    pods.delete(pod.uid);
  }

  function namesakesOf(pod: DesiredPod): readonly DesiredPod[] {
    const name = fullNameOf(pod.pod);
    if (countByName.get(name) === 1 && pods.has(pod.uid)) return [pod];
    return [...pods.values()].filter((other) => fullNameOf(other.pod) === name);
  }

  async function merge(kind: SourceKind, offered: readonly OfferedPod[]): Promise<void> {
    words.set(kind, offered);
    const { added, changed, ended } = mergeSource(pods.values(), kind, offered, clock.now());
    for (const pod of [...added, ...changed, ...ended]) put(pod);
    const written = [...ended, ...changed, ...added].map(async (pod) => {
      await save(pod);
      if (pod.termination === undefined) wake(pod.uid);
      else interrupt(pod.uid);
    });
    await Promise.all(written);
    if (silent.delete(kind) && silent.size === 0) complete();
  }

  function enqueue(kind: SourceKind, offered: readonly OfferedPod[]): Promise<void> {
    merging = merging.then(() => merge(kind, offered));
    return merging;
  }

  return {
    async restore() {
      for (const pod of await records.load()) put(pod);
      if (silent.size === 0) complete();
    },
    offer: enqueue,
    get(uid) {
      const pod = pods.get(uid);
      if (pod !== undefined) return withPredecessor(pod, namesakesOf(pod));
      return silent.size > 0 ? "unknown" : undefined;
    },
    all: () => [...pods.values()],
    async finished(uid) {
      const pod = pods.get(uid);
      // Without a termination it is a pod of the same uid that was asked for again since.
      if (pod?.termination === undefined) return;
      drop(pod);
      await records.remove(uid).catch((error: unknown) => {
        log.error({ err: error, uid }, "the record of a pod that is gone cannot be removed");
      });
      for (const other of namesakesOf(pod)) wake(other.uid);
      // The same pod may have been asked for again while it ended.
      const offered = words.get(pod.source.kind);
      if (offered?.some((offer) => offer.pod.metadata.uid === uid)) await enqueue(pod.source.kind, offered);
    },
  };
}
