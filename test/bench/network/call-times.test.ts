import { expect, test } from "bun:test";
import { callTimesBetween, callTotalsIn } from "./call-times.ts";

const page = (sandboxes: number, seconds: number) => `
# HELP kubelet_runtime_operations_duration_seconds Duration in seconds of runtime operations.
kubelet_runtime_operations_duration_seconds_bucket{operation_type="run_podsandbox",le="0.005"} 0
kubelet_runtime_operations_duration_seconds_sum{operation_type="run_podsandbox"} ${seconds}
kubelet_runtime_operations_duration_seconds_count{operation_type="run_podsandbox"} ${sandboxes}
kubelet_runtime_operations_duration_seconds_sum{operation_type="status"} 7
berth_cni_call_duration_seconds_sum{verb="ADD"} ${seconds / 10}
berth_cni_call_duration_seconds_count{verb="ADD"} ${sandboxes}
berth_cni_plugin_duration_seconds_sum{plugin="berth",verb="ADD"} ${seconds / 20}
berth_cni_plugin_duration_seconds_count{plugin="berth",verb="ADD"} ${sandboxes}
berth_cni_plugin_duration_seconds_sum{plugin="berth",verb="STATUS"} 9
`;

test("the times of the calls for one pod are the differences of two pages", () => {
  const times = callTimesBetween(callTotalsIn(page(3, 0.2)), callTotalsIn(page(4, 0.3)));
  const rounded = Object.fromEntries(Object.entries(times).map(([kind, ms]) => [kind, Number(ms.toFixed(6))]));
  expect(rounded).toEqual({ runSandbox: 100, stopSandbox: 0, ADD: 10, DEL: 0, pluginADD: 5, pluginDEL: 0 });
});

test("a pod whose sandbox was created twice, or not at all, is no sample", () => {
  const totals = callTotalsIn(page(3, 0.2));
  expect(() => callTimesBetween(totals, callTotalsIn(page(5, 0.3)))).toThrow("2 sandboxes");
  expect(() => callTimesBetween(totals, totals)).toThrow("0 sandboxes");
});
