/*
 * Where Berth's pages of stats differ from those of the reference kubelet on a machine with cgroup v1, and why.
 */

/** Metrics of cAdvisor that only the kubelet's page has: of the root, which is all that cAdvisor sees of this machine. */
export const metricsOfKubeletAlone: Readonly<Record<string, string>> = {
  container_fs_inodes_free:
    "file systems of the node are in /stats/summary; cAdvisor lists every mount, also pseudo file systems",
  container_fs_inodes_total: "as container_fs_inodes_free",
  container_fs_limit_bytes: "as container_fs_inodes_free",
  container_fs_usage_bytes: "as container_fs_inodes_free",
  container_fs_io_current: "counters of disks, not of cgroups: /proc/diskstats, which node_exporter shows",
  container_fs_io_time_seconds_total: "as container_fs_io_current",
  container_fs_io_time_weighted_seconds_total: "as container_fs_io_current",
  container_fs_read_seconds_total: "as container_fs_io_current",
  container_fs_reads_merged_total: "as container_fs_io_current",
  container_fs_reads_total: "as container_fs_io_current for the root; a cgroup has it from io.stat",
  container_fs_sector_reads_total: "as container_fs_io_current",
  container_fs_sector_writes_total: "as container_fs_io_current",
  container_fs_write_seconds_total: "as container_fs_io_current",
  container_fs_writes_merged_total: "as container_fs_io_current",
  container_fs_writes_total: "as container_fs_reads_total",
  container_file_descriptors: "the root of cgroup v2 has no processes of its own; cAdvisor counts those of cgroup v1",
  container_processes: "as container_file_descriptors",
  container_sockets: "as container_file_descriptors",
  container_threads: "as container_file_descriptors",
  container_threads_max: "as container_file_descriptors",
  container_ulimits_soft: "as container_file_descriptors",
  container_spec_cpu_period: "the root of cgroup v2 has no cpu.max, that of cgroup v1 has",
  container_spec_cpu_shares: "as container_spec_cpu_period",
};

/** Fields of the summary that only Berth has. */
export const fieldsOfBerthAlone: Readonly<Record<string, string>> = {
  "pods[].network":
    "cAdvisor does not find the sandboxes of a private containerd; Berth reads the interfaces of their processes",
};

/** Whether a path is one of these fields, or below one. */
export const isKnown = (differences: Readonly<Record<string, string>>, path: string): boolean =>
  Object.keys(differences).some(
    (known) => path === known || path.startsWith(`${known}.`) || path.startsWith(`${known}[`),
  );
