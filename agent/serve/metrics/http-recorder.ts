import type { KubeletMetrics } from "./kubelet-metrics.ts";

/** A request of the node's API has arrived; the result is called when it has been answered. */
export type HttpRequestRecorder = (method: string, target: string) => () => void;

/** The first segments of paths that the kubelet counts by name. */
const PATHS = new Set(
  "attach checkpoint configz containerLogs debug exec flagz healthz logs metrics metrics/cadvisor metrics/probes metrics/resource pods portForward run runningpods stats statusz".split(
    " ",
  ),
);
const METHODS = new Set(["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"]);
const LONG_RUNNING = new Set(["exec", "attach", "debug"]);

/** Counts and measures the requests of the node's API. Whatever clients send, there are few label values. */
export function createHttpRequestRecorder(
  { kubelet }: Pick<KubeletMetrics, "kubelet">,
  clock: { readonly monotonicMs: () => number },
): HttpRequestRecorder {
  return (method, target) => {
    const path = pathLabel(target);
    // long_running, method, path, server_type
    const labels = [String(LONG_RUNNING.has(path)), METHODS.has(method) ? method : "other", path, "readwrite"];
    const startedMs = clock.monotonicMs();
    kubelet.add("kubelet_http_requests_total", labels);
    kubelet.add("kubelet_http_inflight_requests", labels);
    return () => {
      kubelet.add("kubelet_http_inflight_requests", labels, -1);
      kubelet.observe("kubelet_http_requests_duration_seconds", (clock.monotonicMs() - startedMs) / 1000, labels);
    };
  };
}

function pathLabel(target: string): string {
  const [first = "", second] = target.replace(/^\//, "").split(/[?/]/, 2);
  const path = first === "metrics" && second !== undefined && !target.includes("?") ? `${first}/${second}` : first;
  return PATHS.has(path) ? path : "other";
}
