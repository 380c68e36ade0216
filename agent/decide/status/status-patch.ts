import { isObject } from "../../../proto/is-object.ts";
import type { ContainerStatus, Pod, PodCondition, PodPhase, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { isSemanticallyEqual } from "../../../proto/kubernetes/semantic-equal.ts";
import type { StageKind } from "../pod/stage.ts";
import { isTerminal, mirroredUid } from "../sources/api-pod.ts";
import { mergeStatus } from "./status-merge.ts";

/** A strategic merge patch of a pod's status. It is sent with the pod's uid as a precondition. */
export interface StatusPatch {
  readonly status: Readonly<Record<string, unknown>>;
  readonly [key: string]: unknown;
}

/** Fields that are replaced as a whole. */
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

/** Maps that the API merges by key. */
const MAPS = ["allocatedResources", "resources"] as const;

/** Lists that the API merges by key. The agent is their only writer, so they are replaced as a whole. */
const LISTS = ["hostIPs", "podIPs"] as const;

/**
 * The patch that gives a pod of the API the decided status, as far as a status may become that (see `mergeStatus`);
 * undefined if it has it already. `api` is the pod as the API server last returned it: no read is needed.
 */
export function statusPatch(api: Pod, decided: PodStatus, now: number): StatusPatch | undefined {
  const before = api.status ?? {};
  const after = mergeStatus(api, decided, now);
  const status: Record<string, unknown> = {};
  for (const field of FIELDS)
    if (!isSemanticallyEqual(before[field], after[field])) status[field] = after[field] ?? null;
  for (const map of MAPS)
    if (!isSemanticallyEqual(before[map], after[map])) status[map] = mapPatch(before[map] ?? {}, after[map] ?? {});
  for (const list of LISTS)
    if (!isSemanticallyEqual(before[list], after[list])) status[list] = [...(after[list] ?? []), { $patch: "replace" }];
  Object.assign(status, conditionsPatch(before.conditions ?? [], after.conditions ?? []));
  return Object.keys(status).length === 0 ? undefined : { status };
}

/** Null for each key that is gone. The server drops a map with `$patch: replace` that the object does not have. */
function mapPatch(before: object, after: object): Readonly<Record<string, unknown>> {
  const values = new Map<string, unknown>(Object.entries(before));
  const gone = [...values.keys()].filter((key) => !(key in after)).map((key) => [key, null] as const);
  const kept = Object.entries(after).map(([key, value]: [string, unknown]) => {
    const known = values.get(key);
    return [key, isObject(value) && isObject(known) ? mapPatch(known, value) : value] as const;
  });
  return Object.fromEntries([...kept, ...gone]);
}

/** Conditions have many writers: the patch has only those that change, each by its type. */
function conditionsPatch(
  before: readonly PodCondition[],
  after: readonly PodCondition[],
): Readonly<Record<string, unknown>> {
  const changed = after.flatMap((condition) => {
    const known = before.find(({ type }) => type === condition.type);
    if (known !== undefined && isSemanticallyEqual(known, condition)) return [];
    const gone = Object.entries(known ?? {}).filter(
      ([key, value]) => !(key in condition || isSemanticallyEqual(value, null)),
    );
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

/** The fields that the next patch of a starting, or a terminating, pod has too, usually within a second. */
const START_FIELDS: ReadonlySet<string> = new Set(["podIP", "podIPs", "conditions", "$setElementOrder/conditions"]);
const CONTAINER_LISTS = ["initContainerStatuses", "containerStatuses"] as const;
const TERMINATION_FIELDS: ReadonlySet<string> = new Set([
  "observedGeneration",
  "conditions",
  "$setElementOrder/conditions",
]);

/**
 * Whether a patch may be delayed to be sent together with the next one. For a starting pod: it only reports the
 * sandbox, or a container that waits for its `postStart` hook and so has not started yet. For a terminating pod: it
 * only confirms the deletion (`observedGeneration`).
 */
export function mayBeDelayed(api: Pod, { status }: StatusPatch, decided: PodStatus, stage: StageKind): boolean {
  const fields = Object.keys(status);
  const conditions = (status["conditions"] ?? []) as readonly PodCondition[];
  if (stage === "syncing")
    return (
      decided.phase === "Pending" &&
      fields.every((field) => START_FIELDS.has(field) || isStartingChange(field, api, decided)) &&
      conditions.every(({ type }) => type === "PodReadyToStartContainers")
    );
  const isUnchanged = (condition: PodCondition) => {
    const known = api.status?.conditions?.find(({ type }) => type === condition.type);
    return isSemanticallyEqual(
      { ...known, observedGeneration: undefined },
      { ...condition, observedGeneration: undefined },
    );
  };
  return (
    stage === "terminating" && fields.every((field) => TERMINATION_FIELDS.has(field)) && conditions.every(isUnchanged)
  );
}

/**
 * Whether a patch only shows how far the start of a pod has come: an app container has started, and others have yet to.
 * The kubelet starts all that it can before it reports again.
 */
export function isStartProgress(api: Pod, { status }: StatusPatch, decided: PodStatus, stage: StageKind): boolean {
  return (
    stage === "syncing" &&
    decided.phase === "Pending" &&
    Object.keys(status).every((field) => START_FIELDS.has(field) || isStartOfContainers(field, api, decided)) &&
    hasMinorConditions(api, status)
  );
}

/**
 * Whether a patch only shows how far the end of a pod has come: containers have ended, and others still run. A pod of
 * many containers stops a few at a time.
 */
export function isEndProgress(api: Pod, { status }: StatusPatch, decided: PodStatus, stage: StageKind): boolean {
  const fields = [...TERMINATION_FIELDS, ...CONTAINER_LISTS];
  return (
    stage === "terminating" &&
    CONTAINER_LISTS.some((list) => decided[list]?.some(({ state }) => state?.running !== undefined)) &&
    Object.keys(status).every((field) => fields.includes(field)) &&
    hasMinorConditions(api, status)
  );
}

/** Whether no condition of a patch changes its status, but for that of the sandbox. */
function hasMinorConditions(api: Pod, status: StatusPatch["status"]): boolean {
  const conditions = (status["conditions"] ?? []) as readonly PodCondition[];
  return conditions.every(
    (condition) =>
      condition.type === "PodReadyToStartContainers" ||
      api.status?.conditions?.find(({ type }) => type === condition.type)?.status === condition.status,
  );
}

/** Whether the field is the statuses of the app containers, and differs only in first instances that have started. */
function isStartOfContainers(field: string, api: Pod, decided: PodStatus): boolean {
  if (field !== "containerStatuses") return isStartingChange(field, api, decided);
  return (decided.containerStatuses ?? []).every((status) => {
    const before = api.status?.containerStatuses?.find(({ name }) => name === status.name);
    const { state, restartCount } = status;
    const isStart = restartCount === 0 && (isStarting(status) || state?.running !== undefined);
    return before !== undefined && (isSemanticallyEqual(before, status) || isStart);
  });
}

/**
 * Whether a list of container statuses differs only in containers that were and still are waiting for their first
 * start.
 */
function isStartingChange(field: string, api: Pod, decided: PodStatus): boolean {
  const list = CONTAINER_LISTS.find((each) => each === field);
  if (list === undefined) return false;
  const reported = api.status?.[list] ?? [];
  return (decided[list] ?? []).every((status) => {
    const before = reported.find(({ name }) => name === status.name);
    return before !== undefined && (isSemanticallyEqual(before, status) || (isStarting(before) && isStarting(status)));
  });
}

function isStarting({ state, restartCount }: ContainerStatus): boolean {
  const reason = state?.waiting?.reason;
  return restartCount === 0 && (reason === "ContainerCreating" || reason === "PodInitializing");
}

/** Whether the decided status changes the pod's readiness. */
export function changesReadiness(api: Pod | undefined, decided: PodStatus | undefined): boolean {
  const isReady = (status: PodStatus | undefined) =>
    status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True") === true;
  return api !== undefined && decided !== undefined && isReady(api.status) !== isReady(decided);
}

/**
 * Whether the pod has to be removed from the API: it is deleted, nothing of it is left on the node, and its terminal
 * phase is reported. The mirror controller removes mirror pods. A pod with a grace period of zero and finalizers waits
 * for the finalizers only. One without finalizers is left from an interrupted removal: the server sets the grace period
 * to zero first.
 */
export function isDeletionDue(api: Pod, stage: StageKind): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers = [] } = api.metadata;
  const isWaitingForFinalizers = deletionGracePeriodSeconds === 0 && finalizers.length > 0;
  return (
    deletionTimestamp !== undefined &&
    !isWaitingForFinalizers &&
    mirroredUid(api) === undefined &&
    stage === "finished" &&
    isTerminal(api.status)
  );
}

/**
 * The smallest patch that allows the removal of a deleted pod without anything left on the node: its terminal phase
 * alone, for a server that rejects the whole patch. Undefined if the patch has no more than the phase, or no terminal
 * phase.
 */
export function phaseOnlyPatch(api: Pod, patch: StatusPatch, stage: StageKind): StatusPatch | undefined {
  const phase = patch.status["phase"] as PodPhase;
  const isDeleted = api.metadata.deletionTimestamp !== undefined && mirroredUid(api) === undefined;
  const isEnd = stage === "finished" && isDeleted && isTerminal({ phase });
  return isEnd && Object.keys(patch.status).length > 1 ? { status: { phase } } : undefined;
}
