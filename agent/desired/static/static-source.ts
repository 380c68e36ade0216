import { createSerialQueue } from "../../../host/async/serial-queue.ts";
import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { StaticPodSource } from "../../../proto/kubernetes/static-pod-origin.ts";
import { withInitialAdmission } from "../../decide/admission/admission.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import {
  type ManifestPod,
  mergeManifests,
  releaseHeldPod,
  type UidConflict,
  uidConflicts,
} from "../../decide/sources/merge-static.ts";
import type { PodIndex } from "../pod-index.ts";

export type StaticKind = StaticPodSource["kind"];

/** The static pods: the manifests of files and of a URL as sources of desired pods. */
export interface StaticPodSet {
  /** Replaces the pods of one kind of manifests; resolves when they are merged and saved. */
  replace(kind: StaticKind, offered: readonly ManifestPod[]): Promise<void>;
  /** Nothing is left of the pod on the node. */
  onPodFinished(pod: DesiredPod): Promise<void>;
  /** Saves the latest state of the pod after earlier writes, if the pod is still known then. */
  save(pod: DesiredPod): Promise<void>;
}

export interface StaticPodSetOptions {
  readonly pods: PodIndex;
  readonly clock: Clock;
  /** Admits new pods, starts and saves them. */
  readonly admit: (added: readonly DesiredPod[], record: (pod: DesiredPod) => Promise<void>) => Promise<void>;
  /** `save` and `remove` never reject: a pod runs even if its checkpoint cannot be written. */
  readonly save: (pod: DesiredPod) => Promise<void>;
  readonly remove: (uid: PodUid) => Promise<void>;
  readonly wake: (uid: PodUid) => void;
  readonly cancelOutdated: (uid: PodUid) => void;
  /** Receives the manifests whose uid belongs to a pod of another source. */
  readonly onUidConflicts: (conflicts: readonly UidConflict[]) => void;
  /** The pods of this kind were merged: the source is ready. */
  readonly onReady: (kind: StaticKind) => void;
}

export function createStaticPodSet(options: StaticPodSetOptions): StaticPodSet {
  const { pods, clock, admit, save, remove, wake } = options;
  const manifests = new Map<StaticKind, readonly ManifestPod[]>();
  // One merge or cleanup at a time: checkpoints are written and removed in the order of the decisions.
  const enqueue = createSerialQueue();

  async function merge(kind: StaticKind, offered: readonly ManifestPod[]): Promise<void> {
    manifests.set(kind, offered);
    const { changed, terminating, ...merged } = mergeManifests(pods.all(), kind, offered, clock.now());
    const added = merged.added.map(withInitialAdmission);
    for (const pod of [...terminating, ...added, ...changed]) pods.put(pod);
    const { readmitted = [], others = [] } = Object.groupBy(changed, (pod) =>
      pod.admission ? "readmitted" : "others",
    );
    await Promise.all([admit([...added, ...readmitted], save), recordMerge([...terminating, ...others], options)]);
    options.onUidConflicts(uidConflicts(pods.get, manifests));
    options.onReady(kind);
  }

  /** Cleans up after a removed pod. A new pod with its uid may have started since. */
  async function cleanUp(pod: DesiredPod, releasedUid: PodUid | undefined): Promise<void> {
    const { uid } = pod;
    // Save before the checkpoint of the removed pod goes: until then the next agent would release the held pod again.
    const released = releasedUid === undefined ? undefined : pods.get(releasedUid);
    if (released !== undefined) await save(released);
    if (pods.get(uid) === undefined) await remove(uid);
    for (const other of pods.withSameName(pod)) wake(other.uid);
    // A manifest of any source may have added the same pod again while it terminated.
    for (const [kind, offered] of manifests)
      if (offered.some((offer) => offer.pod.metadata.uid === uid)) await merge(kind, offered);
  }

  return {
    replace: (kind, offered) => enqueue(() => merge(kind, offered)),
    async onPodFinished(pod) {
      const released = releaseHeldPod(pod, pods.withSameName(pod), clock.now());
      pods.drop(pod);
      if (released !== undefined) pods.put(released);
      await enqueue(() => cleanUp(pod, released?.uid));
    },
    save: (pod) =>
      enqueue(async () => {
        const latest = pods.get(pod.uid);
        if (latest !== undefined) await save(latest);
      }),
  };
}

/** Saves the changed pods before it notifies the loop: the next agent must know what the loop acts on. */
async function recordMerge(
  changed: readonly DesiredPod[],
  { save, wake, cancelOutdated }: Pick<StaticPodSetOptions, "save" | "wake" | "cancelOutdated">,
): Promise<void> {
  await Promise.all(
    changed.map(async (pod) => {
      await save(pod);
      if (pod.termination === undefined) wake(pod.uid);
      else cancelOutdated(pod.uid);
    }),
  );
}
