import { allContainerStatuses } from "../../proto/kubernetes/containers.ts";
import type { Event, Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import { kindOf, readView, type ViewPart } from "./container-view.ts";

/** What a user sees of one pod, as text by field, with what cannot be the same twice (times, ids, addresses) replaced by its name. */
export type Rows = ReadonlyMap<string, string>;

/** What is called otherwise on each side, and what stands for it: `["node-a", "NODE"]`. */
export type Names = readonly (readonly [own: string, common: string])[];

/** A pod at one moment of its life: `settled`, `gone`. */
export interface Moment {
  readonly name: string;
  readonly pod: Pod;
}

/** The name of the row that tells in which order events came. */
export const ORDER = "order of events";

/** How the name of a row ends that tells of a moment that did not come. */
export const MISSED = " in time";

const patterns: readonly (readonly [RegExp, string])[] = [
  [/\b[0-9a-f]{64}\b/g, "ID"],
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "TIME"],
  [/\b(net|pid|ipc|uts):\[\d+\]/g, "OWN"],
  // How much others have taken at that moment.
  [/, used: \d+,/g, ", used: SOME,"],
  [/ in \d[\d.a-zµ]* \(\d[\d.a-zµ]* including waiting\)/g, " in A WHILE (A WHILE including waiting)"],
];

/** The text with names that both sides share. Longer names go first, since one may be a part of another. */
export function normalise(text: string, names: Names): string {
  const own = names.filter(([name]) => name !== "").toSorted(([a], [b]) => b.length - a.length);
  const named = own.reduce((before, [name, common]) => before.replaceAll(name, common), text);
  return patterns.reduce((before, [pattern, common]) => before.replaceAll(pattern, common), named);
}

/** All that is compared of one pod. */
export function rowsOf(moments: readonly Moment[], events: readonly Event[], names: Names): Rows {
  const all = names.concat(moments.flatMap(({ pod }) => ownNames(pod)));
  const rows = new Map<string, string>();
  for (const { name, pod } of moments)
    for (const [field, value] of statusRows(pod)) rows.set(normalise(`${name} ${field}`, all), normalise(value, all));
  const told = events.filter(({ source }) => source?.component === "kubelet").toSorted(byMoment);
  const lines = told.map((event) => normalise(sentence(event), all));
  for (const [index, line] of lines.entries()) {
    const count = told[index]?.count ?? 1;
    const before = Number(rows.get(line)?.slice(1) ?? 0);
    rows.set(line, `×${before + count}`);
  }
  rows.set(ORDER, inOrder([...new Set(lines)]).join("\n"));
  return rows;
}

/** Which of these parts of a view a side shows nothing of. */
export function unseen(wanted: readonly ViewPart[], rows: Rows): readonly ViewPart[] {
  const said = [...rows].filter(([, value]) => value.trim() !== "");
  const kinds = new Set(said.map(([field]) => /^settled inside .*?: (\S+)/.exec(field)?.[1]));
  return wanted.filter((part) => !kinds.has(kindOf(part)));
}

/** What did not come about in time: of such a run nothing can be told. */
export function missed(rows: Rows): readonly string[] {
  return [...rows.keys()].filter((field) => field.endsWith(MISSED));
}

/** Containers are stopped all at once, so that the order of their stops is nobody's. */
function inOrder(lines: readonly string[]): readonly string[] {
  const isStop = (line: string | undefined) => line?.startsWith("event Normal Killing ") ?? false;
  const stops = lines.filter(isStop).toSorted();
  const first = lines.findIndex(isStop);
  return lines.flatMap((line, index) => (index === first ? stops : isStop(line) ? [] : [line]));
}

function ownNames({ metadata, status }: Pod): Names {
  const ips = (status?.podIPs ?? []).map(({ ip = "" }) => ip);
  const hosts = (status?.hostIPs ?? []).map(({ ip = "" }) => ip);
  return [
    [metadata.uid ?? "", "UID"],
    // The uid of a static pod, which is not that of its mirror.
    [metadata.annotations?.["kubernetes.io/config.mirror"] ?? "", "UID"],
    ...hosts.map((ip) => [ip, "HOST-IP"] as const),
    ...ips.filter((ip) => !hosts.includes(ip)).map((ip) => [ip, "POD-IP"] as const),
  ];
}

/** Names of events end in the nanosecond, as hexadecimal, in which they were told first; their times have only seconds. */
function byMoment(a: Event, b: Event): number {
  const nanos = ({ metadata: { name = "" } }: Event) => BigInt(`0x${/\.([0-9a-f]+)$/.exec(name)?.[1] ?? "0"}`);
  return nanos(a) < nanos(b) ? -1 : 1;
}

function sentence({ type, reason, message, involvedObject: { fieldPath } }: Event): string {
  const container = fieldPath === undefined ? "" : ` ${fieldPath}`;
  return `event ${type} ${reason}${container}: ${message}`;
}

function statusRows({ metadata, status }: Pod): readonly (readonly [string, string])[] {
  const mirrors = Object.entries(metadata.annotations ?? {}).filter(([name]) =>
    name.startsWith("kubernetes.io/config"),
  );
  return [
    ...flatten(status ?? {}, ""),
    ...(mirrors.length > 0 ? [] : ends(metadata, status)),
    ...mirrors.map(([name, value]) => [`annotation ${name}`, name.endsWith("source") ? value : "a value"] as const),
  ];
}

/** Of a pod that was deleted, and granted some time: whether its containers have used it up. */
function ends(
  { deletionTimestamp: deadline, deletionGracePeriodSeconds = 0 }: Pod["metadata"],
  status: PodStatus | undefined,
): readonly (readonly [string, string])[] {
  if (deadline === undefined || deletionGracePeriodSeconds === 0) return [];
  return allContainerStatuses(status).flatMap(({ name, state }) => {
    const { finishedAt } = state?.terminated ?? {};
    if (finishedAt === undefined) return [];
    const isLate = Date.parse(finishedAt) >= Date.parse(deadline);
    return [[`end of ${name}`, isLate ? "when its grace was over" : "within its grace"] as const];
  });
}

/** Every leaf of an object with the way to it: `containerStatuses[main].state.waiting.reason`. */
function flatten(value: unknown, path: string): readonly (readonly [string, string])[] {
  if (Array.isArray(value))
    return value.flatMap((each: unknown, index) => flatten(each, `${path}[${keyOf(each) ?? index}]`));
  if (typeof value === "object" && value !== null)
    return Object.entries(value).flatMap(([key, each]) => flatten(each, path === "" ? key : `${path}.${key}`));
  const text = String(value);
  const view = path.endsWith("terminated.message") ? readView(text) : undefined;
  if (view === undefined) return [[path, text]];
  const container = /containerStatuses\[(.*?)\]/i.exec(path)?.[1] ?? "";
  return [...view].map(([fact, said]) => [`inside ${container}: ${fact}`, said] as const);
}

/** By which Kubernetes tells the items of a list apart. */
function keyOf(item: unknown): string | undefined {
  if (typeof item !== "object" || item === null) return undefined;
  if ("type" in item) return String(item.type);
  return "name" in item ? String(item.name) : undefined;
}
