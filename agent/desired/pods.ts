import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { StaticPodSource } from "../../proto/kubernetes/static-pod.ts";
import { type DesiredNow, type DesiredPod, fullNameOf } from "../decide/desired.ts";
import { endHold, foreignClaims, mergeSource, type OfferedPod, withPredecessor } from "../decide/merge.ts";
import type { Refusal } from "../decide/node-report.ts";
import { createPodIndex } from "./pod-index.ts";
import type { PodRecords } from "./records.ts";
import { createRefusals } from "./refusals.ts";

export type SourceKind = StaticPodSource["kind"];

/** What should run here: the words of all sources, merged, and kept on the disk. */
export interface DesiredPods {
  /** Brings back what the last agent had taken. */
  restore(): Promise<void>;
  /** The complete word of one source: what is not in it is not wanted from there any more. */
  offer(kind: SourceKind, pods: readonly OfferedPod[]): Promise<void>;
  /** All that the source refuses now, for whoever asks; it is none of what is wanted. */
  refuse(kind: SourceKind, refused: readonly Refusal[]): void;
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
  /** Some source will never speak: whatever is not known stays `unknown`. */
  readonly hasSilentSource: boolean;
  readonly wake: (uid: PodUid) => void;
  readonly interrupt: (uid: PodUid) => void;
  /** What is refused, by all sources, may have changed. */
  readonly refused: (refused: readonly Refusal[]) => void;
  /** All sources have spoken. */
  readonly complete: () => void;
}

export function createDesiredPods(settings: DesiredPodsSettings): DesiredPods {
  const { records, clock, log, kinds, hasSilentSource, wake, interrupt, complete } = settings;
  const pods = createPodIndex();
  const words = new Map<SourceKind, readonly OfferedPod[]>();
  const silent = new Set(kinds);
  const refusals = createRefusals(log, settings.refused);
  /** One merge or end at a time, so that records are written and removed in the order of decisions. */
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

  async function merge(kind: SourceKind, offered: readonly OfferedPod[]): Promise<void> {
    words.set(kind, offered);
    const { added, changed, ended } = mergeSource(pods.all(), kind, offered, clock.now());
    for (const pod of [...added, ...changed, ...ended]) pods.put(pod);
    // What is new begins while it is written down: whoever dies in between leaves a manifest that the next agent takes again.
    for (const { uid } of added) wake(uid);
    const saved = added.map(save);
    // What an end or a change goes by, such as when it was asked for, has to be known to the next agent too.
    const written = [...ended, ...changed].map(async (pod) => {
      await save(pod);
      if (pod.termination === undefined) wake(pod.uid);
      else interrupt(pod.uid);
    });
    await Promise.all([...saved, ...written]);
    refusals.ofClaims(foreignClaims(pods.get, words));
    if (silent.delete(kind) && silent.size === 0) complete();
  }

  function inOrder(work: () => Promise<void>): Promise<void> {
    const done = merging.then(work);
    // Work that failed fails for whoever asked for it; the next begins anew.
    merging = done.catch(() => undefined);
    return done;
  }

  const enqueue = (kind: SourceKind, offered: readonly OfferedPod[]) => inOrder(() => merge(kind, offered));

  /** What follows when a pod is known no more; another one of its uid may have begun since. */
  async function settleEnd(pod: DesiredPod, freedUid: PodUid | undefined): Promise<void> {
    const { uid } = pod;
    // As long as the record of the pod is there, the next agent ends the hold as this one did.
    const freed = freedUid === undefined ? undefined : pods.get(freedUid);
    if (freed !== undefined) await save(freed);
    if (pods.get(uid) === undefined)
      await records.remove(uid).catch((error: unknown) => {
        log.error({ err: error, uid }, "the record of a pod that is gone cannot be removed");
      });
    for (const other of pods.namesakesOf(pod)) wake(other.uid);
    // The same pod may have been asked for again while it ended, by another source too.
    for (const [kind, offered] of words)
      if (offered.some((offer) => offer.pod.metadata.uid === uid)) await merge(kind, offered);
  }

  return {
    async restore() {
      for (const pod of await records.load()) pods.put(pod);
      // A source that is configured no more wants nothing: its pods end.
      const former = new Set(pods.all().map(({ source }) => source.kind));
      for (const kind of former) if (!kinds.includes(kind)) await enqueue(kind, []);
      if (silent.size === 0) complete();
    },
    offer: enqueue,
    refuse: refusals.ofSource,
    get(uid) {
      const pod = pods.get(uid);
      if (pod !== undefined) return withPredecessor(pod, pods.namesakesOf(pod));
      return silent.size > 0 || hasSilentSource ? "unknown" : undefined;
    },
    all: pods.all,
    async finished(uid) {
      const pod = pods.get(uid);
      // Without a termination it is a pod of the same uid that was asked for again since.
      if (pod?.termination === undefined) return;
      const freed = endHold(pod, pods.namesakesOf(pod), clock.now());
      pods.drop(pod);
      if (freed !== undefined) pods.put(freed);
      await inOrder(() => settleEnd(pod, freed?.uid));
    },
  };
}
