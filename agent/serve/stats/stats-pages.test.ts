import { describe, expect, test } from "bun:test";
import { isKnown, metricsOfKubeletAlone } from "../../../test/differential/stats/known-stats-differences.ts";
import { fieldPaths, metricShapes, missingIn, recordedPage } from "../../../test/differential/stats/page-shape.ts";
import { examplePod, exampleReadings, exampleUsage } from "../../../test/fakes/stats-readings.ts";
import type { StatsReadings } from "../../decide/stats/readings.ts";
import { toSummary } from "../../decide/stats/summary.ts";
import { cadvisorMetrics, type MachineMetrics } from "./cadvisor-metrics.ts";
import { formatExposition } from "./exposition.ts";
import { resourceMetrics } from "./resource-metrics.ts";

const machine: MachineMetrics = {
  ...{ machineID: "m", systemUUID: "s", bootID: "b", kernelVersion: "6.1", osImage: "Debian" },
  ...{ cpuCount: 4, physicalCores: 2, sockets: 1, memoryBytes: 1e9, swapBytes: 0 },
};
const deviceName = (device: string) => (device === "8:0" ? "/dev/sda" : "");
const cadvisorPage = (readings: StatsReadings | undefined) =>
  formatExposition(cadvisorMetrics(readings, machine, { deviceName, nowMs: 1_700_000_000_999 }), "text");
const resourcePage = (readings: StatsReadings | undefined) => formatExposition(resourceMetrics(readings), "text");
const linesOf = (page: string, name: string) =>
  page.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));

describe("/metrics/resource", () => {
  test("has the metrics, texts, types, labels and times of the kubelet", () => {
    expect(metricShapes(resourcePage(exampleReadings))).toEqual(metricShapes(recordedPage("resource.txt")));
  });

  test("has the figures in seconds and bytes", () => {
    const page = resourcePage(exampleReadings);
    expect(linesOf(page, "container_cpu_usage_seconds_total")).toEqual([
      'container_cpu_usage_seconds_total{container="main",namespace="shop",pod="web"} 3.5 1767355200250',
    ]);
    expect(linesOf(page, "container_start_time_seconds")).toEqual([
      'container_start_time_seconds{container="main",namespace="shop",pod="web"} 1.76735510975e+09',
    ]);
    expect(linesOf(page, "pod_memory_working_set_bytes")).toEqual([
      'pod_memory_working_set_bytes{namespace="shop",pod="web"} 8e+06 1767355200250',
    ]);
    expect(linesOf(page, "container_swap_limit_bytes")[0]).toEndWith(" 4096 1767355200250");
    expect(linesOf(page, "node_cpu_usage_seconds_total")).toEqual(["node_cpu_usage_seconds_total 3.5 1767355200250"]);
  });

  test("says that the node could not be read", () => {
    expect(linesOf(resourcePage(undefined), "resource_scrape_error")).toEqual(["resource_scrape_error 1"]);
    expect(metricShapes(resourcePage(undefined)).size).toBe(1);
  });

  test("leaves out a pod without running containers, and figures that are unknown", () => {
    const pods = [
      { ...examplePod, name: "ended", containers: [] },
      {
        ...examplePod,
        usage: { atMs: 1 },
        containers: examplePod.containers.map((each) => ({ ...each, usage: undefined })),
      },
    ];
    const page = resourcePage({ ...exampleReadings, pods });
    expect(page).not.toContain("ended");
    expect(linesOf(page, "pod_cpu_usage_seconds_total")).toEqual([]);
    expect(linesOf(page, "container_start_time_seconds")).toHaveLength(1);
  });
});

describe("/metrics/cadvisor", () => {
  const kubelet = metricShapes(recordedPage("cadvisor.txt"), ({ id = "/" }) => id === "/");
  const berth = metricShapes(cadvisorPage(exampleReadings));

  test("has every metric of the kubelet's page, but for known ones of the root alone", () => {
    expect(missingIn(kubelet.keys(), berth.keys()).filter((name) => !isKnown(metricsOfKubeletAlone, name))).toEqual([]);
  });

  test("has the kubelet's texts, types and labels", () => {
    // Of a quota only a container has metrics; the kubelet's page has those of other cgroups of the machine.
    const all = metricShapes(recordedPage("cadvisor.txt"));
    for (const [name, shape] of berth) {
      const expected = all.get(name);
      if (expected === undefined) continue;
      expect({ name, help: shape.help, type: shape.type, isTimed: shape.isTimed }).toEqual({
        ...{ name, help: expected.help, type: expected.type, isTimed: expected.isTimed },
      });
      expect({ name, unknown: missingIn(shape.labels, expected.labels) }).toEqual({ name, unknown: [] });
    }
  });

  test("a container has its id, image and pod; a sandbox the network; a pod and a slice neither", () => {
    const page = cadvisorPage(exampleReadings);
    const pod = "/kubepods.slice/kubepods-pod1234.slice";
    const [slice, own, sandbox, main] = [
      'container="",cpu="total",id="/kubepods.slice",image="",name="",namespace="",pod=""',
      `container="",cpu="total",id="${pod}",image="",name="",namespace="shop",pod="web"`,
      `container="",cpu="total",id="${pod}/cri-containerd-5a.scope",image="",name="5a",namespace="shop",pod="web"`,
      `container="main",cpu="total",id="${pod}/cri-containerd-c1.scope",image="docker.io/library/nginx:1",name="c1",namespace="shop",pod="web"`,
    ];
    const usage = linesOf(page, "container_cpu_usage_seconds_total");
    for (const labels of [slice, own, sandbox, main])
      expect(usage).toContain(`container_cpu_usage_seconds_total{${labels}} 3.5 1767355200250`);
    const received = linesOf(page, "container_network_receive_bytes_total");
    expect(received.map((line) => /id="([^"]*)".*interface="([^"]*)"/.exec(line)?.slice(1))).toEqual([
      ["/", "eth0"],
      [`${pod}/cri-containerd-5a.scope`, "net1"],
      [`${pod}/cri-containerd-5a.scope`, "eth0"],
    ]);
    expect(linesOf(page, "container_start_time_seconds")[0]).not.toMatch(/ \d{13}$/);
  });

  const readByRules = [
    "container_cpu_usage_seconds_total",
    ...["working_set_bytes", "rss", "cache", "swap"].map((kind) => `container_memory_${kind}`),
  ];
  for (const name of readByRules)
    test(`${name}, which recording rules of the kubernetes-mixin read, has the image of each container and sandbox`, () => {
      const sandbox = { ...examplePod.sandbox!, image: "registry.k8s.io/pause:3.10" };
      const page = cadvisorPage({ ...exampleReadings, pods: [{ ...examplePod, sandbox }] });
      const images = linesOf(page, name).flatMap((line) =>
        [...line.matchAll(/container="([^"]*)".*image="([^"]+)"/g)].map(([, container, image]) => [container, image]),
      );
      expect(images).toEqual([
        ["", "registry.k8s.io/pause:3.10"],
        ["main", "docker.io/library/nginx:1"],
      ]);
    });

  test("a cgroup that several daemons share has each metric once", () => {
    const { node } = exampleReadings;
    const [kubelet, pods] = node.systemContainers;
    const shared = ["runtime", "misc"] as const;
    const systemContainers = [kubelet!, ...shared.map((name) => ({ ...kubelet!, name })), pods!];
    expect(cadvisorPage({ ...exampleReadings, node: { ...node, systemContainers } })).toBe(
      cadvisorPage(exampleReadings),
    );
  });

  const rows: readonly (readonly [name: string, value: string])[] = [
    ["container_spec_cpu_quota", "20000"],
    ["container_spec_cpu_period", "100000"],
    ["container_spec_cpu_shares", "2046"],
    ["container_spec_memory_limit_bytes", "6.7108864e+07"],
    ["container_cpu_cfs_throttled_seconds_total", "0.5 1767355200250"],
    ["container_memory_working_set_bytes", "8e+06 1767355200250"],
    ["container_memory_failcnt", "3 1767355200250"],
    ["container_oom_events_total", "1 1767355200250"],
    ["container_pressure_cpu_waiting_seconds_total", "2 1767355200250"],
    ["container_pressure_io_stalled_seconds_total", "1 1767355200250"],
    ["container_threads_max", "0 1767355200250"],
    ["container_processes", "2 1767355200250"],
    ["container_fs_writes_bytes_total", "8192 1767355200250"],
  ];
  for (const [name, value] of rows)
    test(`${name} of a container is ${value}`, () => {
      const line = linesOf(cadvisorPage(exampleReadings), name).find((each) => each.includes('container="main"'));
      expect(line).toEndWith(`} ${value}`);
    });

  test("a container without a quota has no metrics of it", () => {
    const usage = {
      ...exampleUsage,
      limits: { ...exampleUsage.limits, cpuMax: { quotaUs: "max" as const, periodUs: 1 } },
    };
    const readings = {
      ...exampleReadings,
      pods: [{ ...examplePod, containers: examplePod.containers.map((each) => ({ ...each, usage })) }],
    };
    const quota = linesOf(cadvisorPage(readings), "container_cpu_cfs_periods_total");
    expect(quota.filter((line) => line.includes('container="main"'))).toEqual([]);
  });

  test("where the figures are the runtime's, a sandbox has its network alone", () => {
    const { cgroup: _cgroup, sandbox: _sandbox, ...pod } = examplePod;
    const sandbox = { id: "5a", image: "", createdAtMs: 0 };
    const page = cadvisorPage({ ...exampleReadings, pods: [{ ...pod, sandbox }] });
    expect(linesOf(page, "container_network_transmit_bytes_total").join("\n")).toContain('id="/5a"');
    expect(linesOf(page, "container_cpu_usage_seconds_total").join("\n")).not.toContain('id="/5a"');
  });

  test("a node that could not be read has the machine's metrics, and says so", () => {
    const page = cadvisorPage(undefined);
    expect(linesOf(page, "container_scrape_error")).toEqual(["container_scrape_error 1"]);
    expect(linesOf(page, "machine_cpu_cores")).toEqual([
      'machine_cpu_cores{boot_id="b",machine_id="m",system_uuid="s"} 4',
    ]);
  });
});

describe("/stats/summary", () => {
  test("has the fields of the kubelet, in its order", () => {
    const kubelet = JSON.parse(recordedPage("summary.json")) as { readonly node: object };
    const berth = JSON.parse(JSON.stringify(toSummary("node-a", exampleReadings, "all"))) as { readonly node: object };
    expect(missingIn(fieldPaths(kubelet), fieldPaths(berth))).toEqual([]);
    const shared = (paths: readonly string[], others: readonly string[]) =>
      paths.filter((path) => others.includes(path));
    const [ofKubelet, ofBerth] = [fieldPaths(kubelet.node), fieldPaths(berth.node)];
    expect(shared(ofBerth, ofKubelet)).toEqual(shared(ofKubelet, ofBerth) as string[]);
  });

  test("only_cpu_and_memory has the fields of the kubelet", () => {
    const kubelet: unknown = JSON.parse(recordedPage("summary-cpu-and-memory.json"));
    const berth: unknown = JSON.parse(JSON.stringify(toSummary("node-a", exampleReadings, "cpu-and-memory")));
    expect(missingIn(fieldPaths(kubelet), fieldPaths(berth))).toEqual([]);
  });
});
