import type { ContainerReading, PodReading, StatsReadings, UsageReading } from "../../decide/stats/readings.ts";
import { cgroupMetrics, type MeasuredCgroup } from "./cadvisor-table.ts";
import type { Labels, MetricFamily, Sample } from "./exposition.ts";

/** The machine, as cAdvisor's metrics show it. */
export interface MachineMetrics {
  readonly machineID: string;
  readonly systemUUID: string;
  readonly bootID: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  readonly cpuCount: number;
  readonly physicalCores: number;
  readonly sockets: number;
  readonly memoryBytes: number;
  readonly swapBytes: number;
}

interface LabelledCgroup extends Omit<MeasuredCgroup, "deviceName"> {
  readonly labels: Labels;
}

/** The page of cAdvisor for one reading; `readings` is undefined if the node could not be read. */
export function cadvisorMetrics(
  readings: StatsReadings | undefined,
  machine: MachineMetrics,
  { deviceName, nowMs }: Pick<MeasuredCgroup, "deviceName"> & { readonly nowMs: number },
): readonly MetricFamily[] {
  const cgroups = readings === undefined ? [] : labelledCgroups(readings);
  const families = cgroupMetrics.map(({ name, help, type, figures, isUntimed = false }): MetricFamily => {
    const samples: Sample[] = [];
    for (const { labels, usage, interfaces } of cgroups)
      for (const figure of figures({ usage, interfaces, deviceName }))
        samples.push({
          labels,
          ...(figure.labels && { extraLabels: figure.labels }),
          value: figure.value,
          timestampMs: isUntimed ? undefined : usage.atMs,
        });
    return { name, help, type, samples };
  });
  return [
    ...families,
    {
      name: "container_last_seen",
      help: "Last time a container was seen by the exporter",
      type: "gauge",
      samples: cgroups.map(({ labels }) => ({ labels, value: Math.floor(nowMs / 1000), timestampMs: nowMs })),
    },
    scrapeError("container", "container metrics, 0 otherwise", readings === undefined),
    ...machineMetrics(machine),
  ];
}

const scrapeError = (of: string, what: string, failed: boolean): MetricFamily => ({
  name: `${of}_scrape_error`,
  help: `1 if there was an error while getting ${what}`,
  type: "gauge",
  samples: [{ labels: {}, value: failed ? 1 : 0 }],
});

/** Each cgroup with the labels of the kubelet's containerPrometheusLabelsFunc: all of them on each, most of them empty. */
function labelledCgroups({ node, pods }: StatsReadings): readonly LabelledCgroup[] {
  const plain = (path: string, usage: UsageReading): LabelledCgroup => ({ labels: labelsOf({ id: path }), usage });
  const above = node.cgroups ?? [];
  const isAbove = new Set(["/", ...above.map(({ path }) => path)]);
  // Two daemons may share a cgroup.
  const daemons = new Map(node.systemContainers.map(({ path, usage }) => [path, usage]));
  return [
    { ...plain("/", node.usage), interfaces: node.interfaces },
    ...above.filter(({ path }) => path !== "/").map(({ path, usage }) => plain(path, usage)),
    ...[...daemons].filter(([path]) => !isAbove.has(path)).map(([path, usage]) => plain(path, usage)),
    ...pods.flatMap(cgroupsOfPod),
  ];
}

/** The pod's own cgroup, the sandbox, which has the network, and the containers. */
function cgroupsOfPod(pod: PodReading): readonly LabelledCgroup[] {
  const { name, namespace, cgroup, usage, sandbox, containers, interfaces } = pod;
  const shared = { namespace, pod: name };
  const ofContainer = (container: Omit<ContainerReading, "name">, labels: object): LabelledCgroup[] =>
    container.usage === undefined
      ? []
      : [
          {
            labels: labelsOf({
              ...shared,
              ...labels,
              id: container.cgroup ?? `/${container.id}`,
              name: container.id,
              image: container.image,
            }),
            usage: container.usage,
          },
        ];
  const ofSandbox = sandbox === undefined ? [] : ofContainer(sandbox, {});
  return [
    ...(cgroup === undefined || usage === undefined ? [] : [{ labels: labelsOf({ ...shared, id: cgroup }), usage }]),
    // Without cgroups of pods nothing is known of the sandbox but its network.
    ...(ofSandbox.length > 0 ? ofSandbox.map((each) => ({ ...each, interfaces })) : sandboxNetwork(shared, pod)),
    ...containers.flatMap((container) => ofContainer(container, { container: container.name })),
  ];
}

function sandboxNetwork(shared: object, { sandbox, interfaces, usage }: PodReading): readonly LabelledCgroup[] {
  if (sandbox === undefined || interfaces === undefined || usage === undefined) return [];
  const labels = labelsOf({ ...shared, id: `/${sandbox.id}`, name: sandbox.id, image: sandbox.image });
  return [{ labels, interfaces, usage: { atMs: usage.atMs } }];
}

const labelsOf = (
  known: Partial<Record<"container" | "id" | "image" | "name" | "namespace" | "pod", string>>,
): Labels => ({
  ...{ container: "", id: "", image: "", name: "", namespace: "", pod: "" },
  ...known,
});

function machineMetrics(machine: MachineMetrics): readonly MetricFamily[] {
  const { machineID: machine_id, systemUUID: system_uuid, bootID: boot_id } = machine;
  const labels = { machine_id, system_uuid, boot_id };
  const gauge = (name: string, help: string, ...samples: readonly Omit<Sample, "labels">[]): MetricFamily => ({
    ...{ name, help, type: "gauge" },
    samples: samples.map((sample) => ({ labels, ...sample })),
  });
  return [
    {
      name: "cadvisor_version_info",
      help: "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version & cadvisor revision.",
      type: "gauge",
      samples: [
        {
          labels: {
            ...{ cadvisorRevision: "", cadvisorVersion: "", dockerVersion: "" },
            kernelVersion: machine.kernelVersion,
            osVersion: machine.osImage,
          },
          value: 1,
        },
      ],
    },
    gauge("machine_cpu_physical_cores", "Number of physical CPU cores.", { value: machine.physicalCores }),
    gauge("machine_cpu_cores", "Number of logical CPU cores.", { value: machine.cpuCount }),
    gauge("machine_cpu_sockets", "Number of CPU sockets.", { value: machine.sockets }),
    // Only mainframes have books and drawers, and NVDIMMs have no maker any more.
    gauge("machine_cpu_books", "Number of CPU books.", { value: 0 }),
    gauge("machine_cpu_drawers", "Number of CPU drawers.", { value: 0 }),
    gauge("machine_memory_bytes", "Amount of memory installed on the machine.", { value: machine.memoryBytes }),
    gauge("machine_swap_bytes", "Amount of swap memory available on the machine.", { value: machine.swapBytes }),
    gauge(
      "machine_nvm_capacity",
      "NVM capacity value labeled by NVM mode (memory mode or app direct mode).",
      { value: 0, extraLabels: { mode: "app_direct_mode" } },
      { value: 0, extraLabels: { mode: "memory_mode" } },
    ),
    gauge("machine_nvm_avg_power_budget_watts", "NVM power budget.", { value: 0 }),
    scrapeError("machine", "machine metrics, 0 otherwise.", false),
  ];
}
