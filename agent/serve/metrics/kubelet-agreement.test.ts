import { expect, test } from "bun:test";
import recordedMetrics from "../../../test/golden/kubelet-metrics/metrics.json" with { type: "json" };
import recordedProbes from "../../../test/golden/kubelet-metrics/probes.json" with { type: "json" };
import { nodeMetrics } from "./node-metrics.ts";
import { podMetrics } from "./pod-metrics.ts";
import { probeMetrics } from "./probe-metrics.ts";

/** Of each metric what the page of the kubelet 1.36 declared. */
type Recorded = Readonly<Record<string, object | undefined>>;

const rows = [
  { page: "/metrics", own: { ...nodeMetrics, ...podMetrics }, recorded: recordedMetrics.metrics as Recorded },
  { page: "/metrics/probes", own: probeMetrics, recorded: recordedProbes.metrics as Recorded },
] as const;
for (const { page, own, recorded } of rows)
  test(`the metrics of ${page} have the type, text, labels and buckets of the kubelet's`, () => {
    const shared = Object.entries(own).filter(([name]) => recorded[name] !== undefined);
    expect(shared.length).toBeGreaterThan(2);
    for (const [name, { type, help, labels, ...other }] of shared) {
      const buckets = "buckets" in other ? [...other.buckets.map(String), "+Inf"] : undefined;
      expect({ name, type, help, labels: [...labels], ...(buckets && { buckets }) }).toEqual({
        name,
        ...recorded[name],
      } as never);
    }
  });

test("labels are in alphabetical order, by which recorders give their values", () => {
  for (const [name, { labels }] of Object.entries({ ...nodeMetrics, ...podMetrics, ...probeMetrics }))
    expect({ name, labels: [...labels] }).toEqual({ name, labels: [...labels].toSorted() } as never);
});
