import { defaultBuckets } from "./buckets.ts";
import type { MetricDefinitions } from "./metric-store.ts";

/** Metrics of probes, which have a page of their own. As the kubelet declares them. */
export const probeMetrics = {
  prober_probe_duration_seconds: {
    type: "histogram",
    help: "[ALPHA] Duration in seconds for a probe response.",
    labels: ["container", "namespace", "pod", "probe_type"],
    buckets: defaultBuckets,
  },
  prober_probe_total: {
    type: "counter",
    help: "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.",
    labels: ["container", "namespace", "pod", "pod_uid", "probe_type", "result"],
  },
  process_start_time_seconds: {
    type: "gauge",
    help: "[ALPHA] Start time of the process since unix epoch in seconds.",
    labels: [],
  },
} as const satisfies MetricDefinitions;
