import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { StaticPodSource } from "../../../proto/kubernetes/static-pod.ts";
import { formatNanoTime } from "../../../proto/kubernetes/time.ts";
import {
  type DesiredNow,
  type DesiredPod,
  type DesiredSource,
  fullNameOf,
  gracePeriodOf,
  type SourceKind,
} from "../pod/desired.ts";

/** A pod as a manifest asks for it; in one word of a source no uid is there twice. */
export interface OfferedPod {
  readonly pod: Pod;
  readonly source: StaticPodSource;
}

/** What the complete word of one source changes. */
export interface Merge {
  readonly added: readonly DesiredPod[];
  /** Same uid, other content: only pods that carry a uid of their own can change so. */
  readonly changed: readonly DesiredPod[];
  readonly ended: readonly DesiredPod[];
}

/**
 * Compares all that one kind of manifests asks for with what is wanted from it so far. A pod that is no longer asked for gets
 * its grace period; one that is ending is not touched, even when it is asked for again: it begins anew when it is gone.
 */
export function mergeSource(
  current: Iterable<DesiredPod>,
  kind: StaticPodSource["kind"],
  offered: readonly OfferedPod[],
  now: number,
): Merge {
  const known = new Map([...current].map((desired) => [desired.uid, desired]));
  const offers = new Map(offered.map((offer) => [offer.pod.metadata.uid as PodUid, offer]));
  const names = new Set(offered.map(({ pod }) => fullNameOf(pod)));
  const added = [...offers]
    .filter(([uid]) => !known.has(uid))
    .map(([uid, { pod, source }]) => ({ uid, pod: seenAt(pod, now), source, acceptedAt: now, revision: 0 }));
  const mine = [...known.values()].filter(
    ({ source, termination }) => source.kind === kind && termination === undefined,
  );
  const changed = mine.flatMap((desired) => {
    const offer = offers.get(desired.uid);
    if (offer === undefined) return [];
    const pod = seenAt(offer.pod, desired.acceptedAt);
    return isSame(pod, desired.pod) ? [] : [{ ...renewed(desired), ...offer, pod, revision: desired.revision + 1 }];
  });
  const ended = mine
    .filter(({ uid }) => !offers.has(uid))
    .map((desired): DesiredPod => {
      const why = names.has(fullNameOf(desired.pod)) ? "its manifest has changed" : "its manifest is gone";
      const gracePeriodSeconds = Math.max(1, gracePeriodOf(desired.pod));
      return { ...desired, termination: { requestedAt: now, gracePeriodSeconds, why } };
    });
  return { added, changed, ended };
}

/** What was rejected, or has ended, is asked about anew as what it has become; what the node has taken, and runs, it keeps. */
function renewed({ admission, isPlaceFree, ...desired }: DesiredPod): DesiredPod {
  return admission === undefined && isPlaceFree !== true ? desired : { ...desired, admission: { kind: "awaited" } };
}

/** What a source asks for under the uid of a pod that another source has. */
export interface ForeignClaim {
  readonly offer: OfferedPod;
  readonly owner: DesiredSource;
}

/**
 * Of two sources that ask for the same uid the one that was there first keeps it until it asks no more. A pod that ends, or whose
 * source has not spoken yet, is nobody's for certain: whoever asks for it only waits.
 */
export function foreignClaims(
  find: (uid: PodUid) => DesiredPod | undefined,
  words: ReadonlyMap<StaticPodSource["kind"], readonly OfferedPod[]>,
): readonly ForeignClaim[] {
  return [...words].flatMap(([kind, offered]) =>
    offered.flatMap((offer) => {
      const known = find(offer.pod.metadata.uid as PodUid);
      if (known === undefined || known.source.kind === kind) return [];
      const { source, termination } = known;
      const isOwned = source.kind === "api" || words.has(source.kind);
      return termination === undefined && isOwned ? [{ offer, owner: source }] : [];
    }),
  );
}

/**
 * Static pods of one namespace and name live one after the other, in the order in which they were accepted. A pod of the API does
 * not wait: who deletes one by force wants the next one at once.
 */
export function withPredecessor(desired: DesiredPod, namesakes: readonly DesiredPod[]): DesiredNow {
  if (desired.source.kind === "api") return desired;
  const statics = namesakes.filter(({ source }) => source.kind !== "api");
  const index = statics.findIndex(({ uid }) => uid === desired.uid);
  const predecessor = statics[index - 1];
  return predecessor === undefined ? desired : { ...desired, waitsFor: predecessor.uid };
}

/**
 * The pod that waited for the one that is gone now, if any did: it begins now. A hold ends once: where an end could not be recorded
 * and a later agent comes to it again, the next pod has begun long since.
 */
export function endHold(gone: DesiredPod, namesakes: readonly DesiredPod[], now: number): DesiredPod | undefined {
  const [first, next] = namesakes;
  if (first?.uid !== gone.uid || next === undefined || next.heldUntil !== undefined) return undefined;
  return { ...next, heldUntil: now };
}

const seenAnnotation = "kubernetes.io/config.seen";
const sourceAnnotation = "kubernetes.io/config.source";

/**
 * The pod with the time at which this node took it, and the source if that is not in it yet: neither is a part of what a source says.
 * Rule: the kubelet's annotations.
 */
export function seenAt(pod: Pod, acceptedAt: number, source?: SourceKind): Pod {
  const { [seenAnnotation]: _, ...others } = pod.metadata.annotations ?? {};
  const annotations = {
    ...(source === undefined ? others : { ...others, [sourceAnnotation]: source }),
    [seenAnnotation]: formatNanoTime(acceptedAt),
  };
  return { ...pod, metadata: { ...pod.metadata, annotations } };
}

/** A source that says the same again mostly does so with the same object, so that the spec costs one look. */
function isSame(a: Pod, b: Pod): boolean {
  return isEqual(a.spec, b.spec) && isEqual(a.metadata, b.metadata);
}

/** Equal as JSON, the order of keys included: objects that differ in nothing else may count as different. */
export function isEqual(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
