import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCgroupFiles } from "../../../cgroups/files.ts";
import { createCgroupUsageReader } from "../../../cgroups/usage.ts";
import { CriError } from "../../../cri/error.ts";
import { usageOfFile, usageOfFiles } from "../../../host/fs/file-usage.ts";
import { createFiles } from "../../../host/fs/files.ts";
import type { NodeUsage, ProcStats } from "../../../host/proc-stats.ts";
import { ContainerConfig, PodSandboxConfig } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import {
  containerNameLabel,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
} from "../../../proto/kubernetes/well-known-names.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { FakeRuntime } from "../../../test/fakes/runtime.ts";
import { createContainerIndex } from "./container-index.ts";
import { createDiskUsages } from "./disk-usages.ts";
import { withoutUnreadable } from "./readable-cgroups.ts";
import { createRuntimePods } from "./runtime-pods.ts";
import { createSandboxProcesses } from "./sandbox-processes.ts";
import { createStatsReader, type StatsReaderDeps } from "./stats-reader.ts";

const IMAGE = "docker.io/library/busybox:1";
const SLICE = "/kubepods.slice";
const pressure = "some avg10=1.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n";
const filesOf = (usageUs: number): Readonly<Record<string, string>> => ({
  "cpu.stat": `usage_usec ${usageUs}\nuser_usec ${usageUs}\nsystem_usec 0\nnr_periods 1\nnr_throttled 0\nthrottled_usec 0\n`,
  "cpu.max": "20000 100000\n",
  "cpu.weight": "79\n",
  "cpu.pressure": pressure,
  "memory.current": "1000000\n",
  "memory.stat": `anon 400000\nfile 500000\n${"filler 1\n".repeat(40)}inactive_file 250000\nactive_file 250000\npgfault 9\npgmajfault 1\n`,
  "memory.max": "2000000\n",
  "memory.swap.current": "0\n",
  "memory.swap.max": "0\n",
  "memory.events": "max 0\noom_kill 0\n",
  "memory.pressure": pressure,
  "io.stat": "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n",
  "io.pressure": pressure,
  "pids.current": "3\n",
  "pids.max": "max\n",
  "cgroup.procs": "100\n101\n",
  "cgroup.events": "populated 1\n",
});

const nodeUsage: NodeUsage = {
  cpu: { usageNs: 5e12, userNs: 3e12, systemNs: 2e12 },
  memory: {
    ...{ totalBytes: 8e9, anonBytes: 1e9, cacheBytes: 2e9, activeFileBytes: 1e9, inactiveFileBytes: 5e8 },
    ...{ mappedFileBytes: 1e8, kernelBytes: 1e8, pageFaults: 1, majorPageFaults: 1 },
  },
  swap: { totalBytes: 0, freeBytes: 0 },
};
const eth0 = {
  ...{ name: "eth0", rxBytes: 1, rxPackets: 1, rxErrors: 0, rxDropped: 0 },
  ...{ txBytes: 2, txPackets: 1, txErrors: 0, txDropped: 0 },
};

let folder: string;
let clock: FakeClock;
let runtime: FakeRuntime;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-stats-reader-"));
  clock = new FakeClock();
  runtime = new FakeRuntime({ clock });
  runtime.addImage(IMAGE);
});
afterEach(() => rm(folder, { recursive: true }));

async function makeCgroup(path: string, usageUs = 1_000_000): Promise<void> {
  await mkdir(join(folder, "cgroup", path), { recursive: true });
  for (const [name, text] of Object.entries(filesOf(usageUs)))
    await writeFile(join(folder, "cgroup", path, name), text);
}
const setUsage = (path: string, usageUs: number) =>
  writeFile(join(folder, "cgroup", path, "cpu.stat"), filesOf(usageUs)["cpu.stat"] ?? "");

interface RunningPod {
  readonly sandbox: SandboxId;
  readonly container: ContainerId;
  readonly path: string;
}

/** A pod with one running container, and its cgroups as containerd makes them with the systemd driver. */
async function runPod(name: string, hasCgroups = true): Promise<RunningPod> {
  const uid = `${name}-uid`;
  const labels = { [podNameLabel]: name, [podNamespaceLabel]: "shop", [podUidLabel]: uid };
  const config = PodSandboxConfig.fromPartial({
    metadata: { name, uid, namespace: "shop", attempt: 0 },
    labels,
    linux: {},
  });
  const sandbox = await runtime.runPodSandbox(config, "");
  const containerConfig = ContainerConfig.fromPartial({
    metadata: { name: "main", attempt: 0 },
    // An agent creates it with the id that its image has at that time.
    image: { image: (await runtime.imageStatus(IMAGE))?.id ?? "", userSpecifiedImage: "busybox:1" },
    labels: { ...labels, [containerNameLabel]: "main" },
  });
  const container = await runtime.createContainer(sandbox, containerConfig, config);
  await runtime.startContainer(container);
  const path = `${SLICE}/kubepods-burstable.slice/kubepods-burstable-pod${uid.replaceAll("-", "_")}.slice`;
  if (hasCgroups)
    for (const each of [SLICE, `${SLICE}/kubepods-burstable.slice`, path, scope(path, sandbox), scope(path, container)])
      await makeCgroup(each);
  return { sandbox, container, path };
}
const scope = (path: string, id: string) => `${path}/cri-containerd-${withoutHyphen(id)}.scope`;
const withHyphen = (id: string) => id.replace(/^sandbox-?/, "sandbox-");
const withoutHyphen = (id: string) => id.replaceAll("-", "");

/** The fake's ids have hyphens, those of a real runtime have none. */
const runtimeWithPlainIds = {
  imageStatus: async (...input: Parameters<FakeRuntime["imageStatus"]>) => await runtime.imageStatus(...input),
  podSandboxProcess: (id: SandboxId) => runtime.podSandboxProcess(withHyphen(id) as SandboxId),
  listContainers: async (...input: Parameters<FakeRuntime["listContainers"]>) =>
    (await runtime.listContainers(...input)).map(({ id, podSandboxId, ...each }) => ({
      ...{ ...each, id: withoutHyphen(id), podSandboxId: withoutHyphen(podSandboxId) },
    })),
  listContainerStats: async (...input: Parameters<FakeRuntime["listContainerStats"]>) =>
    (await runtime.listContainerStats(...input)).map(({ attributes, ...each }) => ({
      ...each,
      attributes: attributes && { ...attributes, id: withoutHyphen(attributes.id) },
    })),
  listPodSandboxStats: async (...input: Parameters<FakeRuntime["listPodSandboxStats"]>) =>
    (await runtime.listPodSandboxStats(...input)).map(({ attributes, ...each }) => ({
      ...each,
      attributes: attributes && { ...attributes, id: withoutHyphen(attributes.id) },
    })),
  listPodSandbox: async (...input: Parameters<FakeRuntime["listPodSandbox"]>) =>
    (await runtime.listPodSandbox(...input)).map((each) => ({ ...each, id: withoutHyphen(each.id) })),
};

const proc: ProcStats = {
  node: () => nodeUsage,
  pressure: () => undefined,
  interfaces: () => [eth0],
  openFiles: () => ({ descriptors: 4, sockets: 1 }),
  openFilesLimit: () => 1024,
  uptimeSeconds: () => 3600,
  cpuTopology: () => ({ cores: 1, sockets: 1 }),
  ownCgroup: () => undefined,
};

function createReader(overrides: Partial<StatsReaderDeps> = {}) {
  const log = new FakeLog();
  const index = createContainerIndex(runtimeWithPlainIds, clock);
  const shared = { index, processes: createSandboxProcesses(runtimeWithPlainIds), proc, clock, log };
  const files = createFiles("/");
  const disks = createDiskUsages({
    runtime: { ...runtimeWithPlainIds, imageFsInfo: (options) => runtime.imageFsInfo(options) },
    ...{ files, rootDir: folder, podLogsDir: join(folder, "logs"), usageOfFile, usageOfFiles, clock, log },
  });
  return createStatsReader({
    cgroupPods: { ...shared, podsPath: async () => SLICE },
    runtimePods: createRuntimePods({ ...shared, runtime: runtimeWithPlainIds }),
    cgroups: withoutUnreadable(createCgroupUsageReader(join(folder, "cgroup"), createCgroupFiles()), log),
    disks,
    volumes: async () => new Map(),
    systemCgroups: {},
    proc,
    tasks: () => ({ capacity: 1000, available: 900 }),
    clock,
    startedAtMs: clock.now(),
    ...overrides,
  });
}

describe("pods with cgroups of their own", () => {
  test("are read with their sandbox and containers, and the runtime is asked once for what they are", async () => {
    const { path, container, sandbox } = await runPod("web");
    const reader = createReader();
    const { pods } = await reader.read("summary");
    expect(pods).toMatchObject([
      {
        ...{ name: "web", namespace: "shop", uid: "web-uid", cgroup: path },
        usage: {
          cpu: { usageNs: 1e9 },
          memory: { workingSetBytes: 750_000, availableBytes: 1_250_000, rssBytes: 400_000 },
        },
        sandbox: { id: withoutHyphen(sandbox) },
        containers: [
          {
            id: withoutHyphen(container),
            name: "main",
            image: IMAGE,
            usage: { processes: { count: 2 }, psi: { io: { some: { totalUs: 5 } } } },
          },
        ],
        interfaces: [{ name: "eth0" }],
      },
    ]);
    const lists = () => runtime.calls.filter((call) => call.startsWith("list") && !call.includes("Stats")).length;
    const listed = lists();
    await reader.read("resources");
    await reader.read("all");
    expect([listed, lists()]).toEqual([2, 2]);
    // A pod that is new is asked for.
    await runPod("later");
    expect((await reader.read("resources")).pods.map(({ name }) => name)).toEqual(["later", "web"]);
    expect(lists()).toBe(4);
  });

  test("are found by the names of cgroupfs, and of CRI-O, whose monitors are no containers", async () => {
    const { container, sandbox } = await runPod("web", false);
    const pod = "/kubepods/podweb-uid";
    for (const path of [
      "/kubepods",
      pod,
      `${pod}/crio-${container}`,
      `${pod}/${sandbox}`,
      `${pod}/crio-conmon-${container}`,
    ])
      await makeCgroup(path);
    const index = createContainerIndex(runtime, clock);
    const processes = createSandboxProcesses(runtime);
    const cgroupPods = { index, processes, proc, clock, podsPath: async () => "/kubepods" };
    const { pods } = await createReader({ cgroupPods }).read("resources");
    expect(pods).toMatchObject([
      { cgroup: pod, sandbox: { cgroup: `${pod}/${sandbox}` }, containers: [{ cgroup: `${pod}/crio-${container}` }] },
    ]);
  });

  test("have a rate of CPU from two readings, of which the first is made for the first client", async () => {
    const { path } = await runPod("web");
    const reader = createReader();
    const prepared = reader.prepareRates(new AbortController().signal);
    await clock.advance(500);
    await setUsage(path, 1_510_000);
    await clock.advance(600);
    await prepared;
    const { pods, node } = await reader.read("summary");
    expect(pods[0]?.usage?.cpu?.nanoCores).toBeWithin(400e6, 520e6);
    expect(node.usage.cpu?.nanoCores).toBe(0);
    // The next client, some seconds later, does not wait.
    await clock.advance(20_000);
    await setUsage(path, 3_510_000);
    await reader.prepareRates(new AbortController().signal);
    expect((await reader.read("summary")).pods[0]?.usage?.cpu?.nanoCores).toBeWithin(95e6, 101e6);
    // Two clients within a second have the same rate.
    await clock.advance(100);
    expect((await reader.read("summary")).pods[0]?.usage?.cpu?.nanoCores).toBeWithin(95e6, 101e6);
  });

  test("have CPU and memory with their pressure alone, if only those are asked for", async () => {
    await runPod("web");
    const { pods, node } = await createReader().read("cpu-and-memory");
    const usage = pods[0]?.containers[0]?.usage;
    expect(Object.keys(usage?.psi ?? {})).toEqual(["cpu", "memory"]);
    expect([usage?.processes, pods[0]?.interfaces, node.interfaces]).toEqual([undefined, undefined, undefined]);
  });

  test("that are new have a rate since their start, where nothing was used yet", async () => {
    const reader = createReader();
    await makeCgroup(SLICE);
    await reader.read("resources");
    const { path } = await runPod("new");
    await clock.advance(4_000);
    await setUsage(path, 1_000_000);
    expect((await reader.read("summary")).pods[0]?.usage?.cpu?.nanoCores).toBe(250e6);
  });

  test("are not confused with CRI-O's monitors of their containers", async () => {
    const { path, container } = await runPod("web");
    const id = withoutHyphen(container);
    await makeCgroup(`${path}/crio-conmon-${id}.scope`, 9_000_000);
    const { pods } = await createReader().read("summary");
    expect(pods[0]?.containers).toMatchObject([
      { id, cgroup: scope(path, container), usage: { cpu: { usageNs: 1e9 } } },
    ]);
  });

  test("are asked for once in ten seconds, while a cgroup is none of a running container", async () => {
    const { path } = await runPod("web");
    await makeCgroup(scope(path, "ended"));
    const reader = createReader();
    const lists = () => runtime.calls.filter((call) => call.startsWith("listContainers")).length;
    await reader.read("resources");
    await clock.advance(9_999);
    await reader.read("resources");
    expect(lists()).toBe(1);
    await clock.advance(1);
    expect((await reader.read("resources")).pods[0]?.containers).toHaveLength(1);
    expect(lists()).toBe(2);
  });

  test("are read once for clients that ask at once", async () => {
    await runPod("web");
    const reader = createReader();
    for (const detail of ["summary", "all"] as const) {
      const [first, second] = await Promise.all([reader.read(detail), reader.read(detail)]);
      expect(second).toBe(first);
      expect(await reader.read(detail)).not.toBe(first);
    }
  });

  test("have at most 10,000 descriptors of a container looked at", async () => {
    await runPod("web");
    const limits: number[] = [];
    const openFiles: ProcStats["openFiles"] = (_pid, limit) => {
      limits.push(limit);
      return { descriptors: 9_000, sockets: Math.min(limit, 9_000) };
    };
    const cgroupPods = {
      index: createContainerIndex(runtimeWithPlainIds, clock),
      processes: createSandboxProcesses(runtimeWithPlainIds),
      ...{ proc: { ...proc, openFiles }, clock, podsPath: async () => SLICE },
    };
    const { pods } = await createReader({ cgroupPods }).read("all");
    expect(pods[0]?.containers[0]?.usage?.processes).toMatchObject({ descriptors: 18_000, sockets: 10_000 });
    expect(new Set(limits)).toEqual(new Set([10_000, 1_000]));
  });

  test("stand beside pods without them, which an earlier agent has left", async () => {
    const [web, old] = [await runPod("web"), await runPod("old", false)];
    const reader = createReader();
    for (const detail of ["resources", "summary", "all"] as const)
      expect((await reader.read(detail)).pods).toMatchObject([
        {
          name: "old",
          usage: { cpu: { usageNs: 1e6 } },
          containers: [{ name: "main", id: withoutHyphen(old.container) }],
        },
        { name: "web", cgroup: web.path, containers: [{ name: "main" }] },
      ]);
    runtime.goDown();
    expect((await reader.read("resources")).pods).toMatchObject([{ name: "web" }]);
  });

  test("are empty where the runtime has another driver: it says what the pods use", async () => {
    const reader = createReader();
    expect((await reader.read("resources")).pods).toEqual([]);
    const { path } = await runPod("elsewhere", false);
    await makeCgroup(path);
    expect((await reader.read("resources")).pods).toMatchObject([
      { name: "elsewhere", usage: { cpu: { usageNs: 1e6 } } },
    ]);
  });

  test("cost no calls of the runtime once the pods without them have ended", async () => {
    const { sandbox } = await runPod("old", false);
    await runPod("web");
    const reader = createReader();
    expect((await reader.read("resources")).pods).toHaveLength(2);
    await runtime.stopPodSandbox(sandbox);
    expect((await reader.read("resources")).pods).toHaveLength(1);
    const calls = runtime.calls.length;
    await reader.read("resources");
    expect(runtime.calls).toHaveLength(calls);
  });

  test("vanish while they are read", async () => {
    const [web, gone] = [await runPod("web"), await runPod("gone")];
    const reader = createReader();
    await reader.read("summary");
    await rm(join(folder, "cgroup", scope(gone.path, gone.container)), { recursive: true });
    expect((await reader.read("summary")).pods.find(({ name }) => name === "gone")?.containers).toEqual([]);
    await rm(join(folder, "cgroup", gone.path), { recursive: true });
    await runtime.stopPodSandbox(gone.sandbox);
    expect((await reader.read("summary")).pods.map(({ cgroup }) => cgroup)).toEqual([web.path]);
  });

  test("of which a file holds nonsense have no figures, and the others have", async () => {
    const [web, bad] = [await runPod("web"), await runPod("bad")];
    await writeFile(join(folder, "cgroup", bad.path, "memory.current"), "much\n");
    await writeFile(join(folder, "cgroup", scope(bad.path, bad.container), "cpu.stat"), "\0\xff\n");
    const { pods } = await createReader().read("all");
    expect(pods.map(({ name, usage }) => [name, usage?.memory?.usageBytes])).toEqual([
      ["bad", undefined],
      ["web", 1_000_000],
    ]);
    expect(pods[0]?.containers).toMatchObject([{ name: "main" }]);
    expect(pods[1]?.cgroup).toBe(web.path);
  });

  test("are read although the runtime is away, once it has said what they are", async () => {
    await runPod("web");
    const reader = createReader();
    await reader.read("resources");
    runtime.goDown();
    expect((await reader.read("summary")).pods).toMatchObject([{ name: "web", containers: [{ name: "main" }] }]);
    await expect(createReader().read("resources")).rejects.toThrow(CriError);
  });

  test("leave the other figures of the node as they are, if a file of a system cgroup or of the root holds nonsense", async () => {
    await runPod("web");
    await makeCgroup("/system.slice/kubelet.service");
    for (const path of ["", "/system.slice/kubelet.service"])
      await writeFile(join(folder, "cgroup", path, "cpu.stat"), "usage_usec nonsense\n");
    const { node, pods } = await createReader({ systemCgroups: { kubelet: "/system.slice/kubelet.service" } }).read(
      "summary",
    );
    expect(node.usage.cpu?.usageNs).toBe(5e12);
    expect(node.systemContainers.map(({ name }) => name)).toEqual(["pods"]);
    expect(pods).toHaveLength(1);
  });

  test("have beside them the daemons whose cgroups are configured, but those that are absent", async () => {
    await runPod("web");
    const systemCgroups = { kubelet: "/berth.service", runtime: "/containerd.service", misc: "/system.slice" };
    await makeCgroup(systemCgroups.runtime, 2_000_000);
    await makeCgroup(systemCgroups.misc, 3_000_000);
    for (const detail of ["cpu-and-memory", "summary"] as const) {
      const { node } = await createReader({ systemCgroups }).read(detail);
      expect(node.systemContainers.map(({ name, usage }) => [name, usage.cpu?.usageNs])).toEqual([
        ["runtime", 2e9],
        ["misc", 3e9],
        ["pods", 1e9],
      ]);
    }
  });

  test("have the page of cAdvisor with the cgroups above, and every file", async () => {
    await runPod("web");
    const { node, pods } = await createReader().read("all");
    expect(pods[0]?.sandbox).toMatchObject({ image: "fake.test/pause:1", usage: { cpu: { usageNs: 1e9 } } });
    expect(node.cgroups?.map(({ path }) => path)).toEqual([SLICE, `${SLICE}/kubepods-burstable.slice`]);
    expect(pods[0]?.containers[0]?.usage).toMatchObject({
      io: [{ device: "8:0", reads: 3 }],
      limits: { cpuMax: { quotaUs: 20_000 }, cpuWeight: 79, pidsMax: "max" },
      processes: { count: 2, threads: 3, descriptors: 8, sockets: 2, openFilesLimit: 1024 },
    });
  });
});

describe("pods without cgroups of their own", () => {
  const inRuntime = { cgroupPods: undefined, cgroups: undefined };

  test("have the runtime's figures, their sum, and the interfaces of the sandbox's process", async () => {
    const { container, sandbox } = await runPod("web", false);
    const { pods, node } = await createReader(inRuntime).read("summary");
    expect(pods).toMatchObject([
      {
        name: "web",
        usage: { cpu: { usageNs: 1e6 }, memory: { workingSetBytes: 1_048_576 } },
        sandbox: { id: withoutHyphen(sandbox) },
        containers: [{ id: withoutHyphen(container), name: "main" }],
        interfaces: [{ name: "eth0" }],
      },
    ]);
    expect(node.systemContainers.map(({ name, path }) => [name, path])).toEqual([["pods", "/"]]);
    expect(node.usage).toMatchObject({
      memory: { usageBytes: 3e9, workingSetBytes: 2.5e9, availableBytes: 5.5e9, rssBytes: 1e9 },
      limits: { memoryMax: 8e9, memorySwapMax: 0 },
      startedAtMs: clock.now() - 3_600_000,
    });
  });

  test("leave out what has ended", async () => {
    const { container } = await runPod("web", false);
    runtime.exit(container, 0);
    expect((await createReader(inRuntime).read("summary")).pods).toMatchObject([{ name: "web", containers: [] }]);
  });

  test("are an error while the runtime is away", async () => {
    runtime.goDown();
    await expect(createReader(inRuntime).read("summary")).rejects.toThrow(CriError);
  });

  test("have their sum where the runtime refuses the stats of sandboxes, which it is asked for once", async () => {
    await runPod("web", false);
    const refusal = new CriError("UNKNOWN", "ListPodSandboxStats", "cgroupPath is empty");
    runtime.failures = { listPodSandboxStats: [refusal] };
    const reader = createReader(inRuntime);
    for (const _ of [1, 2]) expect((await reader.read("resources")).pods[0]?.usage?.memory?.usageBytes).toBe(1_048_576);
  });
});

test("logs, layers and other files of a pod are measured, and file systems", async () => {
  await runPod("web");
  const logs = join(folder, "logs/shop_web_web-uid");
  await mkdir(join(logs, "main"), { recursive: true });
  await writeFile(join(logs, "main/0.log"), "x".repeat(5000));
  await mkdir(join(folder, "pods/web-uid"), { recursive: true });
  await writeFile(join(folder, "pods/web-uid/etc-hosts"), "x");
  const { pods, node } = await createReader().read("summary");
  expect(pods[0]?.containers[0]?.logs?.usedBytes).toBeGreaterThanOrEqual(5000);
  expect(pods[0]?.containers[0]?.rootfs?.usage.usedBytes).toBe(4096);
  expect(pods[0]?.otherFiles?.inodesUsed).toBe(1);
  expect(node.fs?.capacityBytes).toBeGreaterThan(0);
  expect(node.tasks).toMatchObject({ max: 1000, current: 100 });
});

test("volumes that never answer do not hold up the page for more than ten seconds", async () => {
  await runPod("web");
  const reader = createReader({ volumes: () => new Promise(() => {}) });
  const read = reader.read("summary");
  // The file system is read by real calls, which do not follow the clock.
  await readdir(folder);
  await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(60_000);
  await clock.advance(60_000);
  expect((await read).pods[0]?.volumes).toBeUndefined();
});
