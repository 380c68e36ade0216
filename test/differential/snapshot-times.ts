// Whether the times of a pod's status follow each other, which no comparison of normalised times shows.
import { allContainerStatuses } from "../../proto/kubernetes/containers.ts";
import type { ContainerStatus, Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";

/** A snapshot of a pod: `settled`, `later` or `gone`. */
export interface Snapshot {
  readonly name: string;
  readonly pod: Pod;
  /** When it was taken, in milliseconds since the epoch. */
  readonly takenAtMs: number;
}

/** The name of the row that tells whether the times of a status are in order. */
export const TIMES = "times";

/** Whether the times of a status follow each other; `before`: the pod's snapshot before. */
export function describeTimes({ pod: { status }, takenAtMs }: Snapshot, before: Snapshot | undefined): string {
  const earlier = before?.pod.status;
  const wrong = [
    ...(earlier?.startTime !== undefined && status?.startTime !== earlier.startTime ? ["startTime has changed"] : []),
    ...allContainerStatuses(status).flatMap((each) => containerTimes(each, status?.startTime)),
    ...changedStarts(status, earlier),
    ...conditionTimes(status, earlier),
    ...timesOf(status).flatMap(([what, time]) =>
      isTime(time) && Date.parse(time) > takenAtMs ? [`${what} is in the future`] : [],
    ),
  ];
  return wrong.length === 0 ? "in order" : [...new Set(wrong)].join("; ");
}

/** What is wrong with the times of one container of a pod that started at `podStart`. */
function containerTimes(
  { name, state, lastState }: ContainerStatus,
  podStart: string | null | undefined,
): readonly string[] {
  const ended = [lastState?.terminated, state?.terminated];
  const present = state?.running ?? state?.terminated;
  const isNewInstance = state?.terminated?.containerID !== lastState?.terminated?.containerID;
  return [
    ...(ended.some((each) => isBefore(each?.finishedAt, each?.startedAt))
      ? [`${name} has finished before it started`]
      : []),
    ...([...ended, state?.running].some((each) => isBefore(each?.startedAt, podStart))
      ? [`${name} has started before its pod`]
      : []),
    ...(isNewInstance && isBefore(present?.startedAt, lastState?.terminated?.finishedAt)
      ? [`${name} has started before its last instance finished`]
      : []),
    ...(state?.running !== undefined && !isTime(state.running.startedAt) ? [`${name} runs and has no start`] : []),
  ];
}

/** The containers whose start has another time than before although the instance is the same. */
function changedStarts(status: PodStatus | undefined, earlier: PodStatus | undefined): readonly string[] {
  const starts = new Map(allContainerStatuses(earlier).flatMap(startsById));
  return allContainerStatuses(status).flatMap((each) =>
    startsById(each).some(([id, time]) => starts.has(id) && starts.get(id) !== time)
      ? [`${each.name} has another start than before`]
      : [],
  );
}

/** The starts that a status shows, by the instance. A status without the container's exit has no times. */
function startsById({ containerID, state, lastState }: ContainerStatus): readonly (readonly [string, string])[] {
  const starts = [
    [containerID, state?.running?.startedAt],
    [state?.terminated?.containerID, state?.terminated?.startedAt],
    [lastState?.terminated?.containerID, lastState?.terminated?.startedAt],
  ] as const;
  return starts.flatMap(([id, time]) => (id !== undefined && isTime(time) ? [[id, time] as const] : []));
}

/** The times of a status at which something has happened, with what it was. */
function timesOf(status: PodStatus | undefined): readonly (readonly [what: string, time: string | null | undefined])[] {
  return [
    ["startTime", status?.startTime],
    ...(status?.conditions ?? []).map(({ type, lastTransitionTime }) => [type, lastTransitionTime] as const),
    ...allContainerStatuses(status).flatMap(({ name, state, lastState }) => [
      ...[lastState?.terminated, state?.terminated, state?.running].map(
        (each) => [`the start of ${name}`, each?.startedAt] as const,
      ),
      ...[lastState?.terminated, state?.terminated].map((each) => [`the end of ${name}`, each?.finishedAt] as const),
    ]),
  ];
}

/**
 * What is wrong with the times of the conditions. The scheduler's may be older than the pod's start; it never changes
 * again. Others may change and change back between two snapshots. If no container has changed, they must be the same.
 */
function conditionTimes(status: PodStatus | undefined, before: PodStatus | undefined): readonly string[] {
  const isQuiet = JSON.stringify(instancesOf(before)) === JSON.stringify(instancesOf(status));
  return (status?.conditions ?? []).flatMap(({ type, status: value, lastTransitionTime: time }) => {
    const isScheduled = type === "PodScheduled";
    const earlier = before?.conditions?.find((each) => each.type === type);
    const hasMoved = earlier?.status === value && earlier.lastTransitionTime !== time && (isScheduled || isQuiet);
    return [
      ...(isBefore(time, earlier?.lastTransitionTime) ? [`${type} has changed before its last change`] : []),
      ...(hasMoved ? [`${type} is as before, at another time`] : []),
      ...(!isScheduled && isBefore(time, status?.startTime) ? [`${type} has changed before the pod started`] : []),
    ];
  });
}

const instancesOf = (status: PodStatus | undefined) =>
  allContainerStatuses(status).map(({ name, containerID, ready, started }) => ({ name, containerID, ready, started }));

/** Whether this is a time of the API, and not the time 0 of what never happened. */
const isTime = (time: string | null | undefined): time is string => typeof time === "string" && Date.parse(time) > 0;

/** Compares times of the API, which have whole seconds. A container that never started has a time near 0. */
const isBefore = (a: string | null | undefined, b: string | null | undefined) =>
  isTime(a) && isTime(b) && Date.parse(a) < Date.parse(b);
