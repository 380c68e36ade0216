import { createCgroupFiles } from "../../../cgroups/files.ts";
import { createCgroupUsageReader } from "../../../cgroups/usage.ts";
import { CriError } from "../../../cri/error.ts";
import { settledWithin } from "../../../host/async/settled-within.ts";
import { createBlockDeviceNames } from "../../../host/block-devices.ts";
import type { Clock } from "../../../host/clock.ts";
import { usageOfFile, usageOfFiles } from "../../../host/fs/file-usage.ts";
import { createProc } from "../../../host/proc.ts";
import { createProcStats } from "../../../host/proc-stats.ts";
import type { VolumeStats } from "../../../proto/kubelet/volume-stats.ts";
import type { Volume } from "../../../proto/kubernetes/gen/types.ts";
import type { VolumeReading } from "../../decide/stats/readings.ts";
import { createContainerIndex } from "../../observed/stats/container-index.ts";
import { createDiskUsages } from "../../observed/stats/disk-usages.ts";
import { withoutUnreadable } from "../../observed/stats/readable-cgroups.ts";
import { createRuntimePods } from "../../observed/stats/runtime-pods.ts";
import { createSandboxProcesses } from "../../observed/stats/sandbox-processes.ts";
import { createStatsReader, type StatsReader } from "../../observed/stats/stats-reader.ts";
import type { StatsRoutesDeps } from "../../serve/stats/stats-routes.ts";
import type { Agent } from "../agent.ts";
import { CGROUP_MOUNT_POINT } from "../cgroups.ts";
import type { DatedVolumes } from "../volume-figures.ts";
import type { ApiRouteDeps } from "./api-routes.ts";

type StatsPagesDeps = Omit<ApiRouteDeps, "api" | "metrics">;

/** What the pages of stats are computed from. Nothing is read before a page is asked for. */
export function createStatsPages(deps: StatsPagesDeps): StatsRoutesDeps {
  const { config, thisMachine, clock, log } = deps;
  const { cores, sockets } = createProcStats().cpuTopology();
  const reader = createReader(deps);
  return {
    nodeName: config.nodeName,
    machine: { ...thisMachine, physicalCores: cores, sockets },
    read: reader.read,
    prepareRates: reader.prepareRates,
    deviceName: createBlockDeviceNames(),
    clock,
    log,
  };
}

function createReader(deps: StatsPagesDeps): StatsReader {
  const { agent, config, runtime, thisMachine, podsCgroup, volumes, hostFiles: files, clock, log } = deps;
  const { rootDir, podLogsDir } = config;
  const proc = createProcStats();
  const index = createContainerIndex(runtime, clock);
  const shared = { index, processes: createSandboxProcesses(runtime), proc, clock, log };
  const ownCgroup = proc.ownCgroup();
  return createStatsReader({
    cgroupPods: podsCgroup && { ...shared, podsPath: answeredSoon(podsCgroup, clock) },
    runtimePods: createRuntimePods({ ...shared, runtime }),
    cgroups: thisMachine.hasCgroupV2
      ? withoutUnreadable(createCgroupUsageReader(CGROUP_MOUNT_POINT, createCgroupFiles()), log)
      : undefined,
    disks: createDiskUsages({ runtime, files, rootDir, podLogsDir, usageOfFile, usageOfFiles, clock, log }),
    volumes: async () => readingsOf(await volumes(), agent),
    systemCgroups: { ...(ownCgroup !== undefined && { kubelet: ownCgroup }), ...config.daemonCgroups },
    proc,
    tasks: createProc().taskAvailability,
    clock,
    startedAtMs: clock.now(),
  });
}

/** No page waits for a runtime that has not answered since the start. */
const DRIVER_TIMEOUT_MS = 1_000;

function answeredSoon(podsCgroup: () => Promise<string>, clock: Clock): () => Promise<string> {
  return async () => {
    const path = podsCgroup();
    if (await settledWithin(path, DRIVER_TIMEOUT_MS, clock)) return await path;
    throw new CriError("UNAVAILABLE", "RuntimeConfig", "the container runtime has not reported its cgroup driver yet");
  };
}

/** The figures of volumes by the uids of their pods. */
function readingsOf(
  { pods, measuredAtMs: atMs }: DatedVolumes,
  { podReports }: Pick<Agent, "podReports">,
): ReadonlyMap<string, readonly VolumeReading[]> {
  const declared = new Map(podReports.all().map(({ pod }) => [pod.metadata.uid ?? "", pod.spec.volumes ?? []]));
  const readingOf = (uid: string, stats: VolumeStats): VolumeReading => {
    const volume = declared.get(uid)?.find(({ name }) => name === stats.name);
    return { ...stats, atMs, isEphemeral: volume !== undefined && isLocalEphemeral(volume) };
  };
  return new Map(pods.map(({ uid, volumes }) => [uid, volumes.map((stats) => readingOf(uid, stats))]));
}

/** Rule: the kubelet's IsLocalEphemeralVolume. */
function isLocalEphemeral({ emptyDir, configMap, gitRepo }: Volume): boolean {
  return gitRepo !== undefined || configMap !== undefined || (emptyDir !== undefined && !emptyDir.medium);
}
