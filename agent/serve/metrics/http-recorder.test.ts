import { expect, test } from "bun:test";
import { formatExposition } from "../stats/exposition.ts";
import { createHttpRequestRecorder } from "./http-recorder.ts";
import { createKubeletMetrics } from "./kubelet-metrics.ts";

function startRecorder() {
  const metrics = createKubeletMetrics();
  let nowMs = 0;
  const record = createHttpRequestRecorder(metrics, { monotonicMs: () => nowMs });
  const samples = (name: string) =>
    formatExposition(metrics.kubelet.families(), "text")
      .split("\n")
      .filter((line) => line.startsWith(`${name}{`));
  return {
    record,
    samples,
    advance: (ms: number) => {
      nowMs += ms;
    },
  };
}

const rows: readonly (readonly [method: string, target: string, path: string])[] = [
  ["GET", "/metrics", "metrics"],
  ["GET", "/metrics?x=1", "metrics"],
  ["GET", "/metrics/cadvisor", "metrics/cadvisor"],
  ["GET", "/metrics/%2e%2e", "other"],
  ["GET", "/pods?limit=1", "pods"],
  ["GET", "/containerLogs/default/web/main?follow=true", "containerLogs"],
  ["GET", "/", "other"],
  ["GET", "/etc/passwd", "other"],
];
for (const [method, target, path] of rows)
  test(`${method} ${target} counts as ${path}`, () => {
    const { record, samples } = startRecorder();
    record(method, target);
    expect(samples("kubelet_http_requests_total")).toEqual([
      `kubelet_http_requests_total{long_running="false",method="${method}",path="${path}",server_type="readwrite"} 1`,
    ]);
  });

test("a session counts as in flight until it ends, and then with its duration", () => {
  const { record, samples, advance } = startRecorder();
  const labels = '{long_running="true",method="POST",path="exec",server_type="readwrite"}';
  const end = record("POST", "/exec/default/web/main");
  expect(samples("kubelet_http_inflight_requests")).toEqual([`kubelet_http_inflight_requests${labels} 1`]);
  advance(2_500);
  end();
  expect(samples("kubelet_http_inflight_requests")).toEqual([`kubelet_http_inflight_requests${labels} 0`]);
  expect(samples("kubelet_http_requests_duration_seconds_sum")).toEqual([
    `kubelet_http_requests_duration_seconds_sum${labels} 2.5`,
  ]);
});

test("methods that no standard knows count together", () => {
  const { record, samples } = startRecorder();
  for (const method of ["BREW", "PATCH", "X"]) record(method, "/pods");
  expect(samples("kubelet_http_requests_total")).toEqual([
    'kubelet_http_requests_total{long_running="false",method="other",path="pods",server_type="readwrite"} 3',
  ]);
});
