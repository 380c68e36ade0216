import { isDeepStrictEqual } from "node:util";
import { sidecarsOf } from "../proto/kubernetes/containers.ts";
import type {
  ContainerStateTerminated,
  ContainerStatus,
  Pod,
  PodCondition,
  PodPhase,
  PodStatus,
} from "../proto/kubernetes/gen/types.ts";

/**
 * Returns one sentence for each regression from a pod's earlier status to a later one. Statuses in between may have
 * been missed. An interrupted start counts as a start: the next instance has a higher restart count. A pod with probes or
 * readiness gates may become unready while it runs: its test names that regression.
 */
export function statusRegressions({ metadata, status: before = {} }: Pod, later: Pod): readonly string[] {
  const { status: after = {} } = later;
  const isTerminating = later.metadata.deletionTimestamp !== undefined;
  const from = `${metadata.name}: `;
  const violations = (where: string, rules: Readonly<Record<string, boolean>>, was: unknown, is: unknown) =>
    Object.entries(rules)
      .filter(([, isBroken]) => isBroken)
      .map(([what]) => `${from}${where}${what} regressed: ${JSON.stringify(was)} → ${JSON.stringify(is)}`);
  const containerRegressions = pairsOf(before, after).flatMap(([was, is]) =>
    violations(`${was.name}: `, containerRules(was, is, isTerminating), was, is),
  );
  const conditionRegressions = (before.conditions ?? []).flatMap((was) => {
    const is = after.conditions?.find(({ type }) => type === was.type);
    return violations(`${was.type}: `, conditionRules(was, is), was, is);
  });
  return [...violations("", podRules(before, later), before, after), ...containerRegressions, ...conditionRegressions];
}

const phaseOrder: readonly (PodPhase | undefined)[] = [undefined, "Pending", "Running", "Succeeded", "Failed"];
const isTerminal = (phase: PodPhase | undefined) => phase === "Succeeded" || phase === "Failed";

function podRules(before: PodStatus, { metadata, spec, status: after = {} }: Pod) {
  const isTerminating = metadata.deletionTimestamp !== undefined;
  const hasChanged = (field: keyof PodStatus) =>
    before[field] !== undefined && !isDeepStrictEqual(before[field], after[field]);
  const isOver = isTerminal(before.phase);
  const isReady = ({ conditions = [] }: PodStatus) =>
    conditions.some(({ type, status }) => type === "Ready" && status === "True");
  const sidecars = sidecarsOf(spec).map(({ name }) => name);
  const ofSidecars = (after.initContainerStatuses ?? []).filter(({ name }) => sidecars.includes(name));
  const areReady = [...ofSidecars, ...(after.containerStatuses ?? [])].every(({ ready }) => ready);
  return {
    phase: phaseOrder.indexOf(after.phase) < phaseOrder.indexOf(before.phase),
    "final phase": isOver && after.phase !== before.phase,
    "reason of the end": isOver && (hasChanged("reason") || hasChanged("message")),
    "start time": hasChanged("startTime"),
    "QoS class": hasChanged("qosClass"),
    address: hasChanged("hostIP") || hasChanged("hostIPs") || hasChanged("podIP") || hasChanged("podIPs"),
    "observed generation": (after.observedGeneration ?? 0) < (before.observedGeneration ?? 0),
    "being ready": isReady(before) && !isReady(after) && areReady && !isTerminating && !isTerminal(after.phase),
  };
}

/** Pairs the container statuses of the earlier status with those of the later one, by name. */
function pairsOf(
  before: PodStatus,
  after: PodStatus,
): readonly (readonly [ContainerStatus, ContainerStatus | undefined])[] {
  return (["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] as const).flatMap((list) =>
    (before[list] ?? []).map((was) => [was, after[list]?.find(({ name }) => name === was.name)] as const),
  );
}

function containerRules(was: ContainerStatus, is: ContainerStatus | undefined, isTerminating: boolean) {
  const [ended, running] = [was.state?.terminated, was.state?.running];
  const isSame = is?.restartCount === was.restartCount;
  // An ended container waits for its restart with the same restartCount; its end is in lastState then.
  const end = is?.state?.terminated ?? (is?.state?.waiting && is.lastState?.terminated);
  // It waits with its own end in lastState, so the end before that is no longer shown.
  const isBehindItsEnd = is?.containerID !== undefined && is.lastState?.terminated?.containerID === is.containerID;
  const isNext = is?.restartCount === was.restartCount + 1 && !isBehindItsEnd;
  const endBefore = is?.lastState?.terminated;
  const stillRuns = isSame && running !== undefined && is.state?.running !== undefined;
  return {
    status: is === undefined,
    "order of start and end": [is?.state?.terminated, is?.lastState?.terminated].some(endsBeforeStart),
    "restart count": is !== undefined && is.restartCount < was.restartCount,
    "container id": isSame && was.containerID !== undefined && is.containerID !== was.containerID,
    "being running": isSame && running !== undefined && is.state?.running === undefined && end === undefined,
    start: stillRuns && running.startedAt !== is.state?.running?.startedAt,
    end: isSame && ended !== undefined && !isDeepStrictEqual(end, ended),
    "end before the last start":
      isNext && ended !== undefined && endBefore !== undefined && !isDeepStrictEqual(endBefore, ended),
    // A container that restarted has ended: lastState.terminated is set.
    "lastState after a restart": is !== undefined && is.restartCount > was.restartCount && endBefore === undefined,
    "last end":
      isSame && end === undefined && isNonEmpty(was.lastState) && !isDeepStrictEqual(is.lastState, was.lastState),
    readiness: stillRuns && was.ready && !is.ready && !isTerminating,
    "having started": stillRuns && was.started === true && is.started !== true && !isTerminating,
  };
}

/** containerd notes a start once it is done, when a short process may have ended already: in the second before. */
const LATE_START_MS = 1000;
const endsBeforeStart = (ended: ContainerStateTerminated | undefined): boolean =>
  ended?.startedAt !== undefined &&
  ended.finishedAt !== undefined &&
  Date.parse(ended.startedAt) - Date.parse(ended.finishedAt) > LATE_START_MS;

const isNonEmpty = (state: object | undefined) => state !== undefined && Object.keys(state).length > 0;

/** Conditions that never become false again. */
const PERMANENT_CONDITIONS: ReadonlySet<string> = new Set(["PodScheduled", "Initialized"]);

function conditionRules(was: PodCondition, is: PodCondition | undefined) {
  const [before, after] = [was.lastTransitionTime ?? "", is?.lastTransitionTime ?? ""];
  const isSame = is?.status === was.status;
  return {
    condition: is === undefined,
    "being true": PERMANENT_CONDITIONS.has(was.type) && was.status === "True" && is !== undefined && !isSame,
    "time of the change": is !== undefined && (isSame ? after !== before : after < before),
    "observed generation": is !== undefined && (is.observedGeneration ?? 0) < (was.observedGeneration ?? 0),
  };
}
