import { readFileSync } from "node:fs";
import { join } from "node:path";

const GOLDEN = join(import.meta.dirname, "../../golden/kubelet-stats");

/** A page that the reference kubelet gave, see record-stats.ts. */
export const recordedPage = (file: string): string => readFileSync(join(GOLDEN, file), "utf8");

/** What a page of metrics says of one metric, apart from its values. */
export interface MetricShape {
  readonly help: string;
  readonly type: string;
  /** The sets of the names of labels that its samples have, each joined with commas. */
  readonly labels: ReadonlySet<string>;
  /** Whether its samples have the time of their reading. */
  readonly isTimed: boolean;
}

const SAMPLE = /^(\w+)(?:\{(.*)\})? (\S+)(?: (\d+))?$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** The metrics of a page in the text format, of those samples whose labels `isIncluded` accepts. */
export function metricShapes(
  page: string,
  isIncluded: (labels: Readonly<Record<string, string>>) => boolean = () => true,
): ReadonlyMap<string, MetricShape> {
  const shapes = new Map<string, MetricShape & { readonly labels: Set<string> }>();
  const helps = new Map<string, string>();
  const types = new Map<string, string>();
  for (const line of page.split("\n")) {
    const [, kind = "", of = "", text = ""] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (kind !== "") (kind === "HELP" ? helps : types).set(of, text);
    const [, name = "", labelText = "", , time] = SAMPLE.exec(line) ?? [];
    if (name === "") continue;
    const labels = Object.fromEntries([...labelText.matchAll(LABEL)].map(([, key = "", value = ""]) => [key, value]));
    if (!isIncluded(labels)) continue;
    const shape = shapes.get(name) ?? {
      help: helps.get(name) ?? "",
      type: types.get(name) ?? "",
      labels: new Set<string>(),
      isTimed: time !== undefined,
    };
    shape.labels.add(Object.keys(labels).join(","));
    shapes.set(name, shape);
  }
  return shapes;
}

/** The paths of all fields of a JSON value in their order: `pods[].containers[].cpu.time`. */
export function fieldPaths(value: unknown): readonly string[] {
  return [...new Set(fieldsOf(value).map(([path]) => path))];
}

/** All fields of a JSON value in their order, each with its path as of {@link fieldPaths}. Elements of a list have one path. */
export function fieldsOf(value: unknown, prefix = ""): readonly (readonly [path: string, value: unknown])[] {
  if (Array.isArray(value)) return value.flatMap((each) => fieldsOf(each, `${prefix}[]`));
  if (typeof value !== "object" || value === null) return [[prefix, value]];
  return Object.entries(value).flatMap(([key, each]) => fieldsOf(each, prefix === "" ? key : `${prefix}.${key}`));
}

/** The values of one list that the other does not have, as lines. */
export const missingIn = (has: Iterable<string>, lacks: Iterable<string>): readonly string[] => {
  const known = new Set(lacks);
  return [...has].filter((each) => !known.has(each)).toSorted();
};
