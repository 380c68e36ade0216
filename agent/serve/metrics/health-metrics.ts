import type { MetricDefinitions } from "./metric-store.ts";

/** Metrics of health checks, which have a page of their own. Rule: component-base/metrics/prometheus/slis. */
export const healthMetrics = {
  kubernetes_healthcheck: {
    type: "gauge",
    help: "[STABLE] This metric records the result of a single healthcheck.",
    labels: ["name", "type"],
  },
  kubernetes_healthchecks_total: {
    type: "counter",
    help: "[STABLE] This metric records the results of all healthcheck.",
    labels: ["name", "status", "type"],
  },
  process_start_time_seconds: {
    type: "gauge",
    help: "[ALPHA] Start time of the process since unix epoch in seconds.",
    labels: [],
    startsEmpty: true,
  },
} as const satisfies MetricDefinitions;
