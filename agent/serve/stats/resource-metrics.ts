import type { StatsReadings, UsageReading } from "../../decide/stats/readings.ts";
import type { Labels, MetricFamily, MetricType, Sample } from "./exposition.ts";

/*
 * `/metrics/resource`, which metrics-server reads. Names and texts are those of the kubelet's resource_metrics.go; its
 * component-base puts the stability of a metric in front of its text.
 */

const NS_PER_SECOND = 1e9;

/** A figure of a reading, or undefined where there is none. */
type Figure = (usage: UsageReading) => number | undefined;

const cpuSeconds: Figure = ({ cpu }) => cpu && cpu.usageNs / NS_PER_SECOND;
const workingSet: Figure = ({ memory }) => memory?.workingSetBytes;
const swapUsage: Figure = ({ swap }) => swap?.usageBytes;
const swapLimit: Figure = ({ swap }) =>
  swap?.availableBytes === undefined ? undefined : swap.availableBytes + (swap.usageBytes ?? 0);

/** Of what a metric is measured. */
type Subject = "node" | "container" | "pod";

interface ResourceMetric {
  readonly of: Subject;
  readonly name: string;
  readonly help: string;
  readonly type: MetricType;
  readonly figure: Figure;
}

const CPU_NAME = "cpu_usage_seconds_total";
const MEMORY_NAME = "memory_working_set_bytes";
const SWAP_NAME = "swap_usage_bytes";
const NOT_ON_WINDOWS = "Reported only on non-windows systems";

const cpuMetric = (of: Subject): ResourceMetric => ({
  ...{ of, name: `${of}_${CPU_NAME}`, type: "counter", figure: cpuSeconds },
  help: `[STABLE] Cumulative cpu time consumed by the ${of} in core-seconds`,
});
const memoryMetric = (of: Subject): ResourceMetric => ({
  ...{ of, name: `${of}_${MEMORY_NAME}`, type: "gauge", figure: workingSet },
  help: `[STABLE] Current working set of the ${of} in bytes`,
});
const swapMetric = (of: "container" | "pod", what: "usage" | "limit", figure: Figure): ResourceMetric => ({
  ...{ of, name: `${of}_swap_${what}_bytes`, type: "gauge", figure },
  help: `[ALPHA] Current amount of the ${of} swap ${what} in bytes. ${NOT_ON_WINDOWS}`,
});

const metrics: readonly ResourceMetric[] = [
  ...(["node", "container", "pod"] as const).flatMap((of) => [cpuMetric(of), memoryMetric(of)]),
  {
    ...{ of: "node", name: `node_${SWAP_NAME}`, type: "gauge", figure: swapUsage },
    help: `[ALPHA] Current swap usage of the node in bytes. ${NOT_ON_WINDOWS}`,
  },
  swapMetric("container", "usage", swapUsage),
  swapMetric("container", "limit", swapLimit),
  swapMetric("pod", "usage", swapUsage),
];

/** The page for one reading; `undefined` if the node could not be read. */
export function resourceMetrics(readings: StatsReadings | undefined): readonly MetricFamily[] {
  const scrapeError: MetricFamily = {
    name: "resource_scrape_error",
    help: "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
    type: "gauge",
    samples: [{ labels: {}, value: readings === undefined ? 1 : 0 }],
  };
  if (readings === undefined) return [scrapeError];
  const pods = readings.pods.filter(({ containers }) => containers.length > 0);
  const containers = pods.flatMap(({ name: pod, namespace, containers: own }) =>
    own.map((each) => ({ ...each, labels: { container: each.name, namespace, pod } })),
  );
  const measured: Readonly<Record<Subject, readonly Measured[]>> = {
    node: [{ labels: {}, usage: readings.node.usage }],
    container: containers,
    pod: pods.map(({ name: pod, namespace, usage }) => ({ labels: { namespace, pod }, usage })),
  };
  return [
    ...metrics.map(({ of, name, help, type, figure }) => ({
      ...{ name, help, type },
      samples: measured[of].flatMap((each) => toSamples(each, figure)),
    })),
    {
      name: "container_start_time_seconds",
      help: "[STABLE] Start time of the container since unix epoch in seconds",
      type: "gauge",
      samples: containers.map(({ labels, createdAtMs }) => ({ labels, value: createdAtMs / 1000 })),
    },
    scrapeError,
  ];
}

interface Measured {
  readonly labels: Labels;
  readonly usage?: UsageReading | undefined;
}

function toSamples({ labels, usage }: Measured, figure: Figure): readonly Sample[] {
  const value = usage && figure(usage);
  return value === undefined ? [] : [{ labels, value, timestampMs: usage?.atMs }];
}
