import { allContainerStatuses } from "../../proto/kubernetes/containers.ts";
import type { Event, Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { CreatedIds } from "../e2e/create-attempts.ts";
import { factKindOf, readView, type ViewPart } from "./container-view.ts";
import { describeTimes, type Snapshot, TIMES } from "./snapshot-times.ts";

/**
 * What a user sees of one pod, as text by field. Values that differ in each run (times, ids, addresses) are replaced by
 * placeholders.
 */
export type Rows = ReadonlyMap<string, string>;

/** A side's own names with their common placeholders: `["node-a", "NODE"]`. */
export type Placeholders = readonly (readonly [own: string, common: string])[];

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

/** The rows of one pod, which are compared. `created`: what the runtime of the pod's node has created. */
export function toRows(
  snapshots: readonly Snapshot[],
  events: readonly Event[],
  names: Placeholders,
  created: CreatedIds,
): Rows {
  const podNames = names.concat(snapshots.flatMap(({ pod }) => podPlaceholders(pod)));
  const statusNames = podNames.concat(
    instanceNames(snapshots, created),
    numbered(
      "OWN",
      snapshots.flatMap(({ pod }) => namespaces(pod)),
    ),
  );
  const rows = new Map<string, string>();
  for (const [index, snapshot] of snapshots.entries()) {
    const { name, pod } = snapshot;
    for (const [field, value] of statusRows(pod))
      rows.set(normalise(`${name} ${field}`, podNames), normalise(value, statusNames));
    rows.set(`${name} ${TIMES}`, describeTimes(snapshot, snapshots[index - 1]));
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
 * Names for the ids that statuses show, by what the runtime says of them and not the status: which attempt at which
 * container an id is. What the runtime has created for another pod, or as a sandbox, gets a name that no recording has.
 * An id that the runtime does not know stays an id, and so does a container whose sandbox its log does not have.
 */
function instanceNames(snapshots: readonly Snapshot[], { containers, sandboxes }: CreatedIds): Placeholders {
  const uids = new Set(snapshots.flatMap(({ pod }) => uidsOf(pod)));
  const shown = snapshots.flatMap(({ pod }) => JSON.stringify(pod.status ?? {}).match(/\b[0-9a-f]{64}\b/g) ?? []);
  return [...new Set(shown)].flatMap((id) => {
    const container = containers.get(id);
    const uid = container?.podUid ?? sandboxes.get(id);
    if (uid === undefined || container?.hasPodUid === false) return [];
    const name = container === undefined ? "SANDBOX" : `INSTANCE ${container.attemptNumber} OF ${container.name}`;
    return [[id, uids.has(uid) ? name : `${name} OF ANOTHER POD`] as const];
  });
}

/** The uids by which a pod's node knows it: its own, or that of the static pod whose mirror it is. */
const uidsOf = ({ metadata: { uid = "", annotations } }: Pick<Pod, "metadata">) => [
  uid,
  annotations?.["kubernetes.io/config.mirror"] ?? "",
];

/** The namespaces that the pod's containers have seen: the numbers show which of them share one. */
function namespaces({ status }: Pod): readonly string[] {
  const messages = allContainerStatuses(status).map(({ state }) => state?.terminated?.message ?? "");
  return messages.flatMap((message) => message.match(/\b(net|pid|ipc|uts):\[\d+\]/g) ?? []);
}

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
    ...uidsOf({ metadata }).map((uid) => [uid, "UID"] as const),
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
