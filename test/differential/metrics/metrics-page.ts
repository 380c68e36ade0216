/** A metric as a page declares it, with the names of its labels and the bounds of its buckets. */
export interface DeclaredMetric {
  readonly type: string;
  readonly help: string;
  /** Sorted; `le` is left out. */
  readonly labels: readonly string[];
  /** Those of a histogram, as written. */
  readonly buckets?: readonly string[];
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Reads a page in the text format: each metric by name. Fails on a line that belongs to none. */
export function readMetricsPage(text: string): Readonly<Record<string, DeclaredMetric>> {
  const found = new Map<string, { type: string; help: string; labels: Set<string>; buckets: Set<string> }>();
  for (const line of text.split("\n").filter((each) => each !== "")) {
    const [, keyword, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    const [, sample = "", labels = ""] = SAMPLE.exec(line) ?? [];
    if (keyword === "HELP") found.set(name, { type: "", help: rest, labels: new Set(), buckets: new Set() });
    const metric = found.get(name) ?? found.get(sample) ?? found.get(sample.replace(/_(bucket|sum|count)$/, ""));
    if (metric === undefined) throw new Error(`this line belongs to no metric: ${line}`);
    if (keyword === "TYPE") metric.type = rest;
    for (const [, label = "", value = ""] of labels.matchAll(LABEL))
      if (label === "le") metric.buckets.add(value);
      else metric.labels.add(label);
  }
  return Object.fromEntries(
    [...found].map(([name, { type, help, labels, buckets }]) => [
      name,
      { type, help, labels: [...labels].toSorted(), ...(buckets.size > 0 && { buckets: [...buckets] }) },
    ]),
  );
}
