import type { PodUid } from "../../../proto/ids.ts";
import { isJsonEqual } from "../../../proto/json-equal.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { StaticPodSource } from "../../../proto/kubernetes/static-pod-origin.ts";
import { formatNanoTime } from "../../../proto/kubernetes/values/time.ts";
import { seenAnnotation, sourceAnnotation } from "../../../proto/kubernetes/well-known-names.ts";
import {
  type DesiredPod,
  type DesiredPodView,
  type DesiredSource,
  effectiveGracePeriodOf,
  fullNameOf,
  type SourceKind,
} from "../pod/desired.ts";

/** A pod that a manifest defines. No uid occurs twice in one snapshot of a source. */
export interface ManifestPod {
  readonly pod: Pod;
  readonly source: StaticPodSource;
}

/** The changes that a complete snapshot of one source makes. */
export interface MergeResult {
  readonly added: readonly DesiredPod[];
  /** Same uid, other content: possible only for manifests that set a uid of their own. */
  readonly changed: readonly DesiredPod[];
  /** Pods that begin to terminate, or to terminate sooner. */
  readonly terminating: readonly DesiredPod[];
}

/**
 * Compares a complete snapshot of one kind of manifest source with the desired pods of that source. A pod that is
 * missing from the snapshot is terminated with its grace period. A terminating pod is not touched, even if its manifest
 * is back: it is created again after it is gone.
 */
export function mergeManifests(
  current: Iterable<DesiredPod>,
  kind: StaticPodSource["kind"],
  manifests: readonly ManifestPod[],
  now: number,
): MergeResult {
  const known = new Map([...current].map((desired) => [desired.uid, desired]));
  const manifestsByUid = new Map(manifests.map((manifest) => [manifest.pod.metadata.uid as PodUid, manifest]));
  const names = new Set(manifests.map(({ pod }) => fullNameOf(pod)));
  const added = [...manifestsByUid]
    .filter(([uid]) => !known.has(uid))
    .map(([uid, { pod, source }]) => ({
      uid,
      pod: withConfigAnnotations(pod, now),
      source,
      acceptedAt: now,
      revision: 0,
    }));
  const ownPods = [...known.values()].filter(
    ({ source, termination }) => source.kind === kind && termination === undefined,
  );
  const changed = ownPods.flatMap((desired) => {
    const manifest = manifestsByUid.get(desired.uid);
    if (manifest === undefined) return [];
    const pod = withConfigAnnotations(manifest.pod, desired.acceptedAt);
    return isSamePod(pod, desired.pod)
      ? []
      : [{ ...readmitted(desired), ...manifest, pod, revision: desired.revision + 1 }];
  });
  const terminating = ownPods
    .filter(({ uid }) => !manifestsByUid.has(uid))
    .map((desired): DesiredPod => {
      const why = names.has(fullNameOf(desired.pod)) ? "its manifest has changed" : "its manifest is gone";
      const gracePeriodSeconds = effectiveGracePeriodOf(desired.pod);
      return { ...desired, termination: { requestedAt: now, gracePeriodSeconds, why } };
    });
  return { added, changed, terminating };
}

/**
 * A pod that was rejected, or has ended, is admitted again in its new form; an admitted pod stays admitted. What the
 * node requested for the old form does not concern the new one.
 */
function readmitted({ admission, hasReleasedResources, terminationRequest: _, ...desired }: DesiredPod): DesiredPod {
  return admission === undefined && hasReleasedResources !== true
    ? desired
    : { ...desired, admission: { kind: "awaited" } };
}

/** A manifest whose uid belongs to a pod of another source. */
export interface UidConflict {
  readonly manifest: ManifestPod;
  readonly owner: DesiredSource;
}

/**
 * If two sources define the same uid, the first one owns it until it removes the pod. A terminating pod, or one whose
 * source is not ready yet, has no certain owner: the other source waits without an error.
 */
export function uidConflicts(
  find: (uid: PodUid) => DesiredPod | undefined,
  snapshots: ReadonlyMap<StaticPodSource["kind"], readonly ManifestPod[]>,
): readonly UidConflict[] {
  return [...snapshots].flatMap(([kind, manifests]) =>
    manifests.flatMap((manifest) => {
      const known = find(manifest.pod.metadata.uid as PodUid);
      if (known === undefined || known.source.kind === kind) return [];
      const { source, termination } = known;
      const isOwned = source.kind === "api" || snapshots.has(source.kind);
      return termination === undefined && isOwned ? [{ manifest: manifest, owner: source }] : [];
    }),
  );
}

/**
 * Static pods with the same namespace and name run one after the other, in the order in which they were accepted. A pod
 * of the API does not wait: a forced deletion asks for its successor at once.
 */
export function withPredecessor(desired: DesiredPod, sameNamePods: readonly DesiredPod[]): DesiredPodView {
  if (desired.source.kind === "api") return desired;
  const staticPods = sameNamePods.filter(({ source }) => source.kind !== "api");
  const index = staticPods.findIndex(({ uid }) => uid === desired.uid);
  const predecessor = staticPods[index - 1];
  return predecessor === undefined ? desired : { ...desired, predecessorUid: predecessor.uid };
}

/**
 * The pod that was waiting for `removed`, if there is one, now released. A pod is released once: if the removal of
 * `removed` could not be recorded and a later agent repeats it, the successor already runs.
 */
export function releaseHeldPod(
  removed: DesiredPod,
  sameNamePods: readonly DesiredPod[],
  now: number,
): DesiredPod | undefined {
  const [first, next] = sameNamePods;
  if (first?.uid !== removed.uid || next === undefined || next.heldUntil !== undefined) return undefined;
  return { ...next, heldUntil: now };
}

/**
 * The pod with the annotations `config.seen` (the time at which this node accepted it) and, if given, `config.source`.
 * Neither is part of what a source defines. Rule: the kubelet's annotations.
 */
export function withConfigAnnotations(pod: Pod, acceptedAt: number, source?: SourceKind): Pod {
  const { [seenAnnotation]: _, ...others } = pod.metadata.annotations ?? {};
  const annotations = {
    ...(source === undefined ? others : { ...others, [sourceAnnotation]: source }),
    [seenAnnotation]: formatNanoTime(acceptedAt),
  };
  return { ...pod, metadata: { ...pod.metadata, annotations } };
}

/** A source that repeats a pod mostly repeats the same object, so that comparing the spec is cheap. */
function isSamePod(a: Pod, b: Pod): boolean {
  return isJsonEqual(a.spec, b.spec) && isJsonEqual(a.metadata, b.metadata);
}
