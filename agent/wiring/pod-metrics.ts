import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { volumeNamed } from "../../proto/kubernetes/volumes.ts";
import type { DesiredPods } from "../desired/pods.ts";
import type { SyncSubscriber } from "../loop/sync-subscriber.ts";
import type { PodCache } from "../observed/pods/pod-cache.ts";
import { setPodGauges } from "../serve/metrics/pod-gauges.ts";
import { createPodRecorder } from "../serve/metrics/pod-recorder.ts";
import { createRelistRecorder } from "../serve/metrics/relist-recorder.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import { runtimeHandlerOf } from "../translate/runtime-handler.ts";
import { TranslateError } from "../translate/translate-error.ts";
import { claimedVolumeOf } from "../translate/volumes/claimed-volume.ts";
import type { AgentOptions } from "./agent.ts";
import type { StatusSavedSource } from "./cluster/cluster.ts";

/** The metrics of the agent's pods. */
export interface PodMetrics {
  /** Follows the syncs of pods. */
  readonly subscriber: SyncSubscriber;
  /** Sets the gauges that are about pods. */
  readonly setGauges: () => void;
}

interface PodMetricsDeps {
  readonly facts: () => NodeFacts;
  readonly imageSizeBytes: (image: string) => Promise<number | undefined>;
  readonly desired: Pick<DesiredPods, "subscribe">;
  readonly statusSaved: Pick<StatusSavedSource, "subscribe">;
}

/** Records what happens to the pods, with what the cluster says of their volumes and runtime classes. */
export function createPodMetrics(
  { metrics, clock }: Pick<AgentOptions, "metrics" | "clock">,
  { facts, imageSizeBytes, desired, statusSaved }: PodMetricsDeps,
): PodMetrics {
  const claimedSource = claimedSourceReader(facts);
  const runtimeHandler = (pod: Pod) => knownOr("", () => runtimeHandlerOf(pod, facts()));
  const recorder = createPodRecorder(metrics, { clock, imageSizeBytes, claimedSource, runtimeHandler });
  const { onObserved, onStatusDecided, onActionFinished, onPodFinished, onSynced } = recorder;
  desired.subscribe(recorder);
  statusSaved.subscribe(recorder.onStatusSaved);
  return {
    subscriber: { onObserved, onStatusDecided, onActionFinished, onPodFinished, onSynced },
    setGauges: () => setPodGauges(metrics, recorder.pods(), claimedSource),
  };
}

/** Returns the function that finds the source of the persistent volume behind a volume, such as `nfs`. */
function claimedSourceReader(facts: () => NodeFacts): (pod: Pod, name: string) => string | undefined {
  return (pod, name) => {
    const volume = volumeNamed(pod, name);
    if (volume?.persistentVolumeClaim === undefined && volume?.ephemeral === undefined) return undefined;
    return knownOr(undefined, () => {
      const { hostPath, nfs, local } = claimedVolumeOf({ pod, facts: facts() }, volume)?.spec ?? {};
      return Object.entries({ hostPath, nfs, local }).find(([, source]) => source !== undefined)?.[0];
    });
  };
}

/** What the cluster does not have, or has not been read yet, is no error here: the pod's own failure says so. */
function knownOr<T>(otherwise: T, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof TranslateError) return otherwise;
    throw error;
  }
}

/** Wraps the pod cache: records each list of the runtime. */
export function withRelistMetrics(
  pods: PodCache,
  { metrics, clock }: Pick<AgentOptions, "metrics" | "clock">,
): PodCache {
  const record = createRelistRecorder(metrics);
  return {
    ...pods,
    async relist() {
      const [startedMs, startedAt] = [clock.monotonicMs(), clock.now()];
      await pods.relist();
      record({ startedMs, startedAt, endedMs: clock.monotonicMs() });
    },
  };
}
