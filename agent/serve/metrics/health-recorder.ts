import type { HealthResultRecorder } from "../api/endpoints/health.ts";
import type { KubeletMetrics } from "./kubelet-metrics.ts";

/** The path of the checks, without its slash. */
const TYPE = "healthz";

/** Returns the function that records the result of a health check. Rule: ObserveHealthcheck in component-base. */
export function createHealthRecorder({ health }: Pick<KubeletMetrics, "health">): HealthResultRecorder {
  return (name, isHealthy) => {
    health.set("kubernetes_healthcheck", Number(isHealthy), [name, TYPE]);
    health.add("kubernetes_healthchecks_total", [name, isHealthy ? "success" : "error", TYPE]);
  };
}
