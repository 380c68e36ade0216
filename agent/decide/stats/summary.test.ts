import { describe, expect, test } from "bun:test";
import { examplePod, exampleReadings, exampleUsage } from "../../../test/fakes/stats-readings.ts";
import type { PodReading } from "./readings.ts";
import { toSummary } from "./summary.ts";

const TIME = "2026-01-02T12:00:00Z";
/** As a client receives it: fields that are undefined are left out. */
const received = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const podOf = (change: Partial<PodReading>) =>
  toSummary("node-a", { ...exampleReadings, pods: [{ ...examplePod, ...change }] }, "all").pods[0];

test("the summary of a node has its own figures, file systems, tasks and system containers", () => {
  const { node } = toSummary("node-a", exampleReadings, "all");
  expect(received(node)).toMatchObject({
    nodeName: "node-a",
    startTime: "2026-01-02T11:58:30Z",
    cpu: { time: TIME, usageNanoCores: 20_000_000, usageCoreNanoSeconds: 3.5e9, psi: { full: { total: 1_000_000 } } },
    memory: {
      availableBytes: 59_108_864,
      workingSetBytes: 8_000_000,
      rssBytes: 5_000_000,
      psi: { some: { avg10: 1.5 } },
    },
    io: { time: TIME, psi: { some: { total: 2_000_000 } } },
    network: { time: TIME, name: "eth0", rxBytes: 1000, interfaces: [{ name: "eth0", txErrors: 3 }] },
    fs: { usedBytes: 3e8, availableBytes: 6e8, inodesUsed: 100 },
    runtime: { imageFs: { usedBytes: 5e7, inodesUsed: 50 }, containerFs: { usedBytes: 6e7 } },
    rlimit: { time: TIME, maxpid: 32_768, curproc: 300 },
    swap: { time: TIME, swapAvailableBytes: 0, swapUsageBytes: 4096 },
    systemContainers: [{ name: "kubelet" }, { name: "pods", cpu: { usageNanoCores: 20_000_000 } }],
  });
});

test("a pod has its own figures and those of its containers, and the interface eth0 before all", () => {
  expect(received(podOf({}))).toMatchObject({
    podRef: { name: "web", namespace: "shop", uid: "1234" },
    startTime: "2026-01-02T11:58:20Z",
    containers: [
      {
        name: "main",
        startTime: "2026-01-02T11:58:29Z",
        rootfs: { usedBytes: 28_672, capacityBytes: 1e9, inodesUsed: 10 },
        logs: { usedBytes: 4096, capacityBytes: 1e9, inodesUsed: 1 },
      },
    ],
    network: { name: "eth0", txBytes: 2000, interfaces: [{ name: "net1" }, { name: "eth0" }] },
    process_stats: { process_count: 2 },
  });
});

test("volumes on the node's disk come first, a claim is named, and what is not measured is left out", () => {
  expect(received(podOf({})?.volume)).toMatchObject([
    { name: "scratch", usedBytes: 8192 },
    { name: "claimed", usedBytes: 1e6, pvcRef: { name: "data", namespace: "shop" } },
  ]);
});

test("ephemeral storage is layers, logs, volumes on the node's disk and the pod's other files, at the latest time", () => {
  expect(podOf({})?.["ephemeral-storage"]).toEqual({
    time: "2026-01-02T12:00:01Z",
    availableBytes: 6e8,
    capacityBytes: 1e9,
    usedBytes: 28_672 + 4096 + 8192 + 100,
    inodesFree: 900,
    inodes: 1000,
    inodesUsed: 10 + 1 + 10 + 1,
  });
});

describe("only_cpu_and_memory", () => {
  test("leaves out everything else but swap", () => {
    const { node, pods } = received(toSummary("node-a", exampleReadings, "cpu-and-memory")) as {
      readonly node: object;
      readonly pods: readonly { readonly containers: readonly object[] }[];
    };
    expect(Object.keys(node)).toEqual(["nodeName", "systemContainers", "startTime", "cpu", "memory", "swap"]);
    expect(Object.keys(pods[0] ?? {})).toEqual(["podRef", "startTime", "containers", "cpu", "memory", "swap"]);
    expect(Object.keys(pods[0]?.containers[0] ?? {})).toEqual(["name", "startTime", "cpu", "memory", "swap"]);
  });
});

describe("what was not read is left out", () => {
  test("a pod without a running container", () => {
    expect(podOf({ containers: [] })).toBeUndefined();
  });
  test("a pod without figures, interfaces, volumes and files", () => {
    const pod = podOf({
      usage: undefined,
      interfaces: undefined,
      volumes: undefined,
      otherFiles: undefined,
      containers: [{ id: "c1", name: "main", image: "", createdAtMs: 0 }],
    });
    expect(Object.keys(received(pod) as object)).toEqual(["podRef", "startTime", "containers", "ephemeral-storage"]);
    expect(received(pod?.containers)).toEqual([{ name: "main", startTime: "1970-01-01T00:00:00Z" }]);
  });
  test("a pod without any interface that leads out", () => {
    expect(podOf({ interfaces: [] })?.network).toBeUndefined();
  });
  test("a pod whose interfaces have other names has no default one", () => {
    const interfaces = (examplePod.interfaces ?? []).slice(0, 1);
    expect(received(podOf({ interfaces })?.network)).toMatchObject({ name: "", interfaces: [{ name: "net1" }] });
    expect(podOf({ interfaces })?.network?.rxBytes).toBeUndefined();
  });
  test("pressure, on a kernel without it", () => {
    const { psi: _psi, ...usage } = exampleUsage;
    const pod = received(podOf({ usage }));
    expect(pod).toMatchObject({ cpu: { time: TIME }, io: { time: TIME } });
    expect(JSON.stringify((pod as { readonly cpu: object }).cpu)).not.toContain("psi");
  });
  test("the file systems of a node whose runtime is away", () => {
    const { fs: _fs, imageFs: _imageFs, containerFs: _containerFs, ...node } = exampleReadings.node;
    const summary = toSummary("node-a", { ...exampleReadings, node }, "all");
    expect(received(summary.node)).toMatchObject({ runtime: {} });
    expect(summary.pods[0]?.["ephemeral-storage"]).toBeUndefined();
  });
});
