import { expect, test } from "bun:test";
import { createKubeletMetrics } from "./kubelet-metrics.ts";
import { createDelegateCallRecorder, createPluginCallRecorder } from "./plugin-call-recorder.ts";

test("calls of plugins are measured by type and verb, those that fail are counted, and the calls of berth-cni are measured by verb", () => {
  const metrics = createKubeletMetrics();
  const record = createPluginCallRecorder(metrics);
  record({ verb: "ADD", plugin: "bridge", durationMs: 20, error: undefined });
  record({ verb: "ADD", plugin: "bridge", durationMs: 30, error: new Error("no address left") });
  record({ verb: "DEL", plugin: "berth", durationMs: 2, error: undefined });
  createDelegateCallRecorder(metrics)("ADD", 60);
  const samples = metrics.kubelet
    .families()
    .filter(({ name }) => name.startsWith("berth_cni_"))
    .flatMap(({ name, samples: all }) =>
      all.map(({ suffix = "", labels, value }) => ({ name: `${name}${suffix}`, labels, value })),
    )
    .filter(({ name }) => !name.endsWith("_bucket"));
  const bridge = { plugin: "bridge", verb: "ADD" };
  const own = { plugin: "berth", verb: "DEL" };
  expect(samples).toEqual([
    { name: "berth_cni_call_duration_seconds_sum", labels: { verb: "ADD" }, value: 0.06 },
    { name: "berth_cni_call_duration_seconds_count", labels: { verb: "ADD" }, value: 1 },
    { name: "berth_cni_plugin_duration_seconds_sum", labels: own, value: 0.002 },
    { name: "berth_cni_plugin_duration_seconds_count", labels: own, value: 1 },
    { name: "berth_cni_plugin_duration_seconds_sum", labels: bridge, value: 0.05 },
    { name: "berth_cni_plugin_duration_seconds_count", labels: bridge, value: 2 },
    { name: "berth_cni_plugin_errors_total", labels: bridge, value: 1 },
  ]);
});
