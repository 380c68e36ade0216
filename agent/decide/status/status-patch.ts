import type { ContainerStatus, Pod, PodCondition, PodPhase, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { isSameValue } from "../../../proto/kubernetes/semantic-equal.ts";
import type { StageKind } from "../pod/stage.ts";
import { isTerminal, mirroredUid } from "../sources/api-pod.ts";
import { mergeStatus } from "./status-merge.ts";

/** A strategic merge patch of a pod's status. The uid that it is meant for goes with it as a precondition. */
export interface StatusPatch {
  readonly status: Readonly<Record<string, unknown>>;
  readonly [key: string]: unknown;
}

/** Fields that are one value, replaced as a whole. */
const FIELDS = [
  "phase",
  "reason",
  "message",
  "startTime",
  "hostIP",
  "podIP",
  "qosClass",
  "observedGeneration",
  "initContainerStatuses",
  "containerStatuses",
  "ephemeralContainerStatuses",
] as const;

/** Lists that the API merges by key. They are ours alone, so they are replaced all the same. */
const LISTS = ["hostIPs", "podIPs"] as const;

/**
 * What to send so that a pod of the API gets the status that we want it to have, as far as a status may become that (see
 * `mergeStatus`); undefined when it has it. `api` is the pod as the API server last showed it: nothing has to be asked for.
 */
export function statusPatch(api: Pod, wanted: PodStatus, now: number): StatusPatch | undefined {
  const before = api.status ?? {};
  const after = mergeStatus(api, wanted, now);
  const status: Record<string, unknown> = {};
  for (const field of FIELDS) if (!isSameValue(before[field], after[field])) status[field] = after[field] ?? null;
  for (const list of LISTS)
    if (!isSameValue(before[list], after[list])) status[list] = [...(after[list] ?? []), { $patch: "replace" }];
  Object.assign(status, conditionsPatch(before.conditions ?? [], after.conditions ?? []));
  return Object.keys(status).length === 0 ? undefined : { status };
}

/** Conditions have many writers: only those that change are named, each by its type. */
function conditionsPatch(
  before: readonly PodCondition[],
  after: readonly PodCondition[],
): Readonly<Record<string, unknown>> {
  const changed = after.flatMap((condition) => {
    const known = before.find(({ type }) => type === condition.type);
    if (known !== undefined && isSameValue(known, condition)) return [];
    const gone = Object.entries(known ?? {}).filter(([key, value]) => !(key in condition || isSameValue(value, null)));
    return [{ ...condition, ...Object.fromEntries(gone.map(([key]) => [key, null])) }];
  });
  const dropped = before
    .filter(({ type }) => !after.some((each) => each.type === type))
    .map(({ type }) => ({ $patch: "delete", type }));
  if (changed.length + dropped.length === 0) return {};
  return {
    "$setElementOrder/conditions": after.map(({ type }) => ({ type })),
    conditions: [...changed, ...dropped],
  };
}

/** What the next word on a pod that starts, or ends, says too, as a rule within a second. */
const OF_SANDBOX: ReadonlySet<string> = new Set(["podIP", "podIPs", "conditions", "$setElementOrder/conditions"]);
const CONTAINER_LISTS = ["initContainerStatuses", "containerStatuses"] as const;
const OF_END: ReadonlySet<string> = new Set(["observedGeneration", "conditions", "$setElementOrder/conditions"]);

/**
 * Whether a patch may wait a moment, since as a rule there is more to tell soon, which is told together with it: of a pod whose
 * containers are still to be started it says only that the sandbox is there, or that a container which nobody takes for started yet waits
 * for its `postStart` hook; of one whose containers are being stopped only that its deletion was heard.
 */
export function mayWait(api: Pod, { status }: StatusPatch, wanted: PodStatus, stage: StageKind): boolean {
  const fields = Object.keys(status);
  const conditions = (status["conditions"] ?? []) as readonly PodCondition[];
  if (stage === "syncing")
    return (
      wanted.phase === "Pending" &&
      fields.every((field) => OF_SANDBOX.has(field) || isOfBeginning(field, api, wanted)) &&
      conditions.every(({ type }) => type === "PodReadyToStartContainers")
    );
  const isKnown = (condition: PodCondition) => {
    const known = api.status?.conditions?.find(({ type }) => type === condition.type);
    return isSameValue({ ...known, observedGeneration: undefined }, { ...condition, observedGeneration: undefined });
  };
  return stage === "terminating" && fields.every((field) => OF_END.has(field)) && conditions.every(isKnown);
}

/** Whether all that has changed of a list of containers is what is known of those that still begin, as was told before. */
function isOfBeginning(field: string, api: Pod, wanted: PodStatus): boolean {
  const list = CONTAINER_LISTS.find((each) => each === field);
  if (list === undefined) return false;
  const told = api.status?.[list] ?? [];
  return (wanted[list] ?? []).every((status) => {
    const before = told.find(({ name }) => name === status.name);
    return before !== undefined && (isSameValue(before, status) || (isBeginning(before) && isBeginning(status)));
  });
}

function isBeginning({ state, restartCount }: ContainerStatus): boolean {
  const reason = state?.waiting?.reason;
  return restartCount === 0 && (reason === "ContainerCreating" || reason === "PodInitializing");
}

/** Whether a pod becomes ready by what is wanted of it, or is so no longer. */
export function changesReadiness(api: Pod | undefined, wanted: PodStatus | undefined): boolean {
  const isReady = (status: PodStatus | undefined) =>
    status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True") === true;
  return api !== undefined && wanted !== undefined && isReady(api.status) !== isReady(wanted);
}

/**
 * Whether the pod is to be removed from the API for good: it was deleted, nothing of it is left on the node, and its end has been
 * told. A mirror pod is removed by whoever keeps mirror pods; a pod whose grace the API server has taken away altogether, and which has
 * finalizers, only waits for those. One without them is left over from a deletion that was cut off: the server takes the grace away first.
 */
export function deletionDue(api: Pod, stage: StageKind): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers = [] } = api.metadata;
  const isUnderWay = deletionGracePeriodSeconds === 0 && finalizers.length > 0;
  return (
    deletionTimestamp !== undefined &&
    !isUnderWay &&
    mirroredUid(api) === undefined &&
    stage === "finished" &&
    isTerminal(api.status)
  );
}

/**
 * The least of a patch that lets a deleted pod go, of which nothing is left on the node: that it has ended. A server that does not
 * take the rest would have it end for ever. Undefined where the patch says no more, or no end.
 */
export function endPatch(api: Pod, patch: StatusPatch, stage: StageKind): StatusPatch | undefined {
  const phase = patch.status["phase"] as PodPhase;
  const isAwaited = api.metadata.deletionTimestamp !== undefined && mirroredUid(api) === undefined;
  const isEnd = stage === "finished" && isAwaited && isTerminal({ phase });
  return isEnd && Object.keys(patch.status).length > 1 ? { status: { phase } } : undefined;
}
