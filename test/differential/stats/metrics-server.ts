/*
 * What metrics-server makes of `/metrics/resource`, and so what `kubectl top` shows. The rules are those of decodeBatch
 * (pkg/scraper/client/resource) and of podStorage and nodeStorage (pkg/storage) in kubernetes-sigs/metrics-server.
 */

const MS_PER_SECOND = 1000;
const NS_PER_SECOND = 1e9;
/** A new container has to be this old for the first scrape to count; until then its second scrape does. */
const MIN_FRESH_MS = 10_000;

/** What one scrape says of the node or of a container. */
export interface MetricsPoint {
  /** undefined for the node, and for a container without `container_start_time_seconds`. */
  readonly startMs?: number;
  readonly atMs: number;
  readonly cpuNs: number;
  readonly memoryBytes: number;
}

/** One scrape. */
export interface MetricsBatch {
  /** undefined if its CPU time or its memory is missing or 0. */
  readonly node: MetricsPoint | undefined;
  /** By `NAMESPACE/POD`, then by container. A pod is missing if the CPU time or memory of one of its containers is, or is 0. */
  readonly pods: ReadonlyMap<string, ReadonlyMap<string, MetricsPoint>>;
}

/** What `kubectl top` shows. */
export interface Usage {
  readonly cpuNanoCores: number;
  readonly memoryBytes: number;
}

interface Sample {
  /** `node` or `container`. */
  readonly subject: string;
  readonly metric: string;
  readonly labels: string;
  readonly value: number;
  readonly timeMs: number | undefined;
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: (-?\d+))?$/;

function parseSample(line: string): Sample {
  const [match, name = "", labels = "", value, time] = SAMPLE.exec(line) ?? [];
  if (match === undefined) throw new Error(`no sample of the text format: ${line}`);
  const [, subject = "", metric = ""] = /^(node|container)_(.*)$/.exec(name) ?? [];
  return { subject, metric, labels, value: Number(value), timeMs: time === undefined ? undefined : Number(time) };
}

/** What a sample changes of its point, or undefined if metrics-server does not read it. */
function changeOf({ subject, metric, value, timeMs }: Sample, scrapedAtMs: number): Partial<MetricsPoint> | undefined {
  const atMs = timeMs ?? scrapedAtMs;
  if (metric === "cpu_usage_seconds_total") return { atMs, cpuNs: Math.trunc(value * NS_PER_SECOND) };
  if (metric === "memory_working_set_bytes") return { atMs, memoryBytes: Math.trunc(value) };
  // A point has the time of its last sample.
  if (metric === "swap_usage_bytes") return { atMs };
  if (subject === "container" && metric === "start_time_seconds") return { startMs: value * MS_PER_SECOND };
  return undefined;
}

const EMPTY: MetricsPoint = { atMs: 0, cpuNs: 0, memoryBytes: 0 };
const isComplete = ({ cpuNs, memoryBytes }: MetricsPoint) => cpuNs > 0 && memoryBytes > 0;
const labelOf = (labels: string, name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(labels)?.[1] ?? "";

/**
 * Reads a page of the text format. `scrapedAtMs` is the time of samples without one. Throws for a line that is no sample
 * and no comment.
 */
export function decodeBatch(page: string, scrapedAtMs: number): MetricsBatch {
  let node = EMPTY;
  const pods = new Map<string, Map<string, MetricsPoint>>();
  for (const line of page.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const sample = parseSample(line);
    const change = changeOf(sample, scrapedAtMs);
    if (change === undefined) continue;
    if (sample.subject === "node") node = { ...node, ...change };
    if (sample.subject !== "container") continue;
    const [namespace, pod, container = ""] = ["namespace", "pod", "container"].map((name) =>
      labelOf(sample.labels, name),
    );
    const containers = pods.get(`${namespace}/${pod}`) ?? new Map<string, MetricsPoint>();
    pods.set(`${namespace}/${pod}`, containers);
    containers.set(container, { ...(containers.get(container) ?? EMPTY), ...change });
  }
  return {
    node: isComplete(node) ? node : undefined,
    pods: new Map([...pods].filter(([, containers]) => [...containers.values()].every(isComplete))),
  };
}

/**
 * The usage of each container after two scrapes, by `NAMESPACE/POD/CONTAINER`, and of the node by `node`. Without an entry:
 * what metrics-server has no two points of one instance of, with rising times. `resolutionMs` is the time between its
 * scrapes. Throws if the CPU time of an instance has decreased, which metrics-server logs as an error.
 */
export function usageBetween(
  previous: MetricsBatch,
  latest: MetricsBatch,
  resolutionMs: number,
): ReadonlyMap<string, Usage> {
  const points = (batch: MetricsBatch) =>
    new Map([
      ...(batch.node === undefined ? [] : [["node", batch.node] as const]),
      ...[...batch.pods].flatMap(([pod, containers]) =>
        [...containers].map(([name, point]) => [`${pod}/${name}`, point] as const),
      ),
    ]);
  const before = points(previous);
  return new Map(
    [...points(latest)].flatMap(([name, point]) => {
      const first = firstPointOf(point, before.get(name), resolutionMs);
      return first === undefined ? [] : [[name, usageOf(name, first, point)] as const];
    }),
  );
}

/** The point that the latest one is compared with. */
function firstPointOf(
  latest: MetricsPoint,
  stored: MetricsPoint | undefined,
  resolutionMs: number,
): MetricsPoint | undefined {
  const { startMs, atMs } = latest;
  const ageMs = startMs === undefined ? Number.POSITIVE_INFINITY : atMs - startMs;
  if (startMs !== undefined && ageMs >= MIN_FRESH_MS && ageMs < resolutionMs)
    return { ...latest, atMs: startMs, cpuNs: 0 };
  const isSameInstance = stored !== undefined && (startMs ?? Number.NEGATIVE_INFINITY) < stored.atMs;
  return isSameInstance && atMs > stored.atMs ? stored : undefined;
}

function usageOf(name: string, first: MetricsPoint, latest: MetricsPoint): Usage {
  if (latest.cpuNs < first.cpuNs)
    throw new Error(`the CPU time of ${name} has decreased: ${first.cpuNs} ns, ${latest.cpuNs} ns`);
  const seconds = (latest.atMs - first.atMs) / MS_PER_SECOND;
  return { cpuNanoCores: (latest.cpuNs - first.cpuNs) / seconds, memoryBytes: latest.memoryBytes };
}
