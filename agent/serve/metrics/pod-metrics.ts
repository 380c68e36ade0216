import { defaultBuckets } from "./buckets.ts";
import type { MetricDefinitions } from "./metric-store.ts";

const podStartBuckets = [
  0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
];

/** Metrics of pods, their containers and images. As the kubelet declares them. */
export const podMetrics = {
  kubelet_active_pods: {
    type: "gauge",
    help: "[ALPHA] The number of pods the kubelet considers active and which are being considered when admitting new pods. static is true if the pod is not from the apiserver.",
    labels: ["static"],
  },
  kubelet_admission_rejections_total: {
    type: "counter",
    help: "[ALPHA] Cumulative number pod admission rejections by the Kubelet.",
    labels: ["reason"],
  },
  kubelet_containers_per_pod_count: {
    type: "histogram",
    help: "[ALPHA] The number of containers per pod.",
    labels: [],
    buckets: [1, 2, 4, 8, 16],
  },
  kubelet_desired_pods: {
    type: "gauge",
    help: "[ALPHA] The number of pods the kubelet is being instructed to run. static is true if the pod is not from the apiserver.",
    labels: ["static"],
  },
  kubelet_first_network_pod_start_sli_duration_seconds: {
    type: "gauge",
    help: "[INTERNAL] Duration in seconds to start the first network pod, excluding time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch",
    labels: [],
  },
  kubelet_image_pull_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds to pull an image.",
    labels: ["image_size_in_bytes"],
    buckets: [1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600],
  },
  kubelet_image_volume_mounted_errors_total: {
    type: "counter",
    help: "[BETA] Number of failed image volume mounts.",
    labels: [],
  },
  kubelet_image_volume_mounted_succeed_total: {
    type: "counter",
    help: "[BETA] Number of successful image volume mounts.",
    labels: [],
  },
  kubelet_image_volume_requested_total: {
    type: "counter",
    help: "[BETA] Number of requested image volumes.",
    labels: [],
  },
  kubelet_lifecycle_handler_http_fallbacks_total: {
    type: "counter",
    help: "[ALPHA] The number of times lifecycle handlers successfully fell back to http from https.",
    labels: [],
  },
  kubelet_managed_ephemeral_containers: {
    type: "gauge",
    help: "[ALPHA] Current number of ephemeral containers in pods managed by this kubelet.",
    labels: [],
  },
  kubelet_mirror_pods: {
    type: "gauge",
    help: "[ALPHA] The number of mirror pods the kubelet will try to create (one per admitted static pod)",
    labels: [],
  },
  kubelet_orphaned_runtime_pods_total: {
    type: "counter",
    help: "[ALPHA] Number of pods that have been detected in the container runtime without being already known to the pod worker. This typically indicates the kubelet was restarted while a pod was force deleted in the API or in the local configuration, which is unusual.",
    labels: [],
  },
  kubelet_pod_in_progress_resizes: {
    type: "gauge",
    help: "[ALPHA] Number of in-progress resizes for pods.",
    labels: [],
  },
  kubelet_pod_pending_resizes: {
    type: "gauge",
    help: "[ALPHA] Number of pending resizes for pods.",
    labels: ["reason"],
  },
  kubelet_pod_resize_duration_milliseconds: {
    type: "histogram",
    help: "[ALPHA] Duration in milliseconds to actuate a pod resize",
    labels: ["success"],
    buckets: [10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000],
  },
  kubelet_pod_start_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
    labels: [],
    buckets: podStartBuckets,
  },
  kubelet_pod_start_sli_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds to start a pod, excluding time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch",
    labels: [],
    buckets: podStartBuckets,
    startsEmpty: true,
  },
  kubelet_pod_start_total_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds to start a pod since creation, including time to pull images and run init containers, measured from pod creation timestamp to when all its containers are reported as started and observed via watch",
    labels: [],
    buckets: podStartBuckets,
    startsEmpty: true,
  },
  kubelet_pod_status_sync_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds to sync a pod status update. Measures time from detection of a change to pod status until the API is successfully updated for that pod, even if multiple intevening changes to pod status occur.",
    labels: [],
    buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60],
  },
  kubelet_pod_worker_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
    labels: ["operation_type"],
    buckets: defaultBuckets,
  },
  kubelet_pod_worker_start_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds from kubelet seeing a pod to starting a worker.",
    labels: [],
    buckets: defaultBuckets,
  },
  kubelet_running_containers: {
    type: "gauge",
    help: "[ALPHA] Number of containers currently running",
    labels: ["container_state"],
  },
  kubelet_running_pods: { type: "gauge", help: "[ALPHA] Number of pods that have a running pod sandbox", labels: [] },
  kubelet_started_containers_errors_total: {
    type: "counter",
    help: "[ALPHA] Cumulative number of errors when starting containers",
    labels: ["code", "container_type"],
  },
  kubelet_started_containers_total: {
    type: "counter",
    help: "[ALPHA] Cumulative number of containers started",
    labels: ["container_type"],
  },
  kubelet_started_pods_errors_total: {
    type: "counter",
    help: "[ALPHA] Cumulative number of errors when starting pods",
    labels: [],
  },
  kubelet_started_pods_total: { type: "counter", help: "[ALPHA] Cumulative number of pods started", labels: [] },
  kubelet_started_user_namespaced_pods_errors_total: {
    type: "counter",
    help: "[ALPHA] Cumulative number of errors when starting pods with user namespaces. This metric will only be collected on Linux.",
    labels: [],
  },
  kubelet_started_user_namespaced_pods_total: {
    type: "counter",
    help: "[ALPHA] Cumulative number of pods with user namespaces started. This metric will only be collected on Linux.",
    labels: [],
  },
  kubelet_terminated_containers_total: {
    type: "counter",
    help: "[ALPHA] Cumulative number of container terminations.",
    labels: ["container_type", "exit_code", "reason"],
  },
  kubelet_working_pods: {
    type: "gauge",
    help: "[ALPHA] Number of pods the kubelet is actually running, broken down by lifecycle phase, whether the pod is desired, orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has been removed from local configuration or force deleted in the API and consumes resources that are not otherwise visible.",
    labels: ["config", "lifecycle", "static"],
  },
} as const satisfies MetricDefinitions;
