import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { PodStatus } from "../../proto/kubernetes/gen/types.ts";
import { type AdmissionInput, admitPod, byCreationTime } from "../decide/admission/admission.ts";
import type { AdmissionNode } from "../decide/admission/admission-node.ts";
import {
  forbiddenSysctlRejection,
  isUnsupportedRejection,
  unsupportedFeatures,
} from "../decide/admission/unsupported-features.ts";
import { type Admission, type DesiredPod, fullNameOf } from "../decide/pod/desired.ts";
import { allocationOf } from "../decide/resize/allocation.ts";
import { adoptedAllocation } from "../decide/resize/instances.ts";
import type { ResizeSettings } from "../decide/resize/resize-verdict.ts";
import { isTerminal } from "../decide/sources/api-pod.ts";
import { isUnobservedStatus } from "../decide/status/status.ts";
import { createNodeRefresh } from "./node-refresh.ts";
import { createNodeUsage } from "./node-usage.ts";
import type { PodIndex } from "./pod-index.ts";
import { createResizeQueue, type ResizeQueue } from "./resize-queue.ts";

/** What admission needs to know about the node. */
export interface AdmissionDeps {
  readonly node: () => AdmissionNode;
  /**
   * Gets the Node object again. Returns true if it is current or cannot be read, false if the API server does not
   * respond. Never rejects.
   */
  readonly refreshNode: () => Promise<boolean>;
  /**
   * Whether the node has containers of the pod, so that an earlier agent admitted it; `unknown` until the runtime is
   * listed.
   */
  readonly isOnNode: (uid: PodUid) => boolean | "unknown";
  /** Whether the runtime supports `supplementalGroupsPolicy: Strict`; known once the runtime is listed. */
  readonly supportsSupplementalGroupsPolicy: () => boolean | undefined;
  /** Undefined if there are none. */
  readonly allowedUnsafeSysctls?: readonly string[] | undefined;
  readonly resize: () => ResizeSettings;
}

/**
 * Admits or rejects new pods, each one once, in order of age, against the resources of all pods admitted before it.
 * Decision and accounting happen in one synchronous step, however many pods arrive at the same time.
 */
export interface AdmissionQueue {
  /**
   * Adds a pod of an earlier agent, which keeps its admission result. Until it is observed no other pod is rejected
   * because of its resources: it may have ended.
   */
  restore(pod: DesiredPod): DesiredPod;
  /** The pod was added or changed in the pod index. */
  onPodUpdated(pod: DesiredPod): void;
  onPodRemoved(uid: PodUid): void;
  /**
   * A status was decided for the pod; a terminal one frees its resources. Returns true if this was the last unobserved
   * pod of an earlier agent, so that pending pods may be admitted.
   */
  onStatusDecided(desired: DesiredPod, status: PodStatus): boolean;
  /** True for a pod that is pending and will be decided. */
  isWaiting(uid: PodUid): boolean;
  /** Decides those pending pods, of these or of all, that can be decided now. Returns them with their result. */
  admitPending(uids?: Iterable<PodUid>): readonly DesiredPod[];
  /** The resizes of admitted pods. It listens to the pod index after this queue. */
  readonly resizes: ResizeQueue;
}

export interface AdmissionQueueOptions extends AdmissionDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly pods: PodIndex;
  readonly isInCluster: boolean;
  /** The Node object was read again: call `admitPending`. */
  readonly onNodeRefreshed: () => void;
}

export function createAdmissionQueue(options: AdmissionQueueOptions): AdmissionQueue {
  const { pods, log, isOnNode } = options;
  const nodeUsage = createNodeUsage();
  const pending = new Set<PodUid>();
  const unobserved = new Set<PodUid>();
  const node = createNodeRefresh(options);

  const admissionInput = (isNodeUpToDate: boolean): AdmissionInput => ({
    node: options.node(),
    usage: nodeUsage.usage,
    isNodeUpToDate,
    arePreviousPodsObserved: unobserved.size === 0,
    supportsGroupsPolicy: options.supportsSupplementalGroupsPolicy(),
  });

  const resizes = createResizeQueue({ ...options, nodeUsage, admissionInput: () => admissionInput(true) });

  function tryAdmit(pod: DesiredPod): Admission | "admitted" | undefined {
    const wasAdmitted = isOnNode(pod.uid);
    if (wasAdmitted === "unknown") return undefined;
    if (wasAdmitted) return "admitted";
    const result = admitPod(pod, admissionInput(node.isFreshFor(pod.uid)));
    if (result === "readNode") node.requestFor(pod.uid);
    if (result === "readNode" || result === "wait") return undefined;
    return result === "admitted" ? result : { kind: "rejected", ...result };
  }

  /** A bug may block one pod, but not the admission of the others. */
  function tryAdmitSafely(pod: DesiredPod): ReturnType<typeof tryAdmit> {
    try {
      return tryAdmit(pod);
    } catch (error) {
      log.error({ err: error, pod: fullNameOf(pod.pod), uid: pod.uid }, "pod admission failed; the pod stays pending");
      return undefined;
    }
  }

  /**
   * Stores the pod's admission result, which counts from now on. Returns the pod; nothing if it cannot be decided yet.
   */
  function applyResult(pod: DesiredPod): readonly DesiredPod[] {
    const result = tryAdmitSafely(pod);
    if (result === undefined) return [];
    const { admission: _, ...admitted } = pod;
    const updated = result === "admitted" ? withAllocation(admitted) : { ...pod, admission: result };
    pods.put(updated);
    return [updated];
  }

  return {
    restore({ hasReleasedResources: _, ...pod }) {
      if (pod.admission === undefined) unobserved.add(pod.uid);
      return withPreviousAdmission(pod);
    },
    onPodUpdated(pod) {
      const { uid } = pod;
      if (isCandidate(pod, options)) pending.add(uid);
      else {
        pending.delete(uid);
        node.forget(uid);
      }
      nodeUsage.update(pod);
    },
    onPodRemoved(uid) {
      pending.delete(uid);
      unobserved.delete(uid);
      node.forget(uid);
      nodeUsage.release(uid);
    },
    onStatusDecided(desired, status) {
      const { uid, revision } = desired;
      if (isUnobservedStatus(status)) return false;
      const pod = pods.get(uid);
      const decided = pod && withDecidedStatus(pod, pod.revision === revision && isTerminal(status));
      if (decided !== undefined && decided !== pod) pods.put(decided);
      return unobserved.delete(uid) && unobserved.size === 0;
    },
    isWaiting: (uid) => pending.has(uid),
    admitPending(uids = pending) {
      const asked = [...uids].filter((uid) => pending.has(uid)).flatMap((uid) => pods.get(uid) ?? []);
      return inAdmissionOrder(asked, isOnNode).flatMap(applyResult);
    },
    resizes,
  };
}

/** An admitted pod of the API gets what its spec requests, unless an earlier agent has admitted it with less. */
function withAllocation(admitted: DesiredPod): DesiredPod {
  const { source, allocation = adoptedAllocation(admitted.pod) } = admitted;
  return source.kind === "api" ? { ...admitted, allocation } : admitted;
}

/** The pod after a status was decided for it. */
function withDecidedStatus(pod: DesiredPod, hasEnded: boolean): DesiredPod {
  const isEnd = hasEnded && pod.hasReleasedResources !== true;
  if (!isEnd && pod.isRestored !== true) return pod;
  const { isRestored: _, ...known } = pod;
  return isEnd ? { ...known, hasReleasedResources: true } : known;
}

/** Pods that an earlier agent admitted come first, regardless of age; they keep their resources. */
function inAdmissionOrder(
  candidates: readonly DesiredPod[],
  isOnNode: AdmissionDeps["isOnNode"],
): readonly DesiredPod[] {
  const { started = [], others = [] } = Object.groupBy(candidates, ({ uid }) =>
    isOnNode(uid) === true ? "started" : "others",
  );
  return [...started, ...others.toSorted(byCreationTime)];
}

/** The checkpoint of an earlier release has no record of resources: the pod has what the recorded spec requests. */
function withRecordedAllocation(pod: DesiredPod): DesiredPod {
  const { source, allocation = allocationOf(pod.pod) } = pod;
  return source.kind === "api" ? { ...pod, allocation } : pod;
}

/** A rejection is final, except for an unsupported feature, which this release may support. */
function withPreviousAdmission(pod: DesiredPod): DesiredPod {
  if (pod.admission === undefined) return { ...withRecordedAllocation(pod), isRestored: true };
  const isRetried = pod.admission.kind === "rejected" && isUnsupportedRejection(pod.admission);
  return isRetried ? { ...pod, admission: { kind: "awaited" } } : pod;
}

/** Whether the pod waits for admission. A pod that has to end, or that each sync rejects, does not. */
function isCandidate(pod: DesiredPod, options: AdmissionQueueOptions): boolean {
  const { admission, termination, terminationRequest } = pod;
  const mustEnd = termination !== undefined || terminationRequest !== undefined;
  return admission?.kind === "awaited" && !mustEnd && !isAlwaysRejected(pod, options);
}

/**
 * Whether each sync rejects the pod, whatever admission says: it uses an unsupported feature and must not hold
 * resources.
 */
function isAlwaysRejected(
  { pod, source }: DesiredPod,
  { isInCluster, allowedUnsafeSysctls }: Pick<AdmissionQueueOptions, "isInCluster" | "allowedUnsafeSysctls">,
): boolean {
  const featureContext = { isApiPod: source.kind === "api", isInCluster, isAdmissionChecked: true };
  return (
    forbiddenSysctlRejection(pod, allowedUnsafeSysctls) !== undefined ||
    unsupportedFeatures(pod, featureContext).length > 0
  );
}
