import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { PodStatus } from "../../proto/kubernetes/gen/types.ts";
import { answerTo, byAge } from "../decide/admission/admission.ts";
import type { AdmittingNode } from "../decide/admission/admission-node.ts";
import { createPlaces } from "../decide/admission/node-usage.ts";
import { isForSupport, refusalOf, unsupportedFeatures } from "../decide/admission/unsupported-features.ts";
import { type Admission, type DesiredPod, fullNameOf } from "../decide/pod/desired.ts";
import { isTerminal } from "../decide/sources/api-pod.ts";
import { isUnseen } from "../decide/status/status.ts";
import type { PodIndex } from "./pod-index.ts";

/** What is known of the node when a pod is asked about. */
export interface AdmissionParts {
  readonly node: () => AdmittingNode;
  /** Asks the API server for the node's object; true once it is as it is now, or cannot be had; false when nobody answers. Never rejects. */
  readonly askForNode: () => Promise<boolean>;
  /** Whether something of the pod is on the node, so that an earlier agent has taken it; `unknown` until the runtime was read. */
  readonly isBegun: (uid: PodUid) => boolean | "unknown";
  /** Whether the runtime can carry out `supplementalGroupsPolicy: Strict`; it has told by the time that it was read. */
  readonly canLeaveOutGroups: () => boolean | undefined;
  /** Left out where there are none. */
  readonly allowedUnsafeSysctls?: readonly string[] | undefined;
}

/**
 * Which pods this node takes. Each is answered once, in the order of their age, and against all that were taken before it: between the
 * question and the count of what it takes nothing else happens, however many pods come at the same time.
 */
export interface Admissions {
  /** A pod of an earlier agent, with its answer. Until somebody has looked at it nobody is rejected for its sake. */
  restore(pod: DesiredPod): DesiredPod;
  /** The pod is known in this form now. */
  noted(pod: DesiredPod): void;
  dropped(uid: PodUid): void;
  /**
   * How the pod is was looked at; one that has ended gives its place back. True when it was the last one of an earlier agent that others
   * may wait for.
   */
  reported(desired: DesiredPod, status: PodStatus): boolean;
  /** True for a pod that waits for an answer which will come. */
  isWaiting(uid: PodUid): boolean;
  /** Answers those that can be answered now, of these pods or of all; gives back those that were answered, as they are now. */
  judge(uids?: Iterable<PodUid>): readonly DesiredPod[];
}

export interface AdmissionsSettings extends AdmissionParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly pods: () => PodIndex;
  readonly isInCluster: boolean;
  /** The node was asked for: who waits for that is to be judged again. */
  readonly asked: () => void;
}

export function createAdmissions(settings: AdmissionsSettings): Admissions {
  const { pods, log, isBegun } = settings;
  const places = createPlaces();
  const candidates = new Set<PodUid>();
  const unseen = new Set<PodUid>();
  const node = createFreshNode(settings);

  function answer(pod: DesiredPod): Admission | "admitted" | undefined {
    const hasBegun = isBegun(pod.uid);
    if (hasBegun === "unknown") return undefined;
    if (hasBegun) return "admitted";
    const areOthersSeen = unseen.size === 0;
    const isNodeFresh = node.isFreshFor(pod.uid);
    const said = answerTo(pod, {
      node: settings.node(),
      occupancy: places.occupancy,
      isNodeFresh,
      areOthersSeen,
      canLeaveOutGroups: settings.canLeaveOutGroups(),
    });
    if (said === "ask") node.askFor(pod.uid);
    if (said === "ask" || said === "later") return undefined;
    return said === "admitted" ? said : { kind: "rejected", ...said };
  }

  /** A mistake of ours costs no more than this pod: the others are answered. */
  function answerSafely(pod: DesiredPod): ReturnType<typeof answer> {
    try {
      return answer(pod);
    } catch (error) {
      log.error({ err: error, pod: fullNameOf(pod.pod), uid: pod.uid }, "the pod cannot be judged, and waits");
      return undefined;
    }
  }

  /** The pod with its answer, which counts from now on; none while there is no answer. */
  function settle(pod: DesiredPod): readonly DesiredPod[] {
    const said = answerSafely(pod);
    if (said === undefined) return [];
    const { admission: _, ...admitted } = pod;
    const settled = said === "admitted" ? admitted : { ...pod, admission: said };
    pods().put(settled);
    return [settled];
  }

  return {
    restore({ isPlaceFree: _, ...pod }) {
      if (pod.admission === undefined) unseen.add(pod.uid);
      return withOldAnswer(pod);
    },
    noted(pod) {
      const { uid, admission, termination } = pod;
      const isCandidate = admission?.kind === "awaited" && termination === undefined && !isRefused(pod, settings);
      if (isCandidate) candidates.add(uid);
      else {
        candidates.delete(uid);
        node.forget(uid);
      }
      places.note(pod);
    },
    dropped(uid) {
      candidates.delete(uid);
      unseen.delete(uid);
      node.forget(uid);
      places.giveBack(uid);
    },
    reported(desired, status) {
      const { uid, revision } = desired;
      if (isUnseen(status)) return false;
      const pod = pods().get(uid);
      const hasEnded = pod?.revision === revision && isTerminal(status);
      if (pod !== undefined && hasEnded && pod.isPlaceFree !== true) pods().put({ ...pod, isPlaceFree: true });
      return unseen.delete(uid) && unseen.size === 0;
    },
    isWaiting: (uid) => candidates.has(uid),
    judge(uids = candidates) {
      const asked = [...uids].filter((uid) => candidates.has(uid)).flatMap((uid) => pods().get(uid) ?? []);
      return inOrder(asked, isBegun).flatMap(settle);
    },
  };
}

/** Those that an earlier agent has taken keep their places, whoever is older. */
function inOrder(asked: readonly DesiredPod[], isBegun: AdmissionParts["isBegun"]): readonly DesiredPod[] {
  const { begun = [], others = [] } = Object.groupBy(asked, ({ uid }) => (isBegun(uid) === true ? "begun" : "others"));
  return [...begun, ...others.toSorted(byAge)];
}

/** A rejection is for good, but for what this release may have, and the last one had not. */
function withOldAnswer(pod: DesiredPod): DesiredPod {
  const isAskedAnew = pod.admission?.kind === "rejected" && isForSupport(pod.admission);
  return isAskedAnew ? { ...pod, admission: { kind: "awaited" } } : pod;
}

/** Whatever the node says of it, such a pod is rejected at every look, by each release anew: it takes no place. */
function isRefused(
  { pod, source }: DesiredPod,
  { isInCluster, allowedUnsafeSysctls }: Pick<AdmissionsSettings, "isInCluster" | "allowedUnsafeSysctls">,
): boolean {
  const asking = { isOfApi: source.kind === "api", isInCluster, isJudged: true };
  return refusalOf(pod, allowedUnsafeSysctls) !== undefined || unsupportedFeatures(pod, asking).length > 0;
}

/** Nobody else would tell of the node again, when its object has not changed while the API server was away. */
const ASK_AGAIN_MS = 5_000;

/**
 * Whoever binds a pod to a node by its labels may have seen them before this node has: a pod that does not fit them is asked about
 * again when the node was asked for, after the pod came.
 */
function createFreshNode({ askForNode, asked, clock }: Pick<AdmissionsSettings, "askForNode" | "asked" | "clock">) {
  const waiting = new Set<PodUid>();
  const fresh = new Set<PodUid>();
  let isAsking = false;
  let cancelRetry = () => {};

  async function ask(): Promise<void> {
    cancelRetry();
    const whose = [...waiting];
    if (whose.length === 0) return;
    isAsking = true;
    const isAnswered = await askForNode();
    isAsking = false;
    if (!isAnswered) {
      cancelRetry = clock.wakeAt(clock.now() + ASK_AGAIN_MS, () => void ask());
      return;
    }
    for (const uid of whose) if (waiting.delete(uid)) fresh.add(uid);
    asked();
  }

  return {
    isFreshFor: (uid: PodUid) => fresh.has(uid),
    askFor(uid: PodUid) {
      waiting.add(uid);
      if (!isAsking) void ask();
    },
    forget(uid: PodUid) {
      waiting.delete(uid);
      fresh.delete(uid);
    },
  };
}
