import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { StaticPodSource } from "../../proto/kubernetes/static-pod.ts";
import { type DesiredNow, type DesiredPod, fullNameOf } from "../decide/desired.ts";
import { type ForeignClaim, foreignClaims, mergeSource, type OfferedPod, withPredecessor } from "../decide/merge.ts";
import { placeOf } from "./place.ts";
import { createPodIndex } from "./pod-index.ts";
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
  /** Some source will never speak: whatever is not known stays `unknown`. */
  readonly hasSilentSource: boolean;
  readonly wake: (uid: PodUid) => void;
  readonly interrupt: (uid: PodUid) => void;
  /** All sources have spoken. */
  readonly complete: () => void;
}

export function createDesiredPods(settings: DesiredPodsSettings): DesiredPods {
  const { records, clock, log, kinds, hasSilentSource, wake, interrupt, complete } = settings;
  const pods = createPodIndex();
  const words = new Map<SourceKind, readonly OfferedPod[]>();
  const silent = new Set(kinds);
  /** What was refused by the last merge because another source has the uid. */
  let refused: ReadonlySet<string> = new Set();
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

  async function merge(kind: SourceKind, offered: readonly OfferedPod[]): Promise<void> {
    words.set(kind, offered);
    const { added, changed, ended } = mergeSource(pods.all(), kind, offered, clock.now());
    for (const pod of [...added, ...changed, ...ended]) pods.put(pod);
    const written = [...ended, ...changed, ...added].map(async (pod) => {
      await save(pod);
      if (pod.termination === undefined) wake(pod.uid);
      else interrupt(pod.uid);
    });
    await Promise.all(written);
    tellRefused();
    if (silent.delete(kind) && silent.size === 0) complete();
  }

  /** Each once, for as long as it lasts. */
  function tellRefused(): void {
    const claims = foreignClaims(pods.get, words);
    const told = refused;
    refused = new Set(claims.map(sentenceOf));
    for (const claim of claims) {
      const { pod, source } = claim.offer;
      const fields = {
        pod: fullNameOf(pod),
        uid: pod.metadata.uid,
        [source.kind === "file" ? "file" : "url"]: placeOf(source),
      };
      if (!told.has(sentenceOf(claim))) log.error(fields, sentenceOf(claim));
    }
  }

  function enqueue(kind: SourceKind, offered: readonly OfferedPod[]): Promise<void> {
    const merged = merging.then(() => merge(kind, offered));
    // A merge that failed fails for whoever offered; the next one begins anew.
    merging = merged.catch(() => undefined);
    return merged;
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
      pods.drop(pod);
      await records.remove(uid).catch((error: unknown) => {
        log.error({ err: error, uid }, "the record of a pod that is gone cannot be removed");
      });
      for (const other of pods.namesakesOf(pod)) wake(other.uid);
      // The same pod may have been asked for again while it ended, by another source too.
      for (const [kind, offered] of words)
        if (offered.some((offer) => offer.pod.metadata.uid === uid)) await enqueue(kind, offered);
    },
  };
}

function sentenceOf({ offer: { pod, source }, owner }: ForeignClaim): string {
  const what = source.kind === "file" ? "manifest" : `static pod ${fullNameOf(pod)} from the URL`;
  return `${what} refused: pod uid ${pod.metadata.uid} is already defined by ${placeOf(owner)}`;
}
