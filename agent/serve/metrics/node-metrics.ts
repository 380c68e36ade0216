import { defaultBuckets } from "./buckets.ts";
import type { MetricDefinitions } from "./metric-store.ts";

/** Metrics of the node, the container runtime, volumes and this process, and of the requests to the API server. As the kubelet declares them, and three of Berth. */
export const nodeMetrics = {
  berth_cni_call_duration_seconds: {
    type: "histogram",
    help: "Duration in seconds of calls of berth-cni that the agent has executed, with all their plugins, by the verb.",
    labels: ["verb"],
    buckets: [0.001, 0.0025, ...defaultBuckets],
  },
  berth_cni_plugin_duration_seconds: {
    type: "histogram",
    help: "Duration in seconds of calls of network plugins that the agent has executed, by the type of the plugin and the verb.",
    labels: ["plugin", "verb"],
    buckets: [0.001, 0.0025, ...defaultBuckets],
  },
  berth_cni_plugin_errors_total: {
    type: "counter",
    help: "Number of calls of network plugins that have failed.",
    labels: ["plugin", "verb"],
  },
  kubelet_certificate_manager_client_expiration_renew_errors: {
    type: "counter",
    help: "[ALPHA] Counter of certificate renewal errors.",
    labels: [],
  },
  kubelet_certificate_manager_client_ttl_seconds: {
    type: "gauge",
    help: "[ALPHA] Gauge of the TTL (time-to-live) of the Kubelet's client certificate. The value is in seconds until certificate expiry (negative if already expired). If client certificate is invalid or unused, the value will be +INF.",
    labels: [],
  },
  kubelet_certificate_manager_server_ttl_seconds: {
    type: "gauge",
    help: "[ALPHA] Gauge of the shortest TTL (time-to-live) of the Kubelet's serving certificate. The value is in seconds until certificate expiry (negative if already expired). If serving certificate is invalid or unused, the value will be +INF.",
    labels: [],
  },
  kubelet_cgroup_manager_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds for cgroup manager operations. Broken down by method.",
    labels: ["operation_type"],
    buckets: defaultBuckets,
  },
  kubelet_cgroup_version: { type: "gauge", help: "[ALPHA] cgroup version on the hosts.", labels: [] },
  kubelet_evictions: {
    type: "counter",
    help: "[ALPHA] Cumulative number of pod evictions by eviction signal",
    labels: ["eviction_signal"],
  },
  kubelet_http_inflight_requests: {
    type: "gauge",
    help: "[ALPHA] Number of the inflight http requests",
    labels: ["long_running", "method", "path", "server_type"],
  },
  kubelet_http_requests_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds to serve http requests",
    labels: ["long_running", "method", "path", "server_type"],
    buckets: defaultBuckets,
  },
  kubelet_http_requests_total: {
    type: "counter",
    help: "[ALPHA] Number of the http requests received since the server started",
    labels: ["long_running", "method", "path", "server_type"],
  },
  kubelet_node_config_error: {
    type: "gauge",
    help: "[ALPHA] This metric is true (1) if the node is experiencing a configuration-related error, false (0) otherwise.",
    labels: [],
  },
  kubelet_node_name: { type: "gauge", help: "[ALPHA] The node's name. The count is always 1.", labels: ["node"] },
  kubelet_node_startup_duration_seconds: {
    type: "gauge",
    help: "[ALPHA] Duration in seconds of node startup in total.",
    labels: [],
  },
  kubelet_node_startup_post_registration_duration_seconds: {
    type: "gauge",
    help: "[ALPHA] Duration in seconds of node startup after registration.",
    labels: [],
  },
  kubelet_node_startup_pre_kubelet_duration_seconds: {
    type: "gauge",
    help: "[ALPHA] Duration in seconds of node startup before kubelet starts.",
    labels: [],
  },
  kubelet_node_startup_pre_registration_duration_seconds: {
    type: "gauge",
    help: "[ALPHA] Duration in seconds of node startup before registration.",
    labels: [],
  },
  kubelet_node_startup_registration_duration_seconds: {
    type: "gauge",
    help: "[ALPHA] Duration in seconds of node startup during registration.",
    labels: [],
  },
  kubelet_pleg_discard_events: { type: "counter", help: "[ALPHA] The number of discard events in PLEG.", labels: [] },
  kubelet_pleg_last_seen_seconds: {
    type: "gauge",
    help: "[ALPHA] Timestamp in seconds when PLEG was last seen active.",
    labels: [],
  },
  kubelet_pleg_relist_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds for relisting pods in PLEG.",
    labels: [],
    buckets: defaultBuckets,
  },
  kubelet_pleg_relist_interval_seconds: {
    type: "histogram",
    help: "[ALPHA] Interval in seconds between relisting in PLEG.",
    labels: [],
    buckets: defaultBuckets,
  },
  kubelet_preemptions: {
    type: "counter",
    help: "[ALPHA] Cumulative number of pod preemptions by preemption resource",
    labels: ["preemption_signal"],
  },
  kubelet_run_podsandbox_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.",
    labels: ["runtime_handler"],
    buckets: defaultBuckets,
  },
  kubelet_run_podsandbox_errors_total: {
    type: "counter",
    help: "[ALPHA] Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.",
    labels: ["runtime_handler"],
  },
  kubelet_runtime_operations_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds of runtime operations. Broken down by operation type.",
    labels: ["operation_type"],
    buckets: [
      0.005, 0.0125, 0.03125, 0.078125, 0.1953125, 0.48828125, 1.220703125, 3.0517578125, 7.62939453125,
      19.073486328125, 47.6837158203125, 119.20928955078125, 298.0232238769531, 745.0580596923828,
    ],
  },
  kubelet_runtime_operations_errors_total: {
    type: "counter",
    help: "[ALPHA] Cumulative number of runtime operation errors by operation type.",
    labels: ["operation_type"],
  },
  kubelet_runtime_operations_total: {
    type: "counter",
    help: "[ALPHA] Cumulative number of runtime operations by operation type.",
    labels: ["operation_type"],
  },
  kubelet_server_expiration_renew_errors: {
    type: "counter",
    help: "[ALPHA] Counter of certificate renewal errors.",
    labels: [],
  },
  kubelet_volume_stats_available_bytes: {
    type: "gauge",
    help: "[ALPHA] Number of available bytes in the volume",
    labels: ["namespace", "persistentvolumeclaim"],
  },
  kubelet_volume_stats_capacity_bytes: {
    type: "gauge",
    help: "[ALPHA] Capacity in bytes of the volume",
    labels: ["namespace", "persistentvolumeclaim"],
  },
  kubelet_volume_stats_inodes: {
    type: "gauge",
    help: "[ALPHA] Maximum number of inodes in the volume",
    labels: ["namespace", "persistentvolumeclaim"],
  },
  kubelet_volume_stats_inodes_free: {
    type: "gauge",
    help: "[ALPHA] Number of free inodes in the volume",
    labels: ["namespace", "persistentvolumeclaim"],
  },
  kubelet_volume_stats_inodes_used: {
    type: "gauge",
    help: "[ALPHA] Number of used inodes in the volume",
    labels: ["namespace", "persistentvolumeclaim"],
  },
  kubelet_volume_stats_used_bytes: {
    type: "gauge",
    help: "[ALPHA] Number of used bytes in the volume",
    labels: ["namespace", "persistentvolumeclaim"],
  },
  kubernetes_build_info: {
    type: "gauge",
    help: "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    labels: [
      "build_date",
      "compiler",
      "git_commit",
      "git_tree_state",
      "git_version",
      "go_version",
      "major",
      "minor",
      "platform",
    ],
  },
  kubernetes_feature_enabled: {
    type: "gauge",
    help: "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
    labels: ["name", "stage"],
  },
  process_cpu_seconds_total: { type: "counter", help: "Total user and system CPU time spent in seconds.", labels: [] },
  process_max_fds: { type: "gauge", help: "Maximum number of open file descriptors.", labels: [] },
  process_network_receive_bytes_total: {
    type: "counter",
    help: "Number of bytes received by the process over the network.",
    labels: [],
  },
  process_network_transmit_bytes_total: {
    type: "counter",
    help: "Number of bytes sent by the process over the network.",
    labels: [],
  },
  process_open_fds: { type: "gauge", help: "Number of open file descriptors.", labels: [] },
  process_resident_memory_bytes: { type: "gauge", help: "Resident memory size in bytes.", labels: [] },
  process_start_time_seconds: {
    type: "gauge",
    help: "Start time of the process since unix epoch in seconds.",
    labels: [],
  },
  process_virtual_memory_bytes: { type: "gauge", help: "Virtual memory size in bytes.", labels: [] },
  process_virtual_memory_max_bytes: {
    type: "gauge",
    help: "Maximum amount of virtual memory available in bytes.",
    labels: [],
  },
  rest_client_request_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Request latency in seconds. Broken down by verb, and host.",
    labels: ["host", "verb"],
    buckets: [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60],
  },
  rest_client_requests_total: {
    type: "counter",
    help: "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
    labels: ["code", "host", "method"],
  },
  storage_operation_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Storage operation duration",
    labels: ["migrated", "operation_name", "status", "volume_plugin"],
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600],
  },
  storage_operation_errors_total: {
    type: "counter",
    help: "[ALPHA] Storage operation errors",
    labels: ["operation_name", "volume_plugin"],
  },
  volume_manager_total_volumes: {
    type: "gauge",
    help: "[ALPHA] Number of volumes in Volume Manager",
    labels: ["plugin_name", "state"],
  },
  volume_operation_total_seconds: {
    type: "histogram",
    help: "[ALPHA] Storage operation end to end duration in seconds",
    labels: ["operation_name", "plugin_name"],
    buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600],
  },
} as const satisfies MetricDefinitions;
