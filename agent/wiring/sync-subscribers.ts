import type { IdleTimer } from "../../host/async/idle-timer.ts";
import type { Log } from "../../host/log/log.ts";
import type { LogRotation } from "../act/logs/log-rotation.ts";
import type { LogSymlinks } from "../act/logs/log-symlinks.ts";
import type { ProbeMarks } from "../act/probes/probe-marks.ts";
import { fullNameOf } from "../decide/pod/desired.ts";
import { isUnobservedStatus } from "../decide/status/status.ts";
import type { DesiredPods } from "../desired/pods.ts";
import type { SyncSubscriber } from "../loop/sync-subscriber.ts";
import type { PodCache } from "../observed/pods/pod-cache.ts";
import type { Prober } from "../observed/probes/prober.ts";
import type { PodReports } from "../report/local/pod-reports.ts";
import type { PodStartTraces } from "../report/traces/pod-start-traces.ts";
import type { ContainerEnds } from "../serve/logs/container-ends.ts";
import type { ClusterSync } from "./cluster/cluster.ts";
import type { ImageVerifier } from "./image-verifier.ts";
import type { NetworkAuditTimes } from "./network-audit-times.ts";
import type { PodMetrics } from "./pod-metrics.ts";
import { createSyncErrorLog } from "./sync-error-log.ts";

export interface SyncSubscribersOptions {
  readonly desired: DesiredPods;
  readonly podCache: PodCache;
  readonly probes: Prober;
  readonly probeMarks: ProbeMarks;
  readonly links: LogSymlinks;
  readonly logRotation: LogRotation;
  readonly containerEnds: ContainerEnds;
  readonly imageVerifier: Pick<ImageVerifier, "onObserved" | "forget">;
  readonly podReports: PodReports;
  readonly podMetrics: Pick<PodMetrics, "subscriber">;
  readonly traces?: PodStartTraces | undefined;
  /** Undefined on a standalone node. */
  readonly clusterSync: ClusterSync | undefined;
  readonly idleTimer: IdleTimer;
  readonly networkAudits: Pick<NetworkAuditTimes, "onActionStarted" | "onActionFinished">;
  readonly log: Log;
}

/** The components that follow the syncs of pods, in the order in which each step reaches them. */
export function createSyncSubscribers(options: SyncSubscribersOptions): readonly SyncSubscriber[] {
  const { desired, podCache, probes, probeMarks, links, imageVerifier, podReports, clusterSync, idleTimer } = options;
  const { containerEnds, logRotation } = options;
  return [
    // First: what the other subscribers do belongs to the next step of the trace.
    ...(options.traces === undefined ? [] : [options.traces]),
    options.networkAudits,
    { onActionFinished: idleTimer.touch },
    syncErrorSubscriber(options),
    // A status that ends the pod frees its resources before it is reported.
    { onStatusDecided: (decided) => desired.onStatusDecided(decided.desired, decided.status, decided.resize) },
    probeSubscriber(probes),
    { onObserved: probeMarks.onObserved, onPodFinished: probeMarks.forget },
    // A link that a death of the agent has prevented is made after the next agent's first observation.
    { onObserved: links.sync },
    { onObserved: logRotation.onObserved, onPodFinished: logRotation.onPodFinished },
    { onObserved: containerEnds.onObserved, onPodFinished: containerEnds.onPodFinished },
    { onObserved: imageVerifier.onObserved, onPodFinished: imageVerifier.forget },
    { onPodFinished: podCache.forget },
    {
      onStatusDecided: ({ uid, status, stage, ...decided }) =>
        podReports.report(uid, decided.desired, status, stage, decided.blockedReason),
      onActionStarted: podReports.onActionStarted,
      onActionFinished: podReports.onActionFinished,
      onPodFinished: podReports.onPodRemoved,
    },
    options.podMetrics.subscriber,
    ...(clusterSync === undefined ? [] : [clusterSubscriber(clusterSync)]),
    // Last: the pod, which the others may still read, is gone then.
    { onPodFinished: (uid) => void desired.onPodFinished(uid) },
  ];
}

function syncErrorSubscriber({ desired, clusterSync, log }: SyncSubscribersOptions): SyncSubscriber {
  const syncErrors = createSyncErrorLog(log, (uid, event) => {
    const desiredPod = desired.get(uid);
    if (desiredPod !== undefined && desiredPod !== "unknown")
      clusterSync?.recordEvent(uid, fullNameOf(desiredPod.pod), event);
  });
  return {
    onStatusDecided({ uid, status }) {
      if (!isUnobservedStatus(status)) syncErrors.clear(uid);
    },
    onSyncFailed: syncErrors.report,
    onPodFinished: syncErrors.clear,
  };
}

function probeSubscriber(probes: Prober): SyncSubscriber {
  return {
    onObserved: probes.onObserved,
    onStatusDecided({ uid, stage }) {
      if (stage !== "syncing") probes.stopRestartProbes(uid);
    },
    onPodFinished: probes.forget,
  };
}

function clusterSubscriber(clusterSync: ClusterSync): SyncSubscriber {
  return {
    onStatusDecided: clusterSync.report,
    onActionStarted: clusterSync.onActionStarted,
    onActionFinished: clusterSync.onActionFinished,
    onPodFinished: clusterSync.onPodFinished,
  };
}
