import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { AdmissionInput } from "../decide/admission/admission.ts";
import { type DesiredPod, fullNameOf } from "../decide/pod/desired.ts";
import { areSameResources, resourcesOf } from "../decide/resize/allocation.ts";
import { type ResizeProgress, withVerdict } from "../decide/resize/resize-progress.ts";
import { byResizeOrder, type QueuedResize } from "../decide/resize/resize-queue.ts";
import { decideResize, type ResizeSettings } from "../decide/resize/resize-verdict.ts";
import type { createNodeUsage } from "./node-usage.ts";
import type { PodIndex, PodIndexListener } from "./pod-index.ts";

/** A pod whose record has changed, and the Events of the change. */
export interface DecidedResize extends Pick<ResizeProgress, "events"> {
  readonly pod: DesiredPod;
}

/** The pods whose spec requests other resources than are allocated to them. */
export interface ResizeQueue extends PodIndexListener {
  /**
   * Decides on all pending resizes, on those first that make room for others. Returns the pods whose record has changed.
   */
  decide(): readonly DecidedResize[];
  hasPending(): boolean;
  /** Whether the node may accept a resize later that it has deferred. */
  hasDeferred(): boolean;
}

export interface ResizeQueueOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly pods: PodIndex;
  readonly nodeUsage: Pick<ReturnType<typeof createNodeUsage>, "release" | "update">;
  readonly admissionInput: () => AdmissionInput;
  readonly resize: () => ResizeSettings;
}

export function createResizeQueue(options: ResizeQueueOptions): ResizeQueue {
  const { clock, log, pods, nodeUsage, admissionInput, resize } = options;
  const pending = new Set<PodUid>();

  /** Decides on the resize of a pod against what the other pods have. Nothing if its record stays as it is. */
  function applyVerdict({ desired, pod, allocation }: Candidate): readonly DecidedResize[] {
    nodeUsage.release(desired.uid);
    try {
      const verdict = decideResize(desired, { allocation, admission: admissionInput(), settings: resize() });
      const progress = withVerdict(pod, allocation, verdict, clock.now());
      if (progress.allocation === allocation) return [];
      const updated = { ...desired, allocation: progress.allocation };
      pods.put(updated);
      return [{ pod: updated, events: progress.events }];
    } catch (error) {
      log.error({ err: error, pod: fullNameOf(pod), uid: desired.uid }, "a resize cannot be decided; it stays pending");
      return [];
    } finally {
      nodeUsage.update(pods.get(desired.uid) ?? desired);
    }
  }

  return {
    onPodUpdated(pod) {
      if (mustDecide(pod)) pending.add(pod.uid);
      else pending.delete(pod.uid);
    },
    onPodRemoved: (uid) => void pending.delete(uid),
    decide() {
      const candidates = [...pending].flatMap((uid) => candidateOf(pods.get(uid)));
      return candidates.toSorted(byResizeOrder).flatMap(applyVerdict);
    },
    hasPending: () => pending.size > 0,
    hasDeferred: () => [...pending].some((uid) => pods.get(uid)?.allocation?.pending?.reason === "Deferred"),
  };
}

/** Whether the spec of a pod that runs on requests other resources than it has, or did so when it was last decided. */
function mustDecide({ pod, allocation, termination, terminationRequest, hasReleasedResources }: DesiredPod): boolean {
  const mustEnd = termination !== undefined || terminationRequest !== undefined || hasReleasedResources === true;
  if (allocation === undefined || mustEnd) return false;
  return allocation.pending !== undefined || !areSameResources(resourcesOf(pod.spec), allocation.allocated);
}

interface Candidate extends QueuedResize {
  readonly desired: DesiredPod;
}

function candidateOf(desired: DesiredPod | undefined): readonly Candidate[] {
  const { pod, allocation } = desired ?? {};
  return desired === undefined || pod === undefined || allocation === undefined ? [] : [{ desired, pod, allocation }];
}
