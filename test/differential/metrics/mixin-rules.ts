/*
 * The recording rules of the kubernetes-mixin (Apache 2.0) that read pages of a node: its groups `k8s.rules.container_*` and
 * `kubelet.rules`. Those about requests and limits read kube-state-metrics alone.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The pages of a node that were read at one time. */
export interface NodePages {
  readonly metrics: string;
  readonly cadvisor: string;
}

/** A recording rule of Prometheus. */
export interface RecordingRule {
  readonly record: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
}

const PAGE_OF_CADVISOR = 'job="kubelet", metrics_path="/metrics/cadvisor", image!=""';
const NODE_OF_POD =
  'on (cluster, namespace, pod) group_left(node) topk by (cluster, namespace, pod) (1, max by (cluster, namespace, pod, node) (kube_pod_info{node!=""}))';
const NODE_OF_KUBELET =
  'on (cluster, instance) group_left(node) kubelet_node_name{job="kubelet", metrics_path="/metrics"}';

const cpuRule = (rate: "irate" | "rate", suffix: string): RecordingRule => ({
  record: `node_namespace_pod_container:container_cpu_usage_seconds_total:sum_${suffix}`,
  expr: `sum by (cluster, namespace, pod, container) (${rate}(container_cpu_usage_seconds_total{${PAGE_OF_CADVISOR}}[5m])) * ${NODE_OF_POD}`,
});

const memoryRule = (kind: string): RecordingRule => ({
  record: `node_namespace_pod_container:container_memory_${kind}`,
  expr: `container_memory_${kind}{${PAGE_OF_CADVISOR}} * ${NODE_OF_POD}`,
});

const relistRule = (quantile: string): RecordingRule => ({
  record: "node_quantile:kubelet_pleg_relist_duration_seconds:histogram_quantile",
  expr: `histogram_quantile(${quantile}, sum(rate(kubelet_pleg_relist_duration_seconds_bucket{job="kubelet", metrics_path="/metrics"}[5m])) by (cluster, instance, le) * ${NODE_OF_KUBELET})`,
  labels: { quantile },
});

export const mixinRules: readonly RecordingRule[] = [
  cpuRule("rate", "rate5m"),
  cpuRule("irate", "irate"),
  ...["working_set_bytes", "rss", "cache", "swap"].map(memoryRule),
  ...["0.99", "0.9", "0.5"].map(relistRule),
];

/** The metrics that the rules read. */
const metricsOfRules = new Set([
  "container_cpu_usage_seconds_total",
  ...["working_set_bytes", "rss", "cache", "swap"].map((kind) => `container_memory_${kind}`),
  "kubelet_node_name",
  "kubelet_pleg_relist_duration_seconds",
]);

/** The part of a page that the rules read: without cgroups that are of no pod. */
export function partOfRules(page: string): string {
  const nameIn = (line: string) => /^(?:# \w+ )?(\w+?)(?:_bucket|_sum|_count)?[ {]/.exec(line)?.[1] ?? "";
  const isRead = (line: string) => metricsOfRules.has(nameIn(line)) && !line.includes(',pod=""');
  return `${page.split("\n").filter(isRead).join("\n")}\n`;
}

export const rulePagesFile = join(import.meta.dirname, "../../golden/kubelet-metrics/rule-pages.json");

/** The parts of the reference kubelet's pages that the rules read, of two times; see record-rule-pages.ts. */
export function recordedRulePages(): readonly [NodePages, NodePages] {
  const { scrapes } = JSON.parse(readFileSync(rulePagesFile, "utf8")) as { readonly scrapes: [NodePages, NodePages] };
  return scrapes;
}

/** Series that only the kubelet's pages give where pods have no cgroups of their own, and why. */
const seriesOfKubeletAlone: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [/^node_namespace_pod_container:(?!.*[{,]container=)/, "the runtime has no figures of the sandbox's own process"],
  [/^node_namespace_pod_container:container_memory_cache\{/, "CRI has no page cache of a container"],
];

/** Whether Berth lacks a series, written as `formatSeries` does, for a known reason. */
export const isKnownSeries = (line: string): boolean => seriesOfKubeletAlone.some(([pattern]) => pattern.test(line));
