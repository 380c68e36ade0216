import type { CgroupIoStats, Pressure } from "../../../proto/cgroup/stats.ts";
import type { InterfaceReading, UsageReading } from "../../decide/stats/readings.ts";
import type { Labels, MetricType } from "./exposition.ts";

/*
 * The metrics of `/metrics/cadvisor` that a cgroup has, with cAdvisor's names and texts (metrics/prometheus.go). cAdvisor
 * shows 0 where a figure is missing; here the sample is missing, except for the figures that only other platforms have.
 */

/** A sample's value, with the labels that it has beside those of its cgroup. */
export interface Figure {
  readonly value: number;
  readonly labels?: Labels;
}

/** What is known of one cgroup. */
export interface MeasuredCgroup {
  readonly usage: UsageReading;
  readonly interfaces?: readonly InterfaceReading[] | undefined;
  /** The name of a block device by `MAJOR:MINOR`, such as `/dev/sda`; empty if it is unknown. */
  readonly deviceName: (device: string) => string;
}

export interface CgroupMetric {
  readonly name: string;
  readonly help: string;
  readonly type: MetricType;
  readonly figures: (cgroup: MeasuredCgroup) => readonly Figure[];
  /** Without the time of the reading. */
  readonly isUntimed?: boolean;
}

const NS_PER_SECOND = 1e9;
const US_PER_SECOND = 1e6;

type Read = (usage: UsageReading) => number | undefined;

const seconds = (ns: number | undefined) => (ns === undefined ? undefined : ns / NS_PER_SECOND);

function one(type: MetricType, name: string, help: string, read: Read): CgroupMetric {
  const figures: CgroupMetric["figures"] = ({ usage }) => {
    const value = read(usage);
    return value === undefined ? [] : [{ value }];
  };
  return { name, help, type, figures };
}
const counter = (name: string, help: string, read: Read) => one("counter", name, help, read);
const gauge = (name: string, help: string, read: Read) => one("gauge", name, help, read);

/** Only of a cgroup that has a quota. */
const ofQuota =
  (read: Read): Read =>
  (usage) => {
    const quotaUs = usage.limits?.cpuMax?.quotaUs;
    return quotaUs === undefined || quotaUs === "max" ? undefined : (read(usage) ?? 0);
  };

const cpu: readonly CgroupMetric[] = [
  counter("container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.", (usage) =>
    seconds(usage.cpu?.userNs),
  ),
  counter("container_cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds.", (usage) =>
    seconds(usage.cpu?.systemNs),
  ),
  {
    name: "container_cpu_usage_seconds_total",
    help: "Cumulative cpu time consumed in seconds.",
    type: "counter",
    figures: ({ usage }) =>
      usage.cpu === undefined || usage.cpu.usageNs === 0
        ? []
        : [{ value: usage.cpu.usageNs / NS_PER_SECOND, labels: { cpu: "total" } }],
  },
  counter(
    "container_cpu_cfs_periods_total",
    "Number of elapsed enforcement period intervals.",
    ofQuota((usage) => usage.cpu?.periods),
  ),
  counter(
    "container_cpu_cfs_throttled_periods_total",
    "Number of throttled period intervals.",
    ofQuota((usage) => usage.cpu?.throttledPeriods),
  ),
  counter(
    "container_cpu_cfs_throttled_seconds_total",
    "Total time duration the container has been throttled.",
    ofQuota((usage) => seconds(usage.cpu?.throttledNs)),
  ),
  counter(
    "container_cpu_cfs_burst_periods_total",
    "Number of periods when burst occurs.",
    ofQuota((usage) => usage.cpu?.burstPeriods),
  ),
  counter(
    "container_cpu_cfs_burst_seconds_total",
    "Total time duration the container has been bursted.",
    ofQuota((usage) => seconds(usage.cpu?.burstNs)),
  ),
  // The kubelet's cAdvisor does not read these: they are always 0.
  gauge("container_cpu_load_average_10s", "Value of container cpu load average over the last 10 seconds.", () => 0),
  gauge("container_cpu_load_d_average_10s", "Value of container cpu load.d average over the last 10 seconds.", () => 0),
  {
    name: "container_tasks_state",
    help: "Number of tasks in given state",
    type: "gauge",
    figures: () =>
      ["sleeping", "running", "stopped", "uninterruptible", "iowaiting"].map((state) => ({
        value: 0,
        labels: { state },
      })),
  },
];

const memory: readonly CgroupMetric[] = [
  gauge("container_memory_cache", "Number of bytes of page cache memory.", (usage) => usage.memory?.cacheBytes),
  gauge("container_memory_rss", "Size of RSS in bytes.", (usage) => usage.memory?.rssBytes),
  gauge(
    "container_memory_kernel_usage",
    "Size of kernel memory allocated in bytes.",
    (usage) => usage.memory?.kernelBytes,
  ),
  gauge(
    "container_memory_mapped_file",
    "Size of memory mapped files in bytes.",
    (usage) => usage.memory?.mappedFileBytes,
  ),
  gauge("container_memory_swap", "Container swap usage in bytes.", (usage) => usage.swap?.usageBytes),
  counter(
    "container_memory_failcnt",
    "Number of memory usage hits limits",
    (usage) => usage.memory && (usage.memory.limitHits ?? 0),
  ),
  gauge(
    "container_memory_usage_bytes",
    "Current memory usage in bytes, including all memory regardless of when it was accessed",
    (usage) => usage.memory?.usageBytes,
  ),
  gauge(
    "container_memory_max_usage_bytes",
    "Maximum memory usage recorded in bytes",
    (usage) => usage.memory && (usage.memory.maxUsageBytes ?? 0),
  ),
  gauge(
    "container_memory_working_set_bytes",
    "Current working set in bytes.",
    (usage) => usage.memory?.workingSetBytes,
  ),
  gauge(
    "container_memory_total_active_file_bytes",
    "Current total active file in bytes.",
    (usage) => usage.memory?.activeFileBytes,
  ),
  gauge(
    "container_memory_total_inactive_file_bytes",
    "Current total inactive file in bytes.",
    (usage) => usage.memory?.inactiveFileBytes,
  ),
  {
    name: "container_memory_failures_total",
    help: "Cumulative count of memory allocation failures.",
    type: "counter",
    figures: ({ usage: { memory: found } }) =>
      ["container", "hierarchy"].flatMap((scope) => [
        ...failures("pgfault", scope, found?.pageFaults),
        ...failures("pgmajfault", scope, found?.majorPageFaults),
      ]),
  },
  counter(
    "container_oom_events_total",
    "Count of out of memory events observed for the container",
    (usage) => usage.memory && (usage.memory.oomKills ?? 0),
  ),
];

const failures = (failure_type: string, scope: string, value: number | undefined): readonly Figure[] =>
  value === undefined ? [] : [{ value, labels: { failure_type, scope } }];

function io(type: "counter", name: string, help: string, field: keyof Omit<CgroupIoStats, "device">): CgroupMetric {
  return {
    ...{ name, help, type },
    figures: ({ usage, deviceName }) =>
      (usage.io ?? []).map((stats) => ({ value: stats[field], labels: { device: deviceName(stats.device) } })),
  };
}

const disk: readonly CgroupMetric[] = [
  io("counter", "container_fs_reads_bytes_total", "Cumulative count of bytes read", "readBytes"),
  io("counter", "container_fs_reads_total", "Cumulative count of reads completed", "reads"),
  io("counter", "container_fs_writes_bytes_total", "Cumulative count of bytes written", "writtenBytes"),
  io("counter", "container_fs_writes_total", "Cumulative count of writes completed", "writes"),
  {
    name: "container_blkio_device_usage_total",
    help: "Blkio Device bytes usage",
    type: "counter",
    figures: ({ usage, deviceName }) =>
      (usage.io ?? []).flatMap(({ device, readBytes, writtenBytes }) => {
        const [major = "", minor = ""] = device.split(":");
        const labels = { device: deviceName(device), major, minor };
        return [
          { value: readBytes, labels: { ...labels, operation: "Read" } },
          { value: writtenBytes, labels: { ...labels, operation: "Write" } },
        ];
      }),
  },
];

function network(name: string, help: string, field: keyof Omit<InterfaceReading, "name">): CgroupMetric {
  return {
    ...{ name, help, type: "counter" },
    figures: ({ interfaces = [] }) =>
      interfaces.map((each) => ({ value: each[field], labels: { interface: each.name } })),
  };
}

const networks: readonly CgroupMetric[] = [
  network("container_network_receive_bytes_total", "Cumulative count of bytes received", "rxBytes"),
  network("container_network_receive_packets_total", "Cumulative count of packets received", "rxPackets"),
  network(
    "container_network_receive_packets_dropped_total",
    "Cumulative count of packets dropped while receiving",
    "rxDropped",
  ),
  network(
    "container_network_receive_errors_total",
    "Cumulative count of errors encountered while receiving",
    "rxErrors",
  ),
  network("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", "txBytes"),
  network("container_network_transmit_packets_total", "Cumulative count of packets transmitted", "txPackets"),
  network(
    "container_network_transmit_packets_dropped_total",
    "Cumulative count of packets dropped while transmitting",
    "txDropped",
  ),
  network(
    "container_network_transmit_errors_total",
    "Cumulative count of errors encountered while transmitting",
    "txErrors",
  ),
];

const processes: readonly CgroupMetric[] = [
  gauge("container_processes", "Number of processes running inside the container.", (usage) => usage.processes?.count),
  gauge(
    "container_file_descriptors",
    "Number of open file descriptors for the container.",
    (usage) => usage.processes?.descriptors,
  ),
  gauge("container_sockets", "Number of open sockets for the container.", (usage) => usage.processes?.sockets),
  gauge(
    "container_threads_max",
    "Maximum number of threads allowed inside the container, infinity if value is zero",
    ({ limits, processes: found }) => {
      if (found === undefined) return undefined;
      const max = limits?.pidsMax;
      return max === undefined || max === "max" ? 0 : max;
    },
  ),
  gauge("container_threads", "Number of threads running inside the container", (usage) => usage.processes?.threads),
  {
    name: "container_ulimits_soft",
    help: "Soft ulimit values for the container root process. Unlimited if -1, except priority and nice",
    type: "gauge",
    figures: ({ usage }) => {
      const value = usage.processes?.openFilesLimit;
      return value === undefined ? [] : [{ value, labels: { ulimit: "max_open_files" } }];
    },
  },
];

const stalled = (pressure: Pressure | undefined) => pressure && (pressure.full?.totalUs ?? 0) / US_PER_SECOND;
const waiting = (pressure: Pressure | undefined) => pressure && pressure.some.totalUs / US_PER_SECOND;

const pressures: readonly CgroupMetric[] = (
  [
    ["cpu", "CPU"],
    ["memory", "memory"],
    ["io", "IO"],
  ] as const
).flatMap(([resource, shown]) => [
  counter(
    `container_pressure_${resource}_stalled_seconds_total`,
    `Total time duration no tasks in the container could make progress due to ${shown} congestion.`,
    ({ psi }) => stalled(psi?.[resource]),
  ),
  counter(
    `container_pressure_${resource}_waiting_seconds_total`,
    `Total time duration tasks in the container have waited due to ${shown} congestion.`,
    ({ psi }) => waiting(psi?.[resource]),
  ),
]);

const untimed = (metric: CgroupMetric): CgroupMetric => ({ ...metric, isUntimed: true });
/** cAdvisor shows no limit as 0. */
const bytesOf = (limit: number | "max" | undefined) => (limit === "max" ? 0 : (limit ?? 0));

const specs: readonly CgroupMetric[] = [
  gauge(
    "container_start_time_seconds",
    "Start time of the container since unix epoch in seconds.",
    ({ startedAtMs }) => (startedAtMs === undefined ? undefined : Math.floor(startedAtMs / 1000)),
  ),
  gauge("container_spec_cpu_period", "CPU period of the container.", ({ limits }) => limits?.cpuMax?.periodUs),
  gauge(
    "container_spec_cpu_quota",
    "CPU quota of the container.",
    ofQuota(({ limits }) => Number(limits?.cpuMax?.quotaUs)),
  ),
  gauge(
    "container_spec_cpu_shares",
    "CPU share of the container.",
    ({ limits }) => limits?.cpuWeight && sharesOf(limits.cpuWeight),
  ),
  gauge(
    "container_spec_memory_limit_bytes",
    "Memory limit for the container.",
    ({ memory: found, limits }) => found && limits && bytesOf(limits.memoryMax),
  ),
  gauge(
    "container_spec_memory_swap_limit_bytes",
    "Memory swap limit for the container.",
    ({ memory: found, limits }) => found && limits && bytesOf(limits.memorySwapMax),
  ),
  gauge(
    "container_spec_memory_reservation_limit_bytes",
    "Memory reservation limit for the container.",
    ({ memory: found, limits }) => found && limits && bytesOf(limits.memoryMin),
  ),
].map(untimed);

/** `cpu.weight`, 1 to 10000, in the shares of cgroup v1, 2 to 262144. Rule: cAdvisor's convertCPUWeightToCPULimit. */
const sharesOf = (weight: number) => 2 + Math.floor(((weight - 1) * 262_142) / 9999);

/** In the order in which they are computed; the page is sorted by name. */
export const cgroupMetrics: readonly CgroupMetric[] = [
  ...[specs, cpu, memory, disk, networks, processes, pressures].flat(),
  gauge("container_health_state", "The result of the container's health check", () => -1),
];
