import { expect, test } from "bun:test";
import { createKubeletMetrics } from "./kubelet-metrics.ts";
import { createMetricsRoutes } from "./metrics-routes.ts";

/** Asks a page and returns its content type and its text. */
async function ask(path: string, accept?: string) {
  const { kubelet, probes, health } = createKubeletMetrics();
  const routes = createMetricsRoutes({
    ...{ kubelet: async () => kubelet.families(), probes: probes.families, health: health.families },
    resetHealth() {},
  });
  const route = routes.find(({ pattern }) => pattern === path);
  const answer = { type: "", text: "" };
  const request = { headers: { ...(accept !== undefined && { accept }) } } as Parameters<
    NonNullable<typeof route>["handle"]
  >[0];
  await route?.handle(request, {
    start(_status, headers) {
      answer.type = headers?.["content-type"] ?? "";
    },
    async write() {},
    end(chunk) {
      answer.text = String(chunk);
    },
  });
  return answer;
}

test("the pages are in the text format, or in OpenMetrics for a client that prefers it", async () => {
  const text = await ask("/metrics");
  expect(text.type).toStartWith("text/plain; version=0.0.4");
  expect(text.text).toContain("# TYPE kubelet_started_pods_total counter\nkubelet_started_pods_total 0\n");
  const open = await ask("/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
  expect(open.type).toStartWith("application/openmetrics-text; version=1.0.0");
  expect(open.text).toContain("# TYPE kubelet_started_pods counter\nkubelet_started_pods_total 0.0\n");
  expect(open.text).toEndWith("# EOF\n");
  expect((await ask("/metrics/probes")).text).not.toContain("kubelet_");
});

/**
 * The metrics of `/metrics` that the recording rules (rules/kubelet.libsonnet) and the dashboard "Kubernetes / Kubelet"
 * (dashboards/kubelet.libsonnet) of the kubernetes-mixin read, and those of its alerts (alerts/kubelet.libsonnet). Without `go_goroutines`: here is no Go.
 */
const mixinMetrics = [
  "kubelet_certificate_manager_client_expiration_renew_errors",
  "kubelet_certificate_manager_client_ttl_seconds",
  "kubelet_certificate_manager_server_ttl_seconds",
  "kubelet_cgroup_manager_duration_seconds",
  "kubelet_evictions",
  "kubelet_node_config_error",
  "kubelet_node_name",
  "kubelet_pleg_relist_duration_seconds",
  "kubelet_pleg_relist_interval_seconds",
  "kubelet_pod_start_duration_seconds",
  "kubelet_pod_worker_duration_seconds",
  "kubelet_running_containers",
  "kubelet_running_pods",
  "kubelet_server_expiration_renew_errors",
  "kubelet_volume_stats_available_bytes",
  "kubelet_volume_stats_capacity_bytes",
  "kubelet_volume_stats_inodes",
  "kubelet_volume_stats_inodes_free",
  "kubelet_volume_stats_inodes_used",
  "kubelet_volume_stats_used_bytes",
  "kubelet_runtime_operations_duration_seconds",
  "kubelet_runtime_operations_errors_total",
  "kubelet_runtime_operations_total",
  "process_cpu_seconds_total",
  "process_resident_memory_bytes",
  "rest_client_request_duration_seconds",
  "rest_client_requests_total",
  "storage_operation_duration_seconds",
  "storage_operation_errors_total",
  "volume_manager_total_volumes",
];

test("there is every metric that the rules, alerts and dashboards of the kubernetes-mixin read", () => {
  const own = createKubeletMetrics()
    .kubelet.families()
    .map(({ name }) => name);
  expect(mixinMetrics.filter((name) => !own.includes(name))).toEqual([]);
});
