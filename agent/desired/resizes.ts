import type { Clock } from "../../host/clock.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import type { PodEvent } from "../decide/events/pod-event.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import type { ResizeProgress } from "../decide/resize/resize-progress.ts";
import { resizeRetryAt } from "../decide/resize/resize-queue.ts";
import type { PodIndex, PodIndexListener } from "./pod-index.ts";
import type { ResizeQueue } from "./resize-queue.ts";

export interface ResizesOptions {
  readonly clock: Clock;
  readonly pods: PodIndex;
  readonly queue: ResizeQueue;
  /** Saves the pod's checkpoint. Never rejects. */
  readonly save: (pod: DesiredPod) => Promise<void>;
  readonly wake: (uid: PodUid) => void;
  readonly areAllSourcesReady: () => boolean;
  readonly onResizeEvent?: (pod: Pod, event: PodEvent) => void;
}

/**
 * The one writer of the records of what is allocated to pods, and how far it is carried out. It decides on pending resizes
 * whenever a pod was added, has changed or ended, and again after some time if one stays deferred.
 */
export interface Resizes extends PodIndexListener {
  /** Decides on all pending resizes: the node has changed. */
  decide(): void;
  /** Saves the record that a decision about the pod has led to. */
  record(desired: DesiredPod, resize: ResizeProgress): void;
}

export function createResizes(options: ResizesOptions): Resizes {
  const { clock, pods, queue, save, wake, areAllSourcesReady, onResizeEvent } = options;
  let cancelRetry = () => {};
  let isScheduled = false;

  function recordEvents({ pod }: DesiredPod, events: readonly PodEvent[]): void {
    for (const event of events) onResizeEvent?.(pod, event);
  }

  /** Saves before it wakes the pod, so that the next agent knows what this one is about to carry out. */
  async function publish(pod: DesiredPod): Promise<void> {
    await save(pod);
    wake(pod.uid);
  }

  function decide(): void {
    for (const { pod, events } of queue.decide()) {
      recordEvents(pod, events);
      void publish(pod);
    }
    cancelRetry();
    if (!queue.hasDeferred()) return;
    const now = clock.now();
    cancelRetry = clock.wakeAt(resizeRetryAt(now, areAllSourcesReady() ? now : undefined), decide);
  }

  /** All changes of one update are decided together, when it is merged. */
  function decideSoon(): void {
    if (isScheduled || !queue.hasPending()) return;
    isScheduled = true;
    queueMicrotask(() => {
      isScheduled = false;
      decide();
    });
  }

  return {
    decide,
    onPodUpdated(pod) {
      queue.onPodUpdated(pod);
      decideSoon();
    },
    onPodRemoved(uid) {
      queue.onPodRemoved(uid);
      decideSoon();
    },
    record({ uid, allocation }, resize) {
      const pod = pods.get(uid);
      // Decided on a record that was replaced since: the next decision starts with the new one.
      if (pod === undefined || pod.allocation !== allocation) return;
      const updated = { ...pod, allocation: resize.allocation };
      pods.put(updated);
      recordEvents(pod, resize.events);
      void save(updated);
    },
  };
}
