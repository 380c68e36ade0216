import type { Labels, MetricFamily, Sample } from "../stats/exposition.ts";

/** The definition of a metric: its type, its text, and the names of its labels, in alphabetical order. */
export interface MetricDefinition {
  readonly type: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
  /** The upper bounds of a histogram's buckets, without infinity. */
  readonly buckets?: readonly number[];
  /** Without labels: has no sample until the first one is recorded. Others without labels start at zero. */
  readonly startsEmpty?: true;
}

export type MetricDefinitions = Readonly<Record<string, MetricDefinition>>;

/** Values in the order of the definition's labels. */
type LabelValues = readonly string[];

/** The counters and histograms of this process since its start. Each call is a few operations on numbers. */
export interface MetricStore<Name extends string> {
  /** Adds to a counter. */
  add(name: Name, labelValues?: LabelValues, amount?: number): void;
  /** Adds a measurement to a histogram. */
  observe(name: Name, value: number, labelValues?: LabelValues): void;
  /** Sets a gauge, or a counter that the kernel counts. */
  set(name: Name, value: number, labelValues?: LabelValues): void;
  /** Removes all series of a metric. */
  clear(name: Name): void;
  /** Removes the series that have all these values. */
  removeSeries(name: Name, labels: Labels): void;
  /** Every metric with its samples so far, in the order of the definitions. */
  families(): readonly MetricFamily[];
}

/** A counter's or a gauge's value; for a histogram the count of each bucket, of those above, and the sum. */
type Series = { value: number } | Float64Array;

/** The value of every label beyond the limit, as with component-base's label allow lists. */
const UNEXPECTED = "unexpected";
/** No page grows beyond it, whatever containers do; a node has at most a few hundred pods. */
const MAX_SERIES = 2_000;
const SEPARATOR = "\0";

export function createMetricStore<Definitions extends MetricDefinitions>(
  definitions: Definitions,
): MetricStore<keyof Definitions & string> {
  const seriesByName = new Map<string, Map<string, Series>>();

  function seriesOf(name: string, labelValues: LabelValues): Series {
    const definition = definitionOf(name);
    const all = seriesByName.get(name) ?? new Map<string, Series>();
    seriesByName.set(name, all);
    const key = labelValues.join(SEPARATOR);
    const known = all.get(key);
    if (known !== undefined) return known;
    const isFull = all.size >= MAX_SERIES;
    const usedKey = isFull ? definition.labels.map(() => UNEXPECTED).join(SEPARATOR) : key;
    const series = all.get(usedKey) ?? emptySeries(definition);
    all.set(usedKey, series);
    return series;
  }

  function definitionOf(name: string): MetricDefinition {
    const definition = definitions[name];
    if (definition === undefined) throw new Error(`no metric is called ${name}`);
    return definition;
  }

  return {
    add(name, labelValues = [], amount = 1) {
      const series = seriesOf(name, labelValues);
      if ("value" in series) series.value += amount;
    },
    observe(name, value, labelValues = []) {
      const series = seriesOf(name, labelValues);
      const { buckets = [] } = definitionOf(name);
      if ("value" in series) return;
      const index = buckets.findIndex((bound) => value <= bound);
      const bucket = index < 0 ? buckets.length : index;
      series[bucket] = (series[bucket] ?? 0) + 1;
      series[buckets.length + 1] = (series[buckets.length + 1] ?? 0) + value;
    },
    set(name, value, labelValues = []) {
      const series = seriesOf(name, labelValues);
      if ("value" in series) series.value = value;
    },
    clear: (name) => void seriesByName.delete(name),
    removeSeries(name, labels) {
      const names = definitionOf(name).labels;
      const all = seriesByName.get(name);
      const wanted = Object.entries(labels).map(([label, value]) => [names.indexOf(label), value] as const);
      for (const key of all?.keys() ?? []) {
        const values = key.split(SEPARATOR);
        if (wanted.every(([index, value]) => values[index] === value)) all?.delete(key);
      }
    },
    families: () =>
      Object.entries(definitions).map(([name, definition]) => ({
        name,
        type: definition.type,
        help: definition.help,
        samples: samplesOf(definition, seriesByName.get(name)),
      })),
  };
}

function emptySeries({ type, buckets = [] }: MetricDefinition): Series {
  return type === "histogram" ? new Float64Array(buckets.length + 2) : { value: 0 };
}

function samplesOf(definition: MetricDefinition, series: ReadonlyMap<string, Series> = new Map()): readonly Sample[] {
  const startsAtZero = definition.labels.length === 0 && definition.startsEmpty !== true;
  if (series.size === 0) return startsAtZero ? toSamples(definition, {}, emptySeries(definition)) : [];
  return [...series]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([key, each]) => {
      const values = key.split(SEPARATOR);
      const labels = Object.fromEntries(definition.labels.map((label, index) => [label, values[index] ?? ""]));
      return toSamples(definition, labels, each);
    });
}

function toSamples({ buckets = [] }: MetricDefinition, labels: Labels, series: Series): readonly Sample[] {
  if ("value" in series) return [{ labels, value: series.value }];
  let count = 0;
  const samples: Sample[] = [...buckets, Number.POSITIVE_INFINITY].map((bound, index) => {
    count += series[index] ?? 0;
    return { suffix: "_bucket", labels, extraLabels: { le: boundText(bound) }, value: count };
  });
  return [
    ...samples,
    { suffix: "_sum", labels, value: series[buckets.length + 1] ?? 0 },
    { suffix: "_count", labels, value: count },
  ];
}

/** As Go writes the kubelet's bounds, none of which has an exponent. */
const boundText = (bound: number) => (bound === Number.POSITIVE_INFINITY ? "+Inf" : String(bound));
