import type { KubeletMetrics } from "./kubelet-metrics.ts";

/** How the kubelet names the methods of CRI in its metrics, where the words are not simply joined by underscores. */
const operationTypes: Readonly<Record<string, string>> = {
  RunPodSandbox: "run_podsandbox",
  StopPodSandbox: "stop_podsandbox",
  RemovePodSandbox: "remove_podsandbox",
  PodSandboxStatus: "podsandbox_status",
  ListPodSandbox: "list_podsandbox",
  PodSandboxStats: "podsandbox_stats",
  ListPodSandboxStats: "list_podsandbox_stats",
  ListPodSandboxMetrics: "list_podsandbox_metrics",
  UpdatePodSandboxResources: "update_podsandbox_resources",
  UpdateContainerResources: "update_container",
};

/** A call to the container runtime that has ended; a stream has no duration. */
interface RuntimeCall {
  readonly verb: string;
  readonly isOfCri: boolean;
  readonly code: string;
  readonly durationMs: number | undefined;
}

/** Returns the function that records a call to the container runtime. */
export function createRuntimeCallRecorder({ kubelet }: Pick<KubeletMetrics, "kubelet">): (call: RuntimeCall) => void {
  return ({ verb, isOfCri, code, durationMs }) => {
    if (!isOfCri) return;
    const operation = [operationTypes[verb] ?? snakeCase(verb)];
    kubelet.add("kubelet_runtime_operations_total", operation);
    if (durationMs !== undefined)
      kubelet.observe("kubelet_runtime_operations_duration_seconds", durationMs / 1000, operation);
    if (code !== "OK") kubelet.add("kubelet_runtime_operations_errors_total", operation);
  };
}

/** `ImageFsInfo` → `image_fs_info` */
const snakeCase = (verb: string) => verb.replaceAll(/(?<!^)([A-Z])/g, "_$1").toLowerCase();

/** One attempt of a request to the API server. */
interface ApiAttempt {
  readonly method: string;
  /** `HOST:PORT` */
  readonly host: string;
  /** The status of the answer; undefined without one. */
  readonly status: number | undefined;
  /** Undefined for a watch, which lasts as long as the server lets it. */
  readonly durationMs: number | undefined;
}

/** Returns the function that records an attempt of a request to the API server, as client-go does. */
export function createApiRequestRecorder({ kubelet }: Pick<KubeletMetrics, "kubelet">): (attempt: ApiAttempt) => void {
  return ({ method, host, status, durationMs }) => {
    kubelet.add("rest_client_requests_total", [status === undefined ? "<error>" : String(status), host, method]);
    if (durationMs !== undefined)
      kubelet.observe("rest_client_request_duration_seconds", durationMs / 1000, [host, method]);
  };
}
