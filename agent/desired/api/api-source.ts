import { createKeyedSerialQueue } from "../../../host/async/serial-queue.ts";
import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { withInitialAdmission } from "../../decide/admission/admission.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import { type ApiPodUpdate, mergeApi } from "../../decide/sources/merge-api.ts";
import type { PodIndex } from "../pod-index.ts";

/** The API server as a source of desired pods. */
export interface ApiPodSource {
  /** Applies an update synchronously. Resolves when it is saved and the pods it terminates are interrupted. */
  apply(update: ApiPodUpdate): Promise<void>;
  /**
   * Nothing is left of the pod on the node. While the API server has it, or may have it because there was no list yet,
   * the pod stays known, so that the next update does not start it again; it is not synced any more.
   */
  onPodFinished(pod: DesiredPod): Promise<void>;
  /** True for a finished pod that is known only because the API server still has it. */
  isFinished(uid: PodUid): boolean;
  /** Saves the final status of a pod until the API server has accepted it. */
  saveFinalStatus(uid: PodUid, status: PodStatus): Promise<void>;
  /** Saves the pod's checkpoint, after earlier writes for the same pod. */
  save(pod: DesiredPod): Promise<void>;
}

export interface ApiPodSourceOptions {
  readonly pods: PodIndex;
  /** Admits new pods, starts and saves them. */
  readonly admit: (added: readonly DesiredPod[]) => Promise<void>;
  readonly clock: Clock;
  /** `save` and `remove` never reject: a pod runs even if its checkpoint cannot be written. */
  readonly save: (pod: DesiredPod) => Promise<void>;
  readonly remove: (uid: PodUid) => Promise<void>;
  readonly wake: (uid: PodUid) => void;
  readonly cancelOutdated: (uid: PodUid) => void;
}

/**
 * Each update is merged at once: a hundred pods that arrive one by one do not wait for each other's checkpoints. The
 * writes for one pod happen in the order of the updates.
 */
export function createApiPodSource(options: ApiPodSourceOptions): ApiPodSource {
  const { pods, clock, admit, remove, wake, cancelOutdated } = options;
  const present = new Set<string | undefined>();
  const finishedPods = new Set<PodUid>();
  const enqueueWrite = createKeyedSerialQueue<PodUid>();
  let hasListed = false;

  const save = (pod: DesiredPod) => enqueueWrite(pod.uid, () => options.save(pod));

  /** The pods that the API server does not have any more. */
  function missingAfter(update: ApiPodUpdate): readonly DesiredPod[] {
    if (update.kind === "changed") return [];
    const all = update.kind === "gone" ? [pods.get(update.uid) ?? []].flat() : pods.all();
    return all.filter(({ uid, source }) => source.kind === "api" && !present.has(uid));
  }

  async function removePod(pod: DesiredPod): Promise<void> {
    finishedPods.delete(pod.uid);
    pods.drop(pod);
    await enqueueWrite(pod.uid, async () => {
      if (pods.get(pod.uid) === undefined) await remove(pod.uid);
    });
  }

  /** Saves before it notifies: the next agent must know, for instance, when the termination was requested. */
  async function saveAndNotify(pod: DesiredPod, notify: (uid: PodUid) => void): Promise<void> {
    if (finishedPods.has(pod.uid)) return;
    await save(pod);
    notify(pod.uid);
  }

  return {
    async apply(update) {
      const isFirst = !hasListed && update.kind === "complete";
      hasListed ||= isFirst;
      updatePresent(present, update);
      const { changed, terminating, refreshed, woken, ...merged } = mergeApi(pods.get, pods.all, update, clock.now());
      const added = merged.added.map(withInitialAdmission);
      // `refreshed` pods are not saved: the next agent gets the same from the API server.
      for (const pod of [...added, ...changed, ...terminating, ...refreshed]) pods.put(pod);
      for (const pod of missingAfter(update)) pods.put({ ...pod, hasReleasedResources: true });
      for (const uid of woken) if (!finishedPods.has(uid)) wake(uid);
      // Pods that finished before the first list have not been reported yet: wake them once.
      if (isFirst) for (const uid of finishedPods) if (present.has(uid)) wake(uid);
      const gone = [...finishedPods].filter((uid) => !present.has(uid)).flatMap((uid) => pods.get(uid) ?? []);
      await Promise.all([
        ...gone.map(removePod),
        admit(added),
        // Only a termination or a shorter grace period interrupts calls; other changes must not abort a running preStop
        // hook.
        ...terminating.map((pod) => saveAndNotify(pod, cancelOutdated)),
        ...changed.map((pod) => saveAndNotify(pod, wake)),
      ]);
    },
    async onPodFinished(pod) {
      if (!hasListed || present.has(pod.uid)) finishedPods.add(pod.uid);
      else await removePod(pod);
    },
    isFinished: (uid) => finishedPods.has(uid),
    async saveFinalStatus(uid, lastStatus) {
      const pod = pods.get(uid);
      if (pod === undefined || pod.source.kind !== "api" || pod.lastStatus !== undefined) return;
      // The API server does not need the final status of a pod that was force-deleted.
      if (hasListed && !present.has(uid)) return;
      const saved = { ...pod, lastStatus };
      pods.put(saved);
      await save(saved);
    },
    save,
  };
}

function updatePresent(present: Set<string | undefined>, update: ApiPodUpdate): void {
  switch (update.kind) {
    case "complete":
      present.clear();
      for (const { metadata } of update.pods) present.add(metadata.uid);
      for (const uid of update.unreadable ?? []) present.add(uid);
      return;
    case "changed":
      present.add(update.pod.metadata.uid);
      return;
    case "gone":
      present.delete(update.uid);
  }
}
