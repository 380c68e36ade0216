// What the recordings of the kubelet show of a pod, as lines of text, and whether they show an observable.

import type { CgroupRecording, RecordedBatch } from "./cgroups/cgroup-recording.ts";
import type { KubeletRows } from "./compare.ts";

/** What an observable begins with that no line may have. */
const WITHOUT = "without ";

/**
 * The lines `FIELD = VALUE` of a pod: the rows that every recorded run of the kubelet has. A row with several values is
 * an array with a line for each.
 */
export function linesOfRows(rows: KubeletRows): readonly (readonly string[])[] {
  return [...rows].flatMap(([field, values]) => {
    const lines = values.flatMap((value) => (value === undefined ? [] : [`${field} = ${value}`]));
    return lines.length < values.length ? [] : [lines];
  });
}

/**
 * The lines of a pod's cgroups and of its status: `cgroup PATH: FILE = VALUE` of the pod's own cgroup,
 * `cgroup CONTAINER: FILE = VALUE`, and `status CONTAINER.FIELD = VALUE`. Each driver has a value of its own.
 */
export function linesOfCgroups(recordings: readonly CgroupRecording[], pod: string): readonly (readonly string[])[] {
  const ofDrivers = recordings.map((recording) => cgroupLines(recording, pod));
  const [first = new Map<string, string>()] = ofDrivers;
  return [...first.keys()].flatMap((field) => {
    const lines = ofDrivers.flatMap((each) => (each.has(field) ? [`${field} = ${each.get(field)}`] : []));
    return lines.length < recordings.length ? [] : [lines];
  });
}

function cgroupLines({ batches }: CgroupRecording, pod: string): ReadonlyMap<string, string> {
  const own = Object.values(batches).filter(({ pods }) => pod in pods);
  return new Map(own.flatMap((batch) => [...filesIn(batch, pod), ...statusIn(batch, pod)]));
}

function filesIn({ pods, cgroups }: RecordedBatch, pod: string): readonly (readonly [string, string])[] {
  const qosClass = pods[pod]?.qosClass.toLowerCase();
  const own = qosClass === "guaranteed" ? `kubepods/${pod}` : `kubepods/${qosClass}/${pod}`;
  return Object.entries(cgroups).flatMap(([path, files]) => {
    const cgroup = path === own ? path : path.startsWith(`${own}/`) ? path.slice(own.length + 1) : undefined;
    if (cgroup === undefined) return [];
    return Object.entries(files).map(([file, value]) => [`cgroup ${cgroup}: ${file}`, value] as const);
  });
}

function statusIn({ pods }: RecordedBatch, pod: string): readonly (readonly [string, string])[] {
  return Object.entries(pods[pod]?.status.containers ?? {}).flatMap(([name, status]) =>
    flatten(status, `status ${name}`),
  );
}

function flatten(value: unknown, path: string): readonly (readonly [string, string])[] {
  if (typeof value !== "object" || value === null) return [[path, String(value)]];
  return Object.entries(value).flatMap(([key, each]) => flatten(each, `${path}.${key}`));
}

/**
 * Whether the lines have the text of an observable, all values of one field alike. The text ends where a word or number ends:
 * `exitCode = 1` is not in `exitCode = 137`. An observable `without TEXT` is shown where no line has the text.
 */
export function showsObservable(lines: readonly (readonly string[])[], observable: string): boolean {
  if (observable.startsWith(WITHOUT))
    return !lines.flat().some((line) => line.includes(observable.slice(WITHOUT.length)));
  return lines.some((values) => values.every((line) => hasTextToWordEnd(line, observable)));
}

function hasTextToWordEnd(line: string, text: string): boolean {
  for (let at = line.indexOf(text); at >= 0; at = line.indexOf(text, at + 1))
    if (!/^\w/.test(line.slice(at + text.length)) || !/\w$/.test(text)) return true;
  return false;
}
