import { allContainerStatuses } from "../../proto/kubernetes/containers.ts";
import type { Event, Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import { factKindOf, readView, type ViewPart } from "./container-view.ts";

/**
 * What a user sees of one pod, as text by field. Values that differ in each run (times, ids, addresses) are replaced by
 * placeholders.
 */
export type Rows = ReadonlyMap<string, string>;

/** A side's own names with their common placeholders: `["node-a", "NODE"]`. */
export type Placeholders = readonly (readonly [own: string, common: string])[];

/** A snapshot of a pod: `settled`, `later` or `gone`. */
export interface Snapshot {
  readonly name: string;
  readonly pod: Pod;
}

/** The name of the row with the order of events. */
export const EVENT_ORDER = "order of events";

/** Suffix of the row name for a snapshot whose condition was not reached in time. */
export const MISSED_SUFFIX = " in time";

const patterns: readonly (readonly [RegExp, string])[] = [
  [/\b[0-9a-f]{64}\b/g, "ID"],
  [/\b(1970|0001)-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "ZERO TIME"],
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "TIME"],
  // The folder of the atomic writer.
  [/\.\.\d{4}(_\d\d){5}\.\d+/g, "..TIME"],
  // The volume of the account's token, which the API server names.
  [/\bkube-api-access-\w{5}\b/g, "kube-api-access-NAME"],
  // The local address of a connection, with a random port. Berth's messages leave it out.
  [/\btcp \S+:\d+->/g, "tcp "],
  // The resources that other pods use at that moment.
  [/, used: \d+,/g, ", used: SOME,"],
  [/ in \d[\d.a-zµ]* \(\d[\d.a-zµ]* including waiting\)/g, " in A WHILE (A WHILE including waiting)"],
];

/** Replaces a side's own names by placeholders. Longer names go first, because one may be part of another. */
export function normalise(text: string, names: Placeholders): string {
  const own = names.filter(([name]) => name !== "").toSorted(([a], [b]) => b.length - a.length);
  const named = own.reduce((before, [name, common]) => before.replaceAll(name, common), text);
  return patterns.reduce((before, [pattern, common]) => before.replaceAll(pattern, common), named);
}

/** The rows of one pod, which are compared. */
export function toRows(snapshots: readonly Snapshot[], events: readonly Event[], names: Placeholders): Rows {
  const podNames = names.concat(snapshots.flatMap(({ pod }) => podPlaceholders(pod)));
  const statusNames = podNames.concat(
    instanceNames(snapshots),
    numbered(
      "OWN",
      snapshots.flatMap(({ pod }) => namespaces(pod)),
    ),
  );
  const rows = new Map<string, string>();
  for (const [index, { name, pod }] of snapshots.entries()) {
    for (const [field, value] of statusRows(pod))
      rows.set(normalise(`${name} ${field}`, podNames), normalise(value, statusNames));
    rows.set(`${name} ${TIMES}`, describeTimes(pod, snapshots[index - 1]?.pod));
  }
  const kubeletEvents = events.filter(({ source }) => source?.component === "kubelet").toSorted(byCreation);
  const lines = kubeletEvents.map((event) => normalise(describeEvent(event), podNames));
  for (const [index, line] of lines.entries()) {
    const count = kubeletEvents[index]?.count ?? 1;
    const before = Number(rows.get(line)?.slice(1) ?? 0);
    rows.set(line, `×${before + count}`);
  }
  rows.set(EVENT_ORDER, sortStops([...new Set(lines)]).join("\n"));
  return rows;
}

/** Numbers values in the order of their first sight: equal values have equal placeholders. */
function numbered(prefix: string, values: readonly string[]): Placeholders {
  return [...new Set(values)].map((value, index) => [value, `${prefix}-${index + 1}`] as const);
}

/**
 * Names for the ids of a pod's containers, by the number of the instance: the newest one has the number of its restarts,
 * the one before is one less. So a value shows which instance a field is about. (Ids elsewhere are those of attempts
 * that never got a status.)
 */
function instanceNames(snapshots: readonly Snapshot[]): Placeholders {
  const names = new Map<string, string>();
  const add = (id: string | undefined, name: string, instance: number) => {
    const hex = /[0-9a-f]{64}$/.exec(id ?? "")?.[0];
    if (hex !== undefined && !names.has(hex)) names.set(hex, `INSTANCE ${instance} OF ${name}`);
  };
  for (const { pod } of snapshots)
    for (const { name, restartCount, containerID, lastState, state } of allContainerStatuses(pod.status)) {
      add(containerID, name, restartCount);
      add(lastState?.terminated?.containerID, name, restartCount - 1);
      add(state?.terminated?.containerID, name, restartCount);
    }
  return [...names];
}

/** The namespaces that the pod's containers have seen: the numbers show which of them share one. */
function namespaces({ status }: Pod): readonly string[] {
  const messages = allContainerStatuses(status).map(({ state }) => state?.terminated?.message ?? "");
  return messages.flatMap((message) => message.match(/\b(net|pid|ipc|uts):\[\d+\]/g) ?? []);
}

/** The row that tells whether the times of a status are in order. */
const TIMES = "times";

/** Whether the times of a status follow each other; `before`: the pod's snapshot before. */
function describeTimes({ status }: Pod, before: Pod | undefined): string {
  const start = status?.startTime;
  const spans = allContainerStatuses(status).flatMap(({ name, state, lastState }) =>
    [lastState?.terminated, state?.terminated].map((ended) => [name, ended] as const),
  );
  const wrong = [
    ...(before?.status?.startTime !== undefined && start !== before.status.startTime ? ["startTime has changed"] : []),
    ...spans.flatMap(([name, ended]) =>
      isBefore(ended?.finishedAt, ended?.startedAt) ? [`${name} has finished before it started`] : [],
    ),
    ...spans.flatMap(([name, ended]) =>
      isBefore(ended?.startedAt, start) ? [`${name} has started before its pod`] : [],
    ),
    ...allContainerStatuses(status).flatMap(({ name, state, lastState }) =>
      state?.terminated?.containerID !== lastState?.terminated?.containerID &&
      isBefore(state?.running?.startedAt ?? state?.terminated?.startedAt, lastState?.terminated?.finishedAt)
        ? [`${name} has started before its last instance finished`]
        : [],
    ),
    ...conditionTimes(status, before?.status),
  ];
  return wrong.length === 0 ? "in order" : [...new Set(wrong)].join("; ");
}

/**
 * What is wrong with the times of the conditions. The scheduler's may be older than the pod's start; it never changes
 * again. Others may change and change back between two snapshots, unless no container has changed either.
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

/** Compares times of the API, which have whole seconds. A container that never started has a time near 0. */
const isBefore = (a: string | null | undefined, b: string | null | undefined) =>
  typeof a === "string" && typeof b === "string" && 0 < Date.parse(a) && Date.parse(a) < Date.parse(b);

/** The requested parts of a view for which the container wrote nothing. */
export function emptyViewParts(requested: readonly ViewPart[], rows: Rows): readonly ViewPart[] {
  const filled = [...rows].filter(([, value]) => value.trim() !== "");
  const kinds = new Set(filled.map(([field]) => /^(?:settled|later) inside .*?: (\S+)/.exec(field)?.[1]));
  return requested.filter((part) => !kinds.has(factKindOf(part)));
}

/** The rows of snapshots that were not reached in time. Such a run cannot be compared. */
export function missedSnapshots(rows: Rows): readonly string[] {
  return [...rows.keys()].filter((field) => field.endsWith(MISSED_SUFFIX));
}

/** Sorts consecutive stops: containers stop at the same time, so the order of their events has no meaning. */
function sortStops(lines: readonly string[]): readonly string[] {
  const isStop = (line: string | undefined) => line?.startsWith("event Normal Killing ") ?? false;
  const stops = lines.filter(isStop).toSorted();
  const first = lines.findIndex(isStop);
  return lines.flatMap((line, index) => (index === first ? stops : isStop(line) ? [] : [line]));
}

function podPlaceholders({ metadata, status }: Pod): Placeholders {
  const ips = (status?.podIPs ?? []).map(({ ip = "" }) => ip);
  const hosts = (status?.hostIPs ?? []).map(({ ip = "" }) => ip);
  return [
    [metadata.uid ?? "", "UID"],
    // The uid of a static pod, which differs from its mirror's.
    [metadata.annotations?.["kubernetes.io/config.mirror"] ?? "", "UID"],
    ...hosts.map((ip) => [ip, "HOST-IP"] as const),
    ...ips.filter((ip) => !hosts.includes(ip)).map((ip) => [ip, "POD-IP"] as const),
  ];
}

/** Event names end with their creation time in hexadecimal nanoseconds; their timestamps have only seconds. */
function byCreation(a: Event, b: Event): number {
  const nanos = ({ metadata: { name = "" } }: Event) => BigInt(`0x${/\.([0-9a-f]+)$/.exec(name)?.[1] ?? "0"}`);
  return nanos(a) < nanos(b) ? -1 : 1;
}

function describeEvent({ type, reason, message, involvedObject: { fieldPath } }: Event): string {
  const container = fieldPath === undefined ? "" : ` ${fieldPath}`;
  return `event ${type} ${reason}${container}: ${message}`;
}

function statusRows({ metadata, status }: Pod): readonly (readonly [string, string])[] {
  const mirrors = Object.entries(metadata.annotations ?? {}).filter(([name]) =>
    name.startsWith("kubernetes.io/config"),
  );
  return [
    ...flatten(status ?? {}, ""),
    ...(mirrors.length > 0 ? [] : graceRows(metadata, status)),
    ...mirrors.map(([name, value]) => [`annotation ${name}`, name.endsWith("source") ? value : "a value"] as const),
  ];
}

/** For a pod that was deleted with a grace period: whether its containers have used it up. */
function graceRows(
  { deletionTimestamp: deadline, deletionGracePeriodSeconds = 0 }: Pod["metadata"],
  status: PodStatus | undefined,
): readonly (readonly [string, string])[] {
  if (deadline === undefined || deletionGracePeriodSeconds === 0) return [];
  return allContainerStatuses(status).flatMap(({ name, state }) => {
    const { finishedAt } = state?.terminated ?? {};
    if (finishedAt === undefined) return [];
    const isLate = Date.parse(finishedAt) >= Date.parse(deadline);
    return [[`end of ${name}`, isLate ? "after its grace period" : "within its grace period"] as const];
  });
}

/** Every leaf of an object with its path: `containerStatuses[main].state.waiting.reason`. */
function flatten(value: unknown, path: string): readonly (readonly [string, string])[] {
  if (Array.isArray(value))
    return value.flatMap((each: unknown, index) => flatten(each, `${path}[${keyOf(each) ?? index}]`));
  if (typeof value === "object" && value !== null)
    return Object.entries(value).flatMap(([key, each]) => flatten(each, path === "" ? key : `${path}.${key}`));
  const text = String(value);
  const view = path.endsWith("terminated.message") ? readView(text) : undefined;
  if (view === undefined) return [[path, text]];
  const container = /containerStatuses\[(.*?)\]/i.exec(path)?.[1] ?? "";
  return [...view].map(([fact, shown]) => [`inside ${container}: ${fact}`, shown] as const);
}

/** The merge key of a list item: its `type` or `name`. */
function keyOf(item: unknown): string | undefined {
  if (typeof item !== "object" || item === null) return undefined;
  if ("type" in item) return String(item.type);
  return "name" in item ? String(item.name) : undefined;
}
