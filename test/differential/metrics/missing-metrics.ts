/** The kubelet's metrics that Berth does not have, each group with the reason. */
export const missingMetrics: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [/^go_/, "they describe the runtime of Go"],
  [/^(aggregator|apiserver)_/, "they describe the server library of Kubernetes, which serves no such API in a node"],
  [/^workqueue_/, "they describe client-go's queues"],
  [
    /^(registered|hidden|disabled)_metrics_total$|^cardinality_enforcement_/,
    "they describe the metrics library of Kubernetes",
  ],
  [/^rest_client_(exec_plugin|transport)_/, "they describe client-go's plugins and cache of connections"],
  [/^rest_client_(request|response)_size_bytes$|^rest_client_rate_limiter_/, "nothing measures them yet"],
  [/^dra_/, "dynamic resource allocation is not implemented yet"],
  [/^kubelet_(cpu|memory|topology)_manager_/, "there are no static policies of CPUs, memory and topology yet"],
  [/^kubelet_graceful_shutdown_/, "graceful shutdown is not implemented yet"],
  [/^(force_cleaned_failed|reconstruct)_volume_/, "volumes are not reconstructed: a new agent sets them up again"],
  [/^kubelet_orphan_pod_cleaned_volumes/, "there is no sweep: an orphaned pod is removed as any other"],
  [/^kubelet_evented_pleg_/, "berth status shows the connection to the runtime's events"],
  [/^kubelet_pleg_pod_relist_/, "a pod is read, not listed"],
  [/^kubelet_(imagemanager|image_manager)_/, "the kubelet's own cache of pull records is not Berth's"],
  [/^kubelet_cri_losing_support$/, "Berth has no release whose support of CRI ends"],
  [/^kubelet_restarted_pods_total$/, "a static pod that returns under its uid waits for its predecessor"],
  [/^kubelet_pod_watch_events_dropped_total$/, "the pods API is not served yet"],
  [/^kubelet_sleep_action_terminated_early_total$/, "nothing measures it yet"],
];
