import { createEventSource } from "../../host/async/event-source.ts";
import type { SourceKind } from "../decide/pod/desired.ts";
import type { AdmissionDeps } from "../desired/admission-queue.ts";
import { createPodCheckpoints } from "../desired/pod-checkpoints.ts";
import { createDesiredPods } from "../desired/pods.ts";
import type { PodCache } from "../observed/pods/pod-cache.ts";
import type { NodeSummary } from "../report/local/node-summary.ts";
import type { AgentOptions } from "./agent.ts";
import type { DuplicateNameSource, PodEventSource } from "./cluster/cluster.ts";
import type { LoopRequests } from "./loop-requests.ts";
import { createPodEventRecorder } from "./pod-event-recorder.ts";

interface DesiredPodsDeps {
  readonly loopRequests: LoopRequests;
  readonly podCache: PodCache;
  readonly nodeSummary: NodeSummary;
  readonly podEvents: Pick<PodEventSource, "emit">;
}

/** The pods of all sources, and the events of the sources that other components need. */
export function createDesired(
  options: AgentOptions,
  { loopRequests, podCache, nodeSummary, podEvents }: DesiredPodsDeps,
) {
  const { clock, log, disk, hasNoSource } = options;
  const sourcesReady = createEventSource();
  const duplicateNames: DuplicateNameSource = createEventSource();
  const desired = createDesiredPods({
    checkpoints: createPodCheckpoints(disk.root, log),
    clock,
    log,
    sourceKinds: sourceKindsOf(options),
    hasNoSource,
    admission: toAdmissionDeps(options, podCache),
    wake: loopRequests.wake,
    cancelOutdated: loopRequests.cancelOutdated,
    onManifestErrors: nodeSummary.setRejected,
    onDuplicateNames: duplicateNames.emit,
    onAllSourcesReady: sourcesReady.emit,
    onResizeEvent: createPodEventRecorder(log, podEvents),
  });
  return { desired, sourcesReady, duplicateNames };
}

/** What the admission of pods needs to know about the node. */
function toAdmissionDeps(
  { admissionNode, clusterAccess, settings, facts, runtimeStatus }: AgentOptions,
  { isOnNode }: PodCache,
): AdmissionDeps {
  const node = () => admissionNode(clusterAccess?.nodeObject.latest());
  return {
    node,
    refreshNode: async () => (await clusterAccess?.nodeObject.refresh()) ?? true,
    isOnNode,
    supportsSupplementalGroupsPolicy: () => runtimeStatus.features()?.supplementalGroupsPolicy,
    allowedUnsafeSysctls: settings().allowedUnsafeSysctls,
    resize: () => {
      const { swapBehavior, limitsSwap } = facts();
      const resizesPodLevel = node().declaredFeatures.includes("InPlacePodLevelResourcesVerticalScaling");
      // There are no static managers yet.
      return { resizesPodLevel, hasLimitedSwap: swapBehavior === "LimitedSwap" && limitsSwap, staticManagers: [] };
    },
  };
}

function sourceKindsOf({ sources, clusterAccess }: AgentOptions): readonly SourceKind[] {
  return [...sources.map(({ kind }) => kind), ...(clusterAccess === undefined ? [] : (["api"] as const))];
}
