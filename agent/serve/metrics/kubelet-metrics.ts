import { healthMetrics } from "./health-metrics.ts";
import { createMetricStore, type MetricStore } from "./metric-store.ts";
import { nodeMetrics } from "./node-metrics.ts";
import { podMetrics } from "./pod-metrics.ts";
import { probeMetrics } from "./probe-metrics.ts";

const kubeletMetrics = { ...nodeMetrics, ...podMetrics };

/** What the agent counts and measures of its own work. Nothing is read or computed before a page is asked for. */
export interface KubeletMetrics {
  /** The page `/metrics`. */
  readonly kubelet: MetricStore<keyof typeof kubeletMetrics>;
  /** The page `/metrics/probes`. */
  readonly probes: MetricStore<keyof typeof probeMetrics>;
  /** The page `/metrics/slis`. */
  readonly health: MetricStore<keyof typeof healthMetrics>;
}

export function createKubeletMetrics(): KubeletMetrics {
  return {
    kubelet: createMetricStore(kubeletMetrics),
    probes: createMetricStore(probeMetrics),
    health: createMetricStore(healthMetrics),
  };
}
