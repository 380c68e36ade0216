import { isDeepStrictEqual } from "node:util";
import type { ContainerStatus, Pod, PodCondition, PodPhase, PodStatus } from "../proto/kubernetes/gen/types.ts";

/**
 * One sentence for each thing that a pod's status takes back of what the one before it had said. Statuses in between may have been
 * missed. A start that was cut short counts as one: then a container begins anew, with a higher restart count. It is meant for pods
 * without probes and readiness gates: only those may cease to be ready while all goes on.
 */
export function takenBack(
  { metadata, status: before = {} }: Pod,
  { metadata: now, status: after = {} }: Pod,
): readonly string[] {
  const isLeaving = now.deletionTimestamp !== undefined;
  const from = `${metadata.name}: `;
  const tell = (where: string, rules: Readonly<Record<string, boolean>>, was: unknown, is: unknown) =>
    Object.entries(rules)
      .filter(([, isBroken]) => isBroken)
      .map(([what]) => `${from}${where}${what} taken back: ${JSON.stringify(was)} → ${JSON.stringify(is)}`);
  const ofContainers = pairsOf(before, after).flatMap(([was, is]) =>
    tell(`${was.name}: `, containerRules(was, is, isLeaving), was, is),
  );
  const ofConditions = (before.conditions ?? []).flatMap((was) => {
    const is = after.conditions?.find(({ type }) => type === was.type);
    return tell(`${was.type}: `, conditionRules(was, is), was, is);
  });
  return [...tell("", podRules(before, after, isLeaving), before, after), ...ofContainers, ...ofConditions];
}

const order: readonly (PodPhase | undefined)[] = [undefined, "Pending", "Running", "Succeeded", "Failed"];
const isTerminal = (phase: PodPhase | undefined) => phase === "Succeeded" || phase === "Failed";

function podRules(before: PodStatus, after: PodStatus, isLeaving: boolean) {
  const hasChanged = (field: keyof PodStatus) =>
    before[field] !== undefined && !isDeepStrictEqual(before[field], after[field]);
  const isOver = isTerminal(before.phase);
  const isReady = ({ conditions = [] }: PodStatus) =>
    conditions.some(({ type, status }) => type === "Ready" && status === "True");
  const areReady = (after.containerStatuses ?? []).every(({ ready }) => ready);
  return {
    phase: order.indexOf(after.phase) < order.indexOf(before.phase),
    "final phase": isOver && after.phase !== before.phase,
    "reason of the end": isOver && (hasChanged("reason") || hasChanged("message")),
    "start time": hasChanged("startTime"),
    "QoS class": hasChanged("qosClass"),
    address: hasChanged("hostIP") || hasChanged("hostIPs") || hasChanged("podIP") || hasChanged("podIPs"),
    "observed generation": (after.observedGeneration ?? 0) < (before.observedGeneration ?? 0),
    "being ready": isReady(before) && !isReady(after) && areReady && !isLeaving && !isTerminal(after.phase),
  };
}

/** Each container that the first of them speaks of, and what the second one says of it. */
function pairsOf(
  before: PodStatus,
  after: PodStatus,
): readonly (readonly [ContainerStatus, ContainerStatus | undefined])[] {
  return (["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] as const).flatMap((list) =>
    (before[list] ?? []).map((was) => [was, after[list]?.find(({ name }) => name === was.name)] as const),
  );
}

function containerRules(was: ContainerStatus, is: ContainerStatus | undefined, isLeaving: boolean) {
  const [ended, running] = [was.state?.terminated, was.state?.running];
  const isSame = is?.restartCount === was.restartCount;
  // What ended waits for its next start under the same count; then its end is the last one.
  const end = is?.state?.terminated ?? (is?.state?.waiting && is.lastState?.terminated);
  // It waits with an end of its own as its last: what was before that is told no more.
  const isBehindItsEnd = is?.containerID !== undefined && is.lastState?.terminated?.containerID === is.containerID;
  const isNext = is?.restartCount === was.restartCount + 1 && is.state?.terminated === undefined && !isBehindItsEnd;
  const stillRuns = isSame && running !== undefined && is.state?.running !== undefined;
  return {
    status: is === undefined,
    "restart count": is !== undefined && is.restartCount < was.restartCount,
    "container id": isSame && was.containerID !== undefined && is.containerID !== was.containerID,
    "being running": isSame && running !== undefined && is.state?.running === undefined && end === undefined,
    start: stillRuns && running.startedAt !== is.state?.running?.startedAt,
    end: isSame && ended !== undefined && !isDeepStrictEqual(end, ended),
    "end before the last start": isNext && ended !== undefined && !isDeepStrictEqual(is.lastState?.terminated, ended),
    "last end":
      isSame && end === undefined && hasText(was.lastState) && !isDeepStrictEqual(is.lastState, was.lastState),
    readiness: stillRuns && was.ready && !is.ready && !isLeaving,
    "having started": stillRuns && was.started === true && is.started !== true && !isLeaving,
  };
}

const hasText = (state: object | undefined) => state !== undefined && Object.keys(state).length > 0;

/** What is true from some moment on of every pod, and stays so. */
const LASTING: ReadonlySet<string> = new Set(["PodScheduled", "Initialized"]);

function conditionRules(was: PodCondition, is: PodCondition | undefined) {
  const [before, after] = [was.lastTransitionTime ?? "", is?.lastTransitionTime ?? ""];
  const isSame = is?.status === was.status;
  return {
    condition: is === undefined,
    "being true": LASTING.has(was.type) && was.status === "True" && is !== undefined && !isSame,
    "time of the change": is !== undefined && (isSame ? after !== before : after < before),
    "observed generation": is !== undefined && (is.observedGeneration ?? 0) < (was.observedGeneration ?? 0),
  };
}
