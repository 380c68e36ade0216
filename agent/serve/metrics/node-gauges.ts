import type { ProcessFigures } from "../../../host/process-figures.ts";
import type { FsStats } from "../../../proto/kubelet/volume-stats.ts";
import type { KubeletMetrics } from "./kubelet-metrics.ts";

/** A feature gate of Kubernetes. */
export interface FeatureGateState {
  readonly name: string;
  readonly stage: "alpha" | "beta" | "ga" | "deprecated";
  readonly isEnabled: boolean;
}

/** The figures of the volume behind a claim. */
export interface ClaimFigures extends FsStats {
  readonly namespace: string;
  readonly claim: string;
}

/** What a page says of the node as it is now. */
export interface NodeFigures {
  readonly process: ProcessFigures;
  readonly claims: readonly ClaimFigures[];
}

/** What does not change while the agent runs. */
export interface FixedFigures {
  readonly nodeName: string;
  readonly cgroupVersion: 1 | 2;
  readonly featureGates: readonly FeatureGateState[];
  /** The Kubernetes release that this program implements: `v1.36.3`. */
  readonly kubernetesVersion: string;
  /** `linux/amd64` */
  readonly platform: string;
  /** The runtime of this program: `bun1.4.5`. */
  readonly compiler: string;
}

type Store = Pick<KubeletMetrics, "kubelet">;

/** Sets the gauges of the node, of this process and of the volumes of claims, for a page that is about to be sent. */
export function setNodeGauges(metrics: Store, fixed: FixedFigures, { process, claims }: NodeFigures): void {
  const { kubelet } = metrics;
  setFixedGauges(metrics, fixed);
  kubelet.set("process_cpu_seconds_total", process.cpuSeconds);
  kubelet.set("process_network_receive_bytes_total", process.receivedBytes);
  kubelet.set("process_network_transmit_bytes_total", process.transmittedBytes);
  kubelet.set("process_open_fds", process.openFiles);
  kubelet.set("process_max_fds", process.maxOpenFiles);
  kubelet.set("process_resident_memory_bytes", process.residentBytes);
  kubelet.set("process_virtual_memory_bytes", process.virtualBytes);
  kubelet.set("process_virtual_memory_max_bytes", process.maxVirtualBytes);
  kubelet.set("process_start_time_seconds", process.startedSeconds);
  setVolumeFigures(metrics, claims);
}

function setFixedGauges({ kubelet }: Store, fixed: FixedFigures): void {
  kubelet.set("kubelet_node_name", 1, [fixed.nodeName]);
  kubelet.set("kubelet_cgroup_version", fixed.cgroupVersion);
  const [, major = "", minor = ""] = /^v(\d+)\.(\d+)/.exec(fixed.kubernetesVersion) ?? [];
  // build_date, compiler, git_commit, git_tree_state, git_version, go_version, major, minor, platform
  const build = ["", fixed.compiler, "", "", fixed.kubernetesVersion, "", major, minor, fixed.platform];
  kubelet.set("kubernetes_build_info", 1, build);
  for (const { name, stage, isEnabled } of fixed.featureGates)
    kubelet.set("kubernetes_feature_enabled", isEnabled ? 1 : 0, [name, stage === "ga" ? "" : stage.toUpperCase()]);
}

const volumeGauges = {
  capacityBytes: "kubelet_volume_stats_capacity_bytes",
  availableBytes: "kubelet_volume_stats_available_bytes",
  usedBytes: "kubelet_volume_stats_used_bytes",
  inodes: "kubelet_volume_stats_inodes",
  inodesFree: "kubelet_volume_stats_inodes_free",
  inodesUsed: "kubelet_volume_stats_inodes_used",
} as const satisfies Record<keyof FsStats, string>;

function setVolumeFigures({ kubelet }: Store, claims: readonly ClaimFigures[]): void {
  for (const name of Object.values(volumeGauges)) kubelet.clear(name);
  for (const { namespace, claim, ...figures } of claims)
    for (const [figure, name] of Object.entries(volumeGauges))
      kubelet.set(name, figures[figure as keyof FsStats], [namespace, claim]);
}
