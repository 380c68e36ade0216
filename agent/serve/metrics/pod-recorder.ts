import type { PodUid } from "../../../proto/ids.ts";
import type { ContainerStatus, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ActionFinished } from "../../decide/pod/action-call.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ObservedContainer, ObservedPod } from "../../decide/pod/observed.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { type ActionRecorderDeps, createActionRecorder } from "./action-recorder.ts";
import { containerTypeOf } from "./container-type.ts";
import type { KubeletMetrics } from "./kubelet-metrics.ts";
import { createPodStarts } from "./pod-starts.ts";

/** What was last seen of a pod on the node, for the gauges of a page. */
export interface TrackedPod {
  desired: DesiredPod | undefined;
  stage: StageKind;
  status: PodStatus | undefined;
  hasRunningSandbox: boolean;
  containerStates: readonly ObservedContainer["state"][];
  /** The volumes that this agent has set up. */
  readonly volumes: Set<string>;
  /** When the node has seen it first, by the monotonic clock; undefined for a pod of an earlier agent. */
  seenAt: number | undefined;
  /** The revision of the last sync; undefined before the first one. */
  syncedRevision: number | undefined;
}

/** A sync that has ended; milliseconds by the monotonic clock. */
interface PodSync {
  readonly startedMs: number;
  readonly endedMs: number;
}

/** Records what happens to pods. It follows the syncs of pods and the changes of the desired ones. */
export interface PodRecorder {
  onPodUpdated(pod: DesiredPod): void;
  /** No source has the pod any more. */
  onPodRemoved(uid: PodUid): void;
  onObserved(observed: ObservedPod, desired: DesiredPod | undefined): void;
  onStatusDecided(decided: Pick<TrackedPod, "stage"> & DecidedPod): void;
  onActionFinished(finished: ActionFinished): void;
  onSynced(uid: PodUid, sync: PodSync): void;
  /** The API server has this status of the pod, `waitedMs` after it was decided. */
  onStatusSaved(uid: PodUid, pod: Pod, waitedMs: number): void;
  onPodFinished(uid: PodUid): void;
  pods(): Iterable<TrackedPod>;
}

interface DecidedPod {
  readonly uid: PodUid;
  readonly desired: DesiredPod;
  readonly status: PodStatus;
}

export function createPodRecorder(metrics: KubeletMetrics, deps: ActionRecorderDeps): PodRecorder {
  const { kubelet } = metrics;
  const { clock } = deps;
  const tracked = new Map<PodUid, TrackedPod>();
  /** The desired pods, each with whether it has finished: its source may still change it then. */
  const desiredPods = new Map<PodUid, "open" | "finished">();
  const starts = createPodStarts(metrics);
  const recordAction = createActionRecorder(metrics, deps);

  function trackOf(uid: PodUid): TrackedPod {
    const known = tracked.get(uid);
    if (known !== undefined) return known;
    const track = newTrack();
    tracked.set(uid, track);
    return track;
  }

  return {
    onPodUpdated(desired) {
      if (desiredPods.get(desired.uid) === "finished") return;
      desiredPods.set(desired.uid, "open");
      const isNew = !tracked.has(desired.uid);
      const track = trackOf(desired.uid);
      if (!isNew) recordRejection(metrics, track.desired, desired);
      track.desired = desired;
      // An earlier agent has counted what it has accepted.
      if (!isNew || desired.isRestored === true) return;
      recordRejection(metrics, undefined, desired);
      track.seenAt = clock.monotonicMs();
      kubelet.observe("kubelet_containers_per_pod_count", desired.pod.spec.containers.length);
      if (desired.source.kind === "api") starts.onSeen(desired.uid);
    },
    onObserved({ uid, sandboxes, containers }, desired) {
      const isUnknown = !tracked.has(uid) && desired === undefined;
      if (isUnknown && sandboxes.length + containers.length > 0) kubelet.add("kubelet_orphaned_runtime_pods_total");
      const track = trackOf(uid);
      track.hasRunningSandbox = sandboxes.some(({ ready }) => ready);
      track.containerStates = containers.map(({ state }) => state);
    },
    onStatusDecided({ uid, desired, status, stage }) {
      const track = trackOf(uid);
      recordTerminations(metrics, desired.pod, track.status, status);
      const startsToRun = track.status?.phase === "Pending" && status.phase === "Running";
      if (startsToRun && track.seenAt !== undefined)
        kubelet.observe("kubelet_pod_start_duration_seconds", (clock.monotonicMs() - track.seenAt) / 1000);
      Object.assign(track, { desired, status, stage });
    },
    onActionFinished(finished) {
      const { uid, action, startedAt, endedAt, result } = finished;
      const track = trackOf(uid);
      recordAction(finished, track.desired?.pod);
      if (result === "cancelled" || !result.ok) return;
      if (action.kind === "pullImage") starts.onPulled(uid, { from: startedAt, to: endedAt });
      if (action.kind === "mountVolume") track.volumes.add(action.name);
      if ("resource" in action && action.resource.of === "volume")
        track.volumes[action.kind === "makeResource" ? "add" : "delete"](action.resource.name);
    },
    onSynced: (uid, sync) => recordSync(metrics, tracked.get(uid), sync),
    onStatusSaved(uid, pod, waitedMs) {
      kubelet.observe("kubelet_pod_status_sync_duration_seconds", waitedMs / 1000);
      starts.onStatusSaved(uid, pod, clock.now());
    },
    onPodRemoved: (uid) => void desiredPods.delete(uid),
    onPodFinished(uid) {
      forgetProbes(metrics, uid, tracked.get(uid)?.desired?.pod);
      tracked.delete(uid);
      if (desiredPods.has(uid)) desiredPods.set(uid, "finished");
      starts.onPodRemoved(uid);
    },
    pods: () => tracked.values(),
  };
}

function forgetProbes({ probes }: KubeletMetrics, uid: PodUid, pod: Pod | undefined): void {
  const { namespace, name } = pod?.metadata ?? {};
  probes.removeSeries("prober_probe_total", { pod_uid: uid });
  if (namespace !== undefined && name !== undefined)
    probes.removeSeries("prober_probe_duration_seconds", { namespace, pod: name });
}

function newTrack(): TrackedPod {
  return {
    desired: undefined,
    stage: "syncing",
    status: undefined,
    hasRunningSandbox: false,
    containerStates: [],
    volumes: new Set(),
    seenAt: undefined,
    syncedRevision: undefined,
  };
}

function recordSync({ kubelet }: KubeletMetrics, track: TrackedPod | undefined, { startedMs, endedMs }: PodSync): void {
  kubelet.observe("kubelet_pod_worker_duration_seconds", (endedMs - startedMs) / 1000, [operationTypeOf(track)]);
  if (track === undefined) return;
  if (track.syncedRevision === undefined && track.seenAt !== undefined)
    kubelet.observe("kubelet_pod_worker_start_duration_seconds", Math.max(0, startedMs - track.seenAt) / 1000);
  track.syncedRevision = track.desired?.revision ?? 0;
}

/** The kubelet's names of the kinds of syncs. Nothing is left of a pod that is not tracked any more. */
function operationTypeOf(track: TrackedPod | undefined): string {
  if (track === undefined || track.stage === "finished") return "terminated";
  if (track.stage === "terminating") return "kill";
  if (track.syncedRevision === undefined) return "create";
  return track.syncedRevision === track.desired?.revision ? "sync" : "update";
}

/** Reasons that the kubelet counts under their own name (`admissionRejectionReasons`). */
const ADMISSION_REASONS = new Set([
  "AppArmor",
  "PodOSSelectorNodeLabelDoesNotMatch",
  "PodOSNotSupported",
  "InvalidNodeInfo",
  "InitContainerRestartPolicyForbidden",
  "SupplementalGroupsPolicyNotSupported",
  "UnexpectedAdmissionError",
  "UnknownReason",
  "UnexpectedPredicateFailureType",
  "OutOfcpu",
  "OutOfmemory",
  "OutOfephemeral-storage",
  "OutOfpods",
  "PodLevelResourcesNotSupported",
  "PodFeatureUnsupported",
  "Evicted",
  "SysctlForbidden",
  "TopologyAffinityError",
  "NodeShutdown",
]);

function recordRejection({ kubelet }: KubeletMetrics, before: DesiredPod | undefined, { admission }: DesiredPod): void {
  if (admission?.kind !== "rejected" || before?.admission?.kind === "rejected") return;
  const { reason } = admission;
  const other = reason.startsWith("OutOf") ? "OutOfExtendedResources" : "Other";
  kubelet.add("kubelet_admission_rejections_total", [ADMISSION_REASONS.has(reason) ? reason : other]);
}

/** Counts the containers whose state has become `terminated` since the status before. */
function recordTerminations(
  { kubelet }: KubeletMetrics,
  pod: Pod,
  before: PodStatus | undefined,
  { initContainerStatuses = [], containerStatuses = [], ephemeralContainerStatuses = [] }: PodStatus,
): void {
  const hadEnded = new Set(
    [before?.initContainerStatuses, before?.containerStatuses, before?.ephemeralContainerStatuses]
      .flatMap((statuses: readonly ContainerStatus[] = []) => statuses)
      .filter(({ state }) => state?.terminated !== undefined)
      .map(({ name }) => name),
  );
  for (const { name, state } of [...initContainerStatuses, ...containerStatuses, ...ephemeralContainerStatuses]) {
    const { exitCode, reason = "" } = state?.terminated ?? {};
    if (exitCode === undefined || hadEnded.has(name)) continue;
    kubelet.add("kubelet_terminated_containers_total", [containerTypeOf(pod, name), String(exitCode), reason]);
  }
}
