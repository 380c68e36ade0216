import { setImmediate } from "node:timers/promises";
import type { CgroupUsageReader, UsageDetail } from "../../../cgroups/usage.ts";
import type { Clock } from "../../../host/clock.ts";
import type { ProcStats } from "../../../host/proc-stats.ts";
import type {
  CgroupReading,
  ContainerReading,
  PodReading,
  ProcessesReading,
  UsageReading,
} from "../../decide/stats/readings.ts";
import type { ContainerIndex, IndexedContainer } from "./container-index.ts";
import type { CpuRatePass } from "./cpu-rates.ts";
import { usageOfCgroup } from "./from-cgroup.ts";
import { includesNetwork } from "./network-detail.ts";
import type { SandboxProcesses } from "./sandbox-processes.ts";

export interface CgroupPodsDeps {
  readonly cgroups: CgroupUsageReader;
  /** The cgroup above all pods, below the mount point. It is unknown until the runtime has answered once. */
  readonly podsPath: () => Promise<string>;
  readonly index: ContainerIndex;
  readonly processes: SandboxProcesses;
  readonly proc: Pick<ProcStats, "interfaces" | "openFiles" | "openFilesLimit">;
  readonly clock: Clock;
}

/** The cgroups of pods, by their folders. */
interface PodFolders {
  /** Those above the pods: of all pods, and of the QoS classes. */
  readonly above: readonly string[];
  readonly pods: readonly { readonly path: string; readonly containers: ReadonlyMap<string, string> }[];
}

/** Of so many descriptors a container each page finds out which are sockets: the sockets beyond are not counted. */
const MAX_DESCRIPTORS = 10_000;

const QOS_FOLDER = /(^|-)(burstable|besteffort)(\.slice)?$/;
const POD_FOLDER = /(^|-)pod[^/]+$/;

export interface CgroupPods {
  readonly above: readonly CgroupReading[];
  readonly pods: readonly PodReading[];
  /** Whether the runtime has listed a pod, when it was asked last, that is none of these. It may have ended since. */
  readonly hasOthers: boolean;
}

/**
 * Reads the pods and their containers from their cgroups: the name of each container's ends with its id. Rejects with `CriError` if a container is unknown and the runtime cannot say what it is, or where the pods are.
 */
export async function readCgroupPods(
  deps: CgroupPodsDeps,
  detail: UsageDetail,
  rates: CpuRatePass,
): Promise<CgroupPods> {
  const { above, pods } = podFolders(deps.cgroups, await deps.podsPath());
  // A runtime with another driver starts containers elsewhere: then nothing is in a pod's folder.
  const ids = pods.flatMap(({ path, containers }) => (containers.size === 0 ? [path] : [...containers.keys()]));
  const known = await deps.index.byId(ids);
  const read = createReader(deps, detail, rates);
  const sandboxes = pods.flatMap(({ containers }) => [...containers.keys()].filter((id) => known.get(id)?.isSandbox));
  const images = detail === "all" ? await deps.processes.of(sandboxes) : undefined;
  const aboveReadings = above.flatMap((path) => {
    const usage = read.usage(path);
    return usage === undefined ? [] : [{ path, usage }];
  });
  const podReadings: PodReading[] = [];
  for (const { path, containers } of pods) {
    const found = [...containers].flatMap(([id, at]) => {
      const container = known.get(id);
      if (container === undefined) return [];
      return [{ ...container, image: images?.get(id)?.image ?? container.image, path: at }];
    });
    const pod = podReading(read, path, found);
    if (pod !== undefined) podReadings.push(pod);
    // The files of the kernel are read synchronously: other work of the agent runs between two pods.
    await setImmediate();
  }
  const uids = new Set(podReadings.map(({ uid }) => uid));
  const hasOthers = [...known.values()].some(
    ({ isSandbox, pod }) => isSandbox && pod.name !== "" && !uids.has(pod.uid),
  );
  return { above: aboveReadings, pods: podReadings, hasOthers };
}

function podFolders(cgroups: CgroupUsageReader, root: string): PodFolders {
  const above = [root];
  const found: string[] = [];
  for (const name of cgroups.below(root)) {
    const path = `${root === "/" ? "" : root}/${name}`;
    if (QOS_FOLDER.test(name)) {
      above.push(path);
      found.push(...cgroups.below(path).flatMap((each) => (POD_FOLDER.test(each) ? [`${path}/${each}`] : [])));
    } else if (POD_FOLDER.test(name)) found.push(path);
  }
  const pods = found.map((path) => ({
    path,
    containers: new Map(cgroups.below(path).flatMap((name) => containerOf(path, name))),
  }));
  return { above, pods };
}

/**
 * The id is the name with cgroupfs, and its end with systemd: `cri-containerd-ID.scope`. CRI-O's monitor of a container has
 * the same id.
 */
function containerOf(pod: string, name: string): readonly (readonly [string, string])[] {
  if (name.includes("conmon")) return [];
  const unit = name.endsWith(SCOPE) ? name.slice(0, -SCOPE.length) : undefined;
  const id = unit === undefined ? name.replace(/^crio-/, "") : unit.slice(unit.lastIndexOf("-") + 1);
  return [[id, `${pod}/${name}`]];
}
const SCOPE = ".scope";

interface CgroupReader {
  /** Sandboxes, and every file, are only in the page of cAdvisor. */
  readonly readsAll: boolean;
  usage(path: string, startedAtMs?: number): UsageReading | undefined;
  /** With its processes. */
  usageOfContainer(path: string, startedAtMs: number): UsageReading | undefined;
  interfaces(path: string): PodReading["interfaces"];
}

function createReader(deps: CgroupPodsDeps, detail: UsageDetail, rates: CpuRatePass): CgroupReader {
  const { cgroups, proc, clock } = deps;
  const readUsage = (path: string, startedAtMs: number | undefined, hasProcesses: boolean) => {
    const found = cgroups.read(path, detail);
    if (found === undefined) return undefined;
    const madeAtMs = detail === "all" ? cgroups.madeAtMs(path) : undefined;
    const processes = hasProcesses ? processesIn(deps, path, detail, found.stats.pids?.current) : undefined;
    const reading = { ...usageOfCgroup(found, clock.now()), startedAtMs: startedAtMs ?? madeAtMs, processes };
    return rates.withRate(path, reading);
  };
  return {
    readsAll: detail === "all",
    usage: (path, startedAtMs) => readUsage(path, startedAtMs, detail === "all"),
    usageOfContainer: (path, startedAtMs) => readUsage(path, startedAtMs, includesNetwork(detail)),
    interfaces(path) {
      if (!includesNetwork(detail)) return undefined;
      const [pid = 0] = cgroups.processes(path);
      return pid > 0 ? proc.interfaces(pid) : undefined;
    },
  };
}

function processesIn(
  { cgroups, proc }: CgroupPodsDeps,
  path: string,
  detail: UsageDetail,
  threads: number | undefined,
): ProcessesReading {
  const pids = cgroups.processes(path).filter((pid) => pid > 0);
  if (detail === "summary") return { count: pids.length };
  let left = MAX_DESCRIPTORS;
  const files = pids.map((pid) => {
    const found = proc.openFiles(pid, left);
    left = Math.max(0, left - (found?.descriptors ?? 0));
    return found;
  });
  const sum = (of: "descriptors" | "sockets") => files.reduce((all, each) => all + (each?.[of] ?? 0), 0);
  const [first] = pids;
  return {
    count: pids.length,
    threads,
    descriptors: sum("descriptors"),
    sockets: sum("sockets"),
    openFilesLimit: first === undefined ? undefined : proc.openFilesLimit(first),
  };
}

type FoundContainer = IndexedContainer & { readonly isSandbox: boolean; readonly path: string };

/** Undefined for a cgroup in which no container of a pod runs. */
function podReading(read: CgroupReader, path: string, found: readonly FoundContainer[]): PodReading | undefined {
  const sandbox = found.find(({ isSandbox }) => isSandbox);
  const [first = undefined] = [sandbox, ...found].filter((each) => each !== undefined);
  if (first === undefined || first.pod.name === "") return undefined;
  const startedAtMs = sandbox?.createdAtMs ?? first.createdAtMs;
  const readingOf = ({ id, name, image, createdAtMs, path: cgroup }: FoundContainer): ContainerReading => ({
    ...{ id, name, image, createdAtMs, cgroup },
    usage: read.usageOfContainer(cgroup, createdAtMs),
  });
  return {
    ...first.pod,
    startedAtMs,
    cgroup: path,
    usage: read.usage(path, startedAtMs),
    ...(sandbox && { sandbox: sandboxReading(read, sandbox), interfaces: read.interfaces(sandbox.path) }),
    containers: found.filter(({ isSandbox }) => !isSandbox).map(readingOf),
  };
}

function sandboxReading(
  read: CgroupReader,
  { id, image, createdAtMs, path: cgroup }: FoundContainer,
): NonNullable<PodReading["sandbox"]> {
  const usage = read.readsAll ? read.usage(cgroup, createdAtMs) : undefined;
  return { id, image, createdAtMs, cgroup, usage };
}
