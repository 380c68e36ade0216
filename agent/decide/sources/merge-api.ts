import type { PodUid } from "../../../proto/ids.ts";
import { isJsonEqual } from "../../../proto/json-equal.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type DesiredPod, graceEndsAt, gracePeriodOf, type Termination } from "../pod/desired.ts";
import { toEpochMs } from "../status/previous-status.ts";
import { isTerminal } from "./api-pod.ts";
import { type MergeResult, withConfigAnnotations } from "./merge-static.ts";

/**
 * An update from the API server about the pods bound to this node. Mirror pods are left out: this agent creates them
 * itself.
 */
export type ApiPodUpdate =
  /** `unreadable`: pods in the list that this release cannot decode. They keep their last known state. */
  | { readonly kind: "complete"; readonly pods: readonly Pod[]; readonly unreadable?: readonly PodUid[] }
  | { readonly kind: "changed"; readonly pod: Pod }
  | { readonly kind: "gone"; readonly uid: PodUid };

/** The changes that an update from the API server makes. */
export interface ApiMergeResult extends MergeResult {
  /** Only server-side data has changed, such as the status that we reported: nothing to checkpoint. */
  readonly refreshed: readonly DesiredPod[];
  /** Pods to wake besides those above. */
  readonly woken: readonly PodUid[];
}

/**
 * Compares an update from the API server with the desired pods of the API.
 *
 * A pod of the API never changes its identity under its uid: little of its spec is mutable, and what is (an image, a
 * deadline, a toleration) changes the running pod, so its revision stays. It terminates with the grace period that the
 * API server grants, which only ever gets shorter; a pod that has vanished (a forced deletion) terminates with its last
 * grace period.
 */
export function mergeApi(
  find: (uid: PodUid) => DesiredPod | undefined,
  all: () => Iterable<DesiredPod>,
  update: ApiPodUpdate,
  now: number,
): ApiMergeResult {
  const received = update.kind === "complete" ? update.pods : update.kind === "changed" ? [update.pod] : [];
  const changes = received.map((pod) => changeOf(find(pod.metadata.uid as PodUid), pod, now));
  const removedPods = removedBy(update, find, all).filter(({ source }) => source.kind === "api");
  const of = (kind: "added" | "changed" | "terminating") =>
    changes.flatMap((change) => (change.kind === kind ? [change.desired] : []));
  const refreshed = changes.filter((change) => change.kind === "refreshed");
  return {
    added: of("added"),
    changed: of("changed"),
    terminating: [
      ...of("terminating"),
      ...removedPods.filter((each) => each.termination === undefined).map((each) => terminatedByRemoval(each, now)),
    ],
    refreshed: refreshed.map(({ desired }) => desired),
    woken: [
      ...refreshed.filter(({ mustWake }) => mustWake).map(({ desired }) => desired.uid),
      ...removedPods.filter(({ termination }) => termination !== undefined).map(({ uid }) => uid),
    ],
  };
}

type Change =
  | { readonly kind: "added" | "changed" | "terminating"; readonly desired: DesiredPod }
  | { readonly kind: "refreshed"; readonly desired: DesiredPod; readonly mustWake: boolean }
  /** The uid belongs to a manifest's pod. */
  | { readonly kind: "foreign" };

function changeOf(known: DesiredPod | undefined, received: Pod, now: number): Change {
  if (known !== undefined && known.source.kind !== "api") return { kind: "foreign" };
  const acceptedAt = known?.acceptedAt ?? reportedStartTimeOf(received) ?? now;
  const pod = withConfigAnnotations(received, acceptedAt, "api");
  const termination = requestedTermination(pod, known, now);
  const terminationField = termination === undefined ? {} : { termination };
  if (known === undefined) {
    const uid = received.metadata.uid as PodUid;
    return {
      kind: "added",
      desired: { uid, pod, source: { kind: "api" }, acceptedAt, revision: 0, ...terminationField },
    };
  }
  const desired: DesiredPod = { ...known, pod, ...terminationField };
  if (termination !== known.termination) return { kind: "terminating", desired };
  if (!isSameSpec(pod, known.pod)) return { kind: "changed", desired };
  return { kind: "refreshed", desired, mustWake: isStatusChangeRelevant(known.pod, pod) };
}

/** The known pods that the API server does not have any more. */
function removedBy(
  update: ApiPodUpdate,
  find: (uid: PodUid) => DesiredPod | undefined,
  all: () => Iterable<DesiredPod>,
): readonly DesiredPod[] {
  switch (update.kind) {
    case "complete": {
      const received = new Set<string | undefined>(update.pods.map(({ metadata }) => metadata.uid));
      for (const uid of update.unreadable ?? []) received.add(uid);
      return [...all()].filter(({ uid }) => !received.has(uid));
    }
    case "changed":
      return [];
    case "gone": {
      const known = find(update.uid);
      return known === undefined ? [] : [known];
    }
  }
}

/**
 * The `status.startTime` that another agent, or this one before it lost its checkpoints, has reported: it never
 * changes.
 */
function reportedStartTimeOf({ status }: Pod): number | undefined {
  // Ours replaces a malformed time.
  return toEpochMs(status?.startTime);
}

/** The termination that the API server requests, or the earlier one if its grace period ends sooner. */
function requestedTermination(pod: Pod, known: DesiredPod | undefined, now: number): Termination | undefined {
  const { deletionTimestamp, deletionGracePeriodSeconds = gracePeriodOf(pod) } = pod.metadata;
  const before = known?.termination;
  if (deletionTimestamp === undefined) return before;
  // Counted from when this node receives it, not from the server's timestamp: their clocks may differ.
  const requested: Termination = {
    requestedAt: now,
    gracePeriodSeconds: Math.max(1, deletionGracePeriodSeconds),
    why: "it was deleted",
  };
  if (before === undefined) return requested;
  const { deletionTimestamp: deletedBefore, deletionGracePeriodSeconds: graceBefore } = known?.pod.metadata ?? {};
  const isNewRequest = deletedBefore === undefined || graceBefore !== pod.metadata.deletionGracePeriodSeconds;
  return isNewRequest && graceEndsAt(requested) < graceEndsAt(before) ? requested : before;
}

function terminatedByRemoval(known: DesiredPod, now: number): DesiredPod {
  const { deletionGracePeriodSeconds = gracePeriodOf(known.pod) } = known.pod.metadata;
  const why = "the API server does not have it any more";
  return {
    ...known,
    termination: { requestedAt: now, gracePeriodSeconds: Math.max(1, deletionGracePeriodSeconds), why },
  };
}

/**
 * Whether everything that concerns the node is unchanged; owners, finalizers, managed fields and the status do not
 * concern it.
 */
function isSameSpec(a: Pod, b: Pod): boolean {
  return (
    isJsonEqual(a.spec, b.spec) &&
    isJsonEqual(a.metadata.labels, b.metadata.labels) &&
    isJsonEqual(a.metadata.annotations, b.metadata.annotations) &&
    a.metadata.generation === b.metadata.generation &&
    a.metadata.deletionTimestamp === b.metadata.deletionTimestamp &&
    a.metadata.deletionGracePeriodSeconds === b.metadata.deletionGracePeriodSeconds
  );
}

/** Whether another client has ended the pod, or has changed a condition that a readiness gate waits for. */
function isStatusChangeRelevant(before: Pod, after: Pod): boolean {
  return (
    isTerminal(after.status) !== isTerminal(before.status) ||
    !isJsonEqual(readinessGateStatuses(before), readinessGateStatuses(after))
  );
}

function readinessGateStatuses({ spec, status }: Pod): readonly unknown[] {
  const conditions = status?.conditions ?? [];
  return (spec.readinessGates ?? []).map(
    ({ conditionType }) => conditions.find(({ type }) => type === conditionType)?.status,
  );
}
