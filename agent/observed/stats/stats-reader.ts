import type { CgroupUsageReader, UsageDetail } from "../../../cgroups/usage.ts";
import { CriError } from "../../../cri/error.ts";
import { settledWithin } from "../../../host/async/settled-within.ts";
import { type Clock, sleep } from "../../../host/clock.ts";
import type { Proc } from "../../../host/proc.ts";
import type { ProcStats } from "../../../host/proc-stats.ts";
import type { SystemContainerName } from "../../../proto/kubelet/stats-summary.ts";
import { RATE_MS } from "../../decide/stats/nano-cores.ts";
import type {
  CgroupReading,
  NodeReading,
  PodReading,
  StatsReadings,
  UsageReading,
  VolumeReading,
} from "../../decide/stats/readings.ts";
import { type CgroupPodsDeps, readCgroupPods } from "./cgroup-pods.ts";
import { type CpuRatePass, createCpuRates } from "./cpu-rates.ts";
import type { DiskUsages } from "./disk-usages.ts";
import { usageOfCgroup } from "./from-cgroup.ts";
import { includesNetwork } from "./network-detail.ts";
import { readNodeUsage } from "./node-usage.ts";
import type { RuntimePods } from "./runtime-pods.ts";

export interface StatsReaderDeps {
  /** Where pods have cgroups of their own; undefined where the runtime is asked. */
  readonly cgroupPods: Omit<CgroupPodsDeps, "cgroups"> | undefined;
  readonly runtimePods: RuntimePods;
  /** Undefined without cgroup v2. Throws nothing. */
  readonly cgroups: CgroupUsageReader | undefined;
  readonly disks: DiskUsages;
  /** The figures of volumes by the uids of their pods. Never rejects. */
  readonly volumes: () => Promise<ReadonlyMap<string, readonly VolumeReading[]>>;
  /** The cgroups of parts of the system, below the mount point. One that is absent is left out. */
  readonly systemCgroups: Readonly<Partial<Record<SystemContainerName, string>>>;
  readonly proc: ProcStats;
  readonly tasks: Proc["taskAvailability"];
  readonly clock: Clock;
  /** When this agent started. */
  readonly startedAtMs: number;
}

/**
 * Reads what the node and its pods use, when a client asks; nothing runs between the calls. `resources` is CPU, memory and
 * swap, `cpu-and-memory` has their pressure too. `summary` adds the rest of the summary API, `all` what only cAdvisor shows.
 */
export interface StatsReader {
  /** Clients that ask for the same at once share a reading. Rejects with `CriError` if the runtime cannot list its containers. */
  read(detail: UsageDetail): Promise<StatsReadings>;
  /**
   * Resolves when the next reading has the rates of CPU: at once if the last one is no more than a minute ago, else after
   * a reading and a second. Rejects as `read`, and when the signal aborts.
   */
  prepareRates(signal: AbortSignal): Promise<void>;
}

export function createStatsReader(deps: StatsReaderDeps): StatsReader {
  const { clock } = deps;
  const rates = createCpuRates();
  let preparing: Promise<void> | undefined;
  const underWay = new Map<UsageDetail, Promise<StatsReadings>>();

  async function read(detail: UsageDetail): Promise<StatsReadings> {
    const pass = rates.begin(clock.now());
    const { above, pods } = await readPods(deps, detail, pass);
    const node = readNode(deps, detail, pass, above);
    pass.end();
    const readings = { node, pods: pods.toSorted(byName) };
    return detail === "summary" ? await withFiles(deps, readings) : readings;
  }

  function readShared(detail: UsageDetail): Promise<StatsReadings> {
    const reading = underWay.get(detail) ?? read(detail).finally(() => underWay.delete(detail));
    underWay.set(detail, reading);
    return reading;
  }

  async function readFirst(): Promise<void> {
    await readShared("resources");
    // A little more: the clock of the runtime may have another resolution.
    await sleep(clock, RATE_MS.min + 20);
  }

  return {
    read: readShared,
    async prepareRates(signal) {
      if (preparing === undefined && !rates.isOutdated(clock.now())) return;
      preparing ??= readFirst().finally(() => {
        preparing = undefined;
      });
      await preparing;
      signal.throwIfAborted();
    },
  };
}

const byName = (a: PodReading, b: PodReading) =>
  a.namespace === b.namespace ? compare(a.name, b.name) : compare(a.namespace, b.namespace);
const compare = (a: string, b: string) => (a < b ? -1 : Number(a > b));

/**
 * Pods have cgroups of their own, but those of an earlier agent without `cgroupsPerQOS`, and those of a runtime with another
 * cgroup driver: these are read from the runtime.
 */
async function readPods(
  { cgroupPods, cgroups, runtimePods }: StatsReaderDeps,
  detail: UsageDetail,
  pass: CpuRatePass,
): Promise<{ readonly above: readonly CgroupReading[]; readonly pods: readonly PodReading[] }> {
  if (cgroupPods === undefined || cgroups === undefined)
    return { above: [], pods: await runtimePods.read(detail, pass) };
  const { above, pods, hasOthers } = await readCgroupPods({ ...cgroupPods, cgroups }, detail, pass);
  if (!hasOthers) return { above, pods };
  try {
    const others = await runtimePods.read(detail, pass, new Set(pods.map(({ uid }) => uid)));
    return { above, pods: [...pods, ...others] };
  } catch (error) {
    // While the runtime is away, the page has the pods that do not need it.
    if (!(error instanceof CriError)) throw error;
    return { above, pods };
  }
}

function readNode(
  deps: StatsReaderDeps,
  detail: UsageDetail,
  pass: CpuRatePass,
  above: readonly CgroupReading[],
): NodeReading {
  const { proc, tasks, clock } = deps;
  const found = readNodeUsage(deps, detail) ?? { atMs: clock.now() };
  const usage = pass.withRate("/", found);
  const available = detail === "summary" ? tasks() : undefined;
  return {
    usage,
    systemContainers: systemContainers(deps, detail, pass, { node: usage, pods: above[0] }),
    ...(includesNetwork(detail) && { interfaces: proc.interfaces(1) }),
    ...(available && {
      tasks: { atMs: clock.now(), max: available.capacity, current: available.capacity - available.available },
    }),
    ...(detail === "all" && { cgroups: above }),
  };
}

/** Where pods have no cgroups of their own, the cgroup above all of them is the root. */
function systemContainers(
  { systemCgroups, cgroups, clock, startedAtMs }: StatsReaderDeps,
  detail: UsageDetail,
  pass: CpuRatePass,
  {
    node,
    pods = { path: "/", usage: node },
  }: { readonly node: UsageReading; readonly pods: CgroupReading | undefined },
): NodeReading["systemContainers"] {
  const others = Object.entries(systemCgroups).flatMap(([name, path]) => {
    const found = cgroups?.read(path, detail);
    if (found === undefined) return [];
    const madeAtMs = name === "kubelet" ? startedAtMs : cgroups?.madeAtMs(path);
    const usage = { ...usageOfCgroup(found, clock.now()), startedAtMs: madeAtMs };
    return [{ name: name as SystemContainerName, path, usage: pass.withRate(path, usage) }];
  });
  return [...others, { name: "pods", ...pods }];
}

/** No page waits longer for its files. */
const FILES_TIMEOUT_MS = 10_000;

/** The readings with file systems, logs and volumes; without those that take too long. */
async function withFiles(deps: StatsReaderDeps, readings: StatsReadings): Promise<StatsReadings> {
  const disks = deps.disks.begin();
  const measured: { node?: Partial<NodeReading>; pods?: readonly PodReading[] } = {};
  let volumes: Awaited<ReturnType<StatsReaderDeps["volumes"]>> = new Map();
  const all = Promise.all([
    disks.node().then((node) => {
      measured.node = node;
    }),
    disks.withFiles(readings.pods).then((pods) => {
      measured.pods = pods;
    }),
    deps.volumes().then((found) => {
      volumes = found;
    }),
  ]);
  await settledWithin(all, FILES_TIMEOUT_MS, deps.clock);
  const { node, pods = readings.pods } = measured;
  return {
    node: { ...readings.node, ...node },
    pods: pods.map((pod) => ({ ...pod, volumes: volumes.get(pod.uid) })),
  };
}
