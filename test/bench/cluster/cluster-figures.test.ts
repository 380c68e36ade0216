import { expect, test } from "bun:test";
import { markdownTable } from "../table.ts";
import type { ClusterResult } from "./cluster-bench.ts";
import { clusterFigures } from "./cluster-figures.ts";
import type { NodeIdle } from "./cluster-rounds.ts";

const round = (each: readonly number[]) => ({ each, wall: Math.max(...each) });

function idle(cpuMs: number, pssBytes: number, more: Partial<NodeIdle["requests"]> = {}): NodeIdle {
  return {
    lastedMs: 300_000,
    cpuMs,
    diskBytes: 0,
    memory: { rssBytes: 0, pssBytes, anonymousBytes: 0 },
    requests: { leaseRenewals: 29, statusReports: 1, watches: 3, others: [], ...more },
  };
}

const result: ClusterResult = {
  starts: { kubelet: [900, 800, 1000], berth: [310, 290, 280] },
  idleEmpty: { kubelet: idle(3000, 80e6), berth: idle(300, 70e6, { others: ["get nodes"] }) },
  idleFull: { kubelet: idle(9000, 110e6), berth: idle(300, 70e6, { statusReports: 2 }) },
  singles: {
    kubelet: [{ readyMs: 160, goneMs: 1000 }],
    berth: [{ readyMs: 150, goneMs: 190 }],
  },
  floor: [{ startMs: 140, removalMs: 150 }],
  batches: {
    kubelet: [{ ready: round([10_000, 14_000]), gone: round([3000]), startCpuMs: 2300 }],
    berth: [{ ready: round([4000, 9000]), gone: round([2000]), startCpuMs: 1700 }],
  },
  exits: { "1.6": { kubelet: [600, 900], berth: [10, 30] }, "2.1": { kubelet: [600, 900], berth: [10, 61] } },
};

test("targets are multiples of the kubelet's values of the same run", () => {
  const rows = markdownTable(clusterFigures(result), "kubelet").split("\n").slice(2);
  expect(rows).toMatchInlineSnapshot(`
    [
      "| one pod, created → Ready, p50 | 140 ms | 160 ms | 150 ms | −10 ms, 0.94 × | ≤ 0.90 × the kubelet's | missed |",
      "| one pod, created → Ready, p99 | 140 ms | 160 ms | 150 ms | −10 ms, 0.94 × | ≤ 1.00 × the kubelet's | reached |",
      "| 100 pods at once, created → Ready, wall |  | 14.00 s | 9.00 s | −5.00 s, 0.64 × | ≤ 0.65 × the kubelet's | reached |",
      "| 100 pods at once, created → Ready, p50 |  | 10.00 s | 4.00 s | −6.00 s, 0.40 × | ≤ 0.33 × the kubelet's | missed |",
      "| one pod, deleted → gone, p50 | 150 ms | 1000 ms | 190 ms | −810 ms, 0.19 × | ≤ 0.20 × the kubelet's | reached |",
      "| one pod, deleted → gone, p99 | 150 ms | 1000 ms | 190 ms | −810 ms, 0.19 × |  |  |",
      "| one pod, deleted → gone, over the floor beside it, p50 |  | 850 ms | 40 ms | −810 ms, 0.05 × | ≤ 60 ms | reached |",
      "| 100 pods at once, deleted → gone, wall |  | 3.00 s | 2.00 s | −1.00 s, 0.67 × |  |  |",
      "| 100 pods at once, deleted → gone, p50 |  | 3.00 s | 2.00 s | −1.00 s, 0.67 × |  |  |",
      "| CPU of the agent for 100 starts |  | 2.30 s | 1.70 s | −0.60 s, 0.74 × | ≤ 0.80 × the kubelet's | reached |",
      "| idle without pods: CPU of one core |  | 1.00 % | 0.10 % | −0.90 %, 0.10 × | ≤ 0.15 × the kubelet's | reached |",
      "| idle without pods: PSS |  | 80.0 MB | 70.0 MB | −10.0 MB, 0.88 × | ≤ 0.75 × the kubelet's | missed |",
      "| idle without pods: to disk per minute |  | 0 B | 0 B | +0 B | ≤ 0 B | reached |",
      "| idle without pods: lease renewals in 5 min |  | 29 | 29 | +0, 1.00 × | ≤ 30 | reached |",
      "| idle without pods: node status reports in 5 min |  | 1 | 1 | +0, 1.00 × | ≤ 1 | reached |",
      "| idle without pods: other requests in 5 min |  | 0 | 1 | +1 | ≤ 0 | missed |",
      "| idle without pods: watches resumed in 5 min |  | 3 | 3 | +0, 1.00 × |  |  |",
      "| idle with 100 pods: CPU of one core |  | 3.00 % | 0.10 % | −2.90 %, 0.03 × | ≤ 0.10 × the kubelet's | reached |",
      "| idle with 100 pods: PSS |  | 110.0 MB | 70.0 MB | −40.0 MB, 0.64 × | ≤ 0.70 × the kubelet's | reached |",
      "| idle with 100 pods: to disk per minute |  | 0 B | 0 B | +0 B | ≤ 0 B | reached |",
      "| idle with 100 pods: lease renewals in 5 min |  | 29 | 29 | +0, 1.00 × | ≤ 30 | reached |",
      "| idle with 100 pods: node status reports in 5 min |  | 1 | 2 | +1, 2.00 × | ≤ 1 | missed |",
      "| idle with 100 pods: other requests in 5 min |  | 0 | 0 | +0 | ≤ 0 | reached |",
      "| idle with 100 pods: watches resumed in 5 min |  | 3 | 3 | +0, 1.00 × |  |  |",
      "| process start → new node Ready |  | 900 ms | 290 ms | −610 ms, 0.32 × | ≤ 300 ms | reached |",
      "| a container's exit → its status, p50, containerd 1.6 |  | 750 ms | 20 ms | −730 ms, 0.03 × | ≤ 20 ms | reached |",
      "| a container's exit → its status, max, containerd 1.6 |  | 900 ms | 30 ms | −870 ms, 0.03 × | ≤ 60 ms | reached |",
      "| a container's exit → its status, p50, containerd 2.1 |  | 750 ms | 36 ms | −715 ms, 0.05 × | ≤ 20 ms | missed |",
      "| a container's exit → its status, max, containerd 2.1 |  | 900 ms | 61 ms | −839 ms, 0.07 × | ≤ 60 ms | missed |",
    ]
  `);
});
