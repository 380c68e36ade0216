import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { parseTime } from "../../../proto/kubernetes/values/time.ts";
import type { KubeletMetrics } from "./kubelet-metrics.ts";

/** An interval in epoch milliseconds. */
interface Interval {
  readonly from: number;
  readonly to: number;
}

interface StartingPod {
  readonly pulls: Interval[];
}

/**
 * Measures how long the pods of the API server take to start, from their creation to the moment when the API server has
 * the status in which all their containers run (the kubelet's pod startup latency tracker).
 */
export interface PodStarts {
  /** The node has accepted a pod that it has not run before. */
  onSeen(uid: PodUid): void;
  onPulled(uid: PodUid, pull: Interval): void;
  /** The API server has this status of the pod. */
  onStatusSaved(uid: PodUid, pod: Pod, at: number): void;
  onPodRemoved(uid: PodUid): void;
}

export function createPodStarts({ kubelet }: Pick<KubeletMetrics, "kubelet">): PodStarts {
  const starting = new Map<PodUid, StartingPod>();
  let hasSeenNetworkPod = false;
  return {
    onSeen: (uid) => void starting.set(uid, { pulls: [] }),
    onPulled: (uid, pull) => void starting.get(uid)?.pulls.push(pull),
    onStatusSaved(uid, { metadata, spec, status = {} }, at) {
      const start = starting.get(uid);
      const { creationTimestamp } = metadata;
      if (start === undefined || creationTimestamp === undefined || status.phase === "Pending") return;
      const hasEnded = status.phase !== "Running";
      if (!hasEnded && !areAllRunning(status)) return;
      starting.delete(uid);
      if (hasEnded) return;
      const totalMs = at - parseTime(creationTimestamp);
      kubelet.observe("kubelet_pod_start_total_duration_seconds", totalMs / 1000);
      if (isStateful(spec)) return;
      const seconds = (totalMs - lengthOf(start.pulls) - initMs(status)) / 1000;
      kubelet.observe("kubelet_pod_start_sli_duration_seconds", seconds);
      if (hasSeenNetworkPod || spec.hostNetwork === true) return;
      hasSeenNetworkPod = true;
      kubelet.set("kubelet_first_network_pod_start_sli_duration_seconds", seconds);
    },
    onPodRemoved: (uid) => void starting.delete(uid),
  };
}

const areAllRunning = ({ containerStatuses = [] }: PodStatus) =>
  containerStatuses.length > 0 && containerStatuses.every(({ state }) => state?.running?.startedAt !== undefined);

/** By the definition of the SLI: it uses other volumes than those whose content the node writes. */
const isStateful = ({ volumes = [] }: Pod["spec"]) =>
  volumes.some(({ secret, configMap, downwardAPI, emptyDir, projected }) =>
    [secret, configMap, downwardAPI, emptyDir, projected].every((source) => source === undefined),
  );

/** Overlapping intervals count once. */
function lengthOf(intervals: readonly Interval[]): number {
  let total = 0;
  let end = Number.NEGATIVE_INFINITY;
  for (const { from, to } of intervals.toSorted((a, b) => a.from - b.from)) {
    total += Math.max(0, to - Math.max(from, end));
    end = Math.max(end, to);
  }
  return total;
}

/** How long the init containers ran that have ended. */
const initMs = ({ initContainerStatuses = [] }: PodStatus) =>
  initContainerStatuses.reduce((sum, { state }) => {
    const { startedAt, finishedAt } = state?.terminated ?? {};
    return (
      sum + (startedAt === undefined || finishedAt === undefined ? 0 : parseTime(finishedAt) - parseTime(startedAt))
    );
  }, 0);
