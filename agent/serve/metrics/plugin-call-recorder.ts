import type { KubeletMetrics } from "./kubelet-metrics.ts";

/** A call of a network plugin that has ended. */
interface FinishedPluginCall {
  readonly verb: string;
  /** Its `type`. */
  readonly plugin: string;
  readonly durationMs: number;
  /** Undefined if it succeeded. */
  readonly error: Error | undefined;
}

/** Returns the function that records a call of a network plugin. */
export function createPluginCallRecorder({
  kubelet,
}: Pick<KubeletMetrics, "kubelet">): (call: FinishedPluginCall) => void {
  return ({ verb, plugin, durationMs, error }) => {
    kubelet.observe("berth_cni_plugin_duration_seconds", durationMs / 1000, [plugin, verb]);
    if (error !== undefined) kubelet.add("berth_cni_plugin_errors_total", [plugin, verb]);
  };
}

/** Returns the function that records a call of the delegate that the agent has answered, with all its plugins, locks and records. */
export function createDelegateCallRecorder({
  kubelet,
}: Pick<KubeletMetrics, "kubelet">): (verb: string, durationMs: number) => void {
  return (verb, durationMs) => kubelet.observe("berth_cni_call_duration_seconds", durationMs / 1000, [verb]);
}
