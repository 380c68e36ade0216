import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { StaticPodSource } from "../../../proto/kubernetes/static-pod.ts";
import { entered } from "../../decide/admission/admission.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import {
  endHold,
  type ForeignClaim,
  foreignClaims,
  mergeSource,
  type OfferedPod,
} from "../../decide/sources/merge-static.ts";
import type { PodIndex } from "../pod-index.ts";

export type StaticKind = StaticPodSource["kind"];

/** The part of what should run here that manifests ask for. */
export interface StaticWord {
  /** The complete word of one kind of manifests; resolves when it is merged and recorded. */
  offer(kind: StaticKind, offered: readonly OfferedPod[]): Promise<void>;
  /** Nothing is left of the pod on the node. */
  finished(pod: DesiredPod): Promise<void>;
  /** Records the pod as it is now, in its turn, if it is still known then. */
  save(pod: DesiredPod): Promise<void>;
}

export interface StaticWordSettings {
  readonly pods: PodIndex;
  readonly clock: Clock;
  /** Answers what can be answered of new pods; begins and records them. */
  readonly begin: (added: readonly DesiredPod[], record: (pod: DesiredPod) => Promise<void>) => Promise<void>;
  /** Neither rejects: a record that cannot be written keeps no pod from running. */
  readonly save: (pod: DesiredPod) => Promise<void>;
  readonly remove: (uid: PodUid) => Promise<void>;
  readonly wake: (uid: PodUid) => void;
  readonly interrupt: (uid: PodUid) => void;
  /** What manifests claim under uids of others. */
  readonly foreign: (claims: readonly ForeignClaim[]) => void;
  /** The word of a kind was merged. */
  readonly spoke: (kind: StaticKind) => void;
}

export function createStaticWord(settings: StaticWordSettings): StaticWord {
  const { pods, clock, begin, save, remove, wake } = settings;
  const words = new Map<StaticKind, readonly OfferedPod[]>();
  const inOrder = createOrder();

  async function merge(kind: StaticKind, offered: readonly OfferedPod[]): Promise<void> {
    words.set(kind, offered);
    const { changed, ended, ...merged } = mergeSource(pods.all(), kind, offered, clock.now());
    const added = merged.added.map(entered);
    for (const pod of [...ended, ...added, ...changed]) pods.put(pod);
    const { renewed = [], others = [] } = Object.groupBy(changed, (pod) => (pod.admission ? "renewed" : "others"));
    await Promise.all([begin([...added, ...renewed], save), recordMerge([...ended, ...others], settings)]);
    settings.foreign(foreignClaims(pods.get, words));
    settings.spoke(kind);
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
    offer: (kind, offered) => inOrder(() => merge(kind, offered)),
    async finished(pod) {
      const freed = endHold(pod, pods.namesakesOf(pod), clock.now());
      pods.drop(pod);
      if (freed !== undefined) pods.put(freed);
      await inOrder(() => settleEnd(pod, freed?.uid));
    },
    save: (pod) =>
      inOrder(async () => {
        if (pods.get(pod.uid) !== undefined) await save(pod);
      }),
  };
}

/** Writes down what has changed, and tells whom it concerns: what they go by has to be known to the next agent too. */
async function recordMerge(
  changed: readonly DesiredPod[],
  { save, wake, interrupt }: Pick<StaticWordSettings, "save" | "wake" | "interrupt">,
): Promise<void> {
  await Promise.all(
    changed.map(async (pod) => {
      await save(pod);
      if (pod.termination === undefined) wake(pod.uid);
      else interrupt(pod.uid);
    }),
  );
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
