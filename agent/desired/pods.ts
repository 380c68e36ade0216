import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { StaticPodSource } from "../../proto/kubernetes/static-pod.ts";
import { type DesiredNow, type DesiredPod, fullNameOf, type SourceKind } from "../decide/desired.ts";
import { endHold, foreignClaims, type Merge, mergeSource, type OfferedPod, withPredecessor } from "../decide/merge.ts";
import type { ApiNews } from "../decide/merge-api.ts";
import type { Refusal } from "../decide/node-report.ts";
import { createApiWord } from "./api-word.ts";
import { createPodIndex } from "./pod-index.ts";
import type { PodRecords } from "./records.ts";
import { createRefusals } from "./refusals.ts";

type StaticKind = StaticPodSource["kind"];

/** What should run here: the words of all sources, merged, and kept on the disk. */
export interface DesiredPods {
  /** Brings back what the last agent had taken. */
  restore(): Promise<void>;
  /** The complete word of one kind of manifests: what is not in it is not wanted from there any more. */
  offer(kind: StaticKind, pods: readonly OfferedPod[]): Promise<void>;
  /** All that the source refuses now, for whoever asks; it is none of what is wanted. */
  refuse(kind: StaticKind, refused: readonly Refusal[]): void;
  /** The word of the API server, complete or what has changed of it. */
  hear(news: ApiNews): Promise<void>;
  /** `unknown` while a source that may want it has not spoken. */
  get(uid: PodUid): DesiredNow | undefined | "unknown";
  /** All but those that are known only because the API server has not forgotten them yet. */
  all(): readonly DesiredPod[];
  /** True when every source has spoken: what nobody has asked for then, nobody wants. */
  isComplete(): boolean;
  /** Nothing is left of the pod on the node. */
  finished(uid: PodUid): Promise<void>;
  /** Records the last word on a pod, which could not be told: nothing else on the node would tell it again. */
  keepLast(uid: PodUid, status: PodStatus): Promise<void>;
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
  const { clock, log, kinds, hasSilentSource, wake, interrupt, complete } = settings;
  const pods = createPodIndex();
  const words = new Map<StaticKind, readonly OfferedPod[]>();
  const silent = new Set(kinds);
  const refusals = createRefusals(log, settings.refused);
  const { save, remove } = createRecording(settings);
  const api = createApiWord({ pods, clock, save, remove, wake, interrupt });
  const inOrder = createOrder();

  async function merge(kind: StaticKind, offered: readonly OfferedPod[]): Promise<void> {
    words.set(kind, offered);
    const merged = mergeSource(pods.all(), kind, offered, clock.now());
    for (const pod of [...merged.added, ...merged.changed, ...merged.ended]) pods.put(pod);
    await recordMerge(merged, { save, wake, interrupt });
    refusals.ofClaims(foreignClaims(pods.get, words));
    spoke(kind);
  }

  const isComplete = () => silent.size === 0 && !hasSilentSource;

  function spoke(kind: SourceKind): void {
    if (silent.delete(kind) && silent.size === 0) complete();
  }

  const enqueue = (kind: StaticKind, offered: readonly OfferedPod[]) => inOrder(() => merge(kind, offered));

  async function hear(news: ApiNews): Promise<void> {
    const recorded = api.hear(news);
    if (news.kind === "complete") spoke("api");
    await recorded;
  }

  /** What follows when a pod is known no more; another one of its uid may have begun since. */
  async function settleEnd(pod: DesiredPod, freedUid: PodUid | undefined): Promise<void> {
    const { uid } = pod;
    // As long as the record of the pod is there, the next agent ends the hold as this one did.
    const freed = freedUid === undefined ? undefined : pods.get(freedUid);
    if (freed !== undefined) await save(freed);
    if (pods.get(uid) === undefined) await remove(uid);
    for (const other of pods.namesakesOf(pod)) wake(other.uid);
    // The same pod may have been asked for again while it ended, by another source too.
    for (const [kind, offered] of words)
      if (offered.some((offer) => offer.pod.metadata.uid === uid)) await merge(kind, offered);
  }

  return {
    async restore() {
      for (const pod of await settings.records.load()) pods.put(pod);
      // A source that is configured no more wants nothing: its pods end.
      const former = new Set(pods.all().map(({ source }) => source.kind));
      for (const kind of former)
        if (!kinds.includes(kind)) await (kind === "api" ? hear({ kind: "complete", pods: [] }) : enqueue(kind, []));
      if (silent.size === 0) complete();
    },
    offer: enqueue,
    refuse: refusals.ofSource,
    hear,
    get(uid) {
      const pod = pods.get(uid);
      if (pod !== undefined) return withPredecessor(pod, pods.namesakesOf(pod));
      return isComplete() ? undefined : "unknown";
    },
    all: () => pods.all().filter(({ uid }) => !api.isOver(uid)),
    isComplete,
    async finished(uid) {
      const pod = pods.get(uid);
      // Without a termination it is a pod of the same uid that was asked for again since.
      if (pod?.termination === undefined) return;
      if (pod.source.kind === "api") return await api.finished(pod);
      const freed = endHold(pod, pods.namesakesOf(pod), clock.now());
      pods.drop(pod);
      if (freed !== undefined) pods.put(freed);
      await inOrder(() => settleEnd(pod, freed?.uid));
    },
    keepLast: api.keepLast,
  };
}

/** Writes down what has changed, and tells whom it concerns. */
async function recordMerge(
  { added, changed, ended }: Merge,
  { save, wake, interrupt }: Pick<DesiredPodsSettings, "wake" | "interrupt"> & Pick<PodRecords, "save">,
): Promise<void> {
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
}

/** One merge or end of a static pod at a time, so that records are written and removed in the order of decisions. */
function createOrder(): (work: () => Promise<void>) => Promise<void> {
  let last: Promise<void> = Promise.resolve();
  return (work) => {
    const done = last.then(work);
    // Work that failed fails for whoever asked for it; the next begins anew.
    last = done.catch(() => undefined);
    return done;
  };
}

/** A record that cannot be written does not keep a pod from running; it would only be forgotten with the agent. */
function createRecording({ records, log }: Pick<DesiredPodsSettings, "records" | "log">) {
  return {
    async save(pod: DesiredPod): Promise<void> {
      try {
        await records.save(pod);
      } catch (error) {
        log.error(
          { err: error, pod: fullNameOf(pod.pod), uid: pod.uid },
          "the pod cannot be recorded; a restart would forget it",
        );
      }
    },
    async remove(uid: PodUid): Promise<void> {
      await records.remove(uid).catch((error: unknown) => {
        log.error({ err: error, uid }, "the record of a pod that is gone cannot be removed");
      });
    },
  };
}
