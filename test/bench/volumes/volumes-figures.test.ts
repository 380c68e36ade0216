import { expect, test } from "bun:test";
import type { NodeIdle } from "../cluster/cluster-rounds.ts";
import { markdownTable } from "../table.ts";
import type { VolumesResult } from "./volumes-bench.ts";
import { volumesFigures } from "./volumes-figures.ts";

const memory = { rssBytes: 0, pssBytes: 70e6, anonymousBytes: 30e6 };
const idle = (cpuMs: number, diskBytes: number, others: readonly string[] = []): NodeIdle => ({
  ofStarts: [0, 1, 2, 3, 4].map((at) => ({
    ...{ lastedMs: 24_000, cpuMs: cpuMs + at, diskBytes, memory },
    requests: { leaseRenewals: 3, statusReports: 0, watches: 0, others },
  })),
});
const times = (count: number, make: (at: number) => number) => Array.from({ length: count }, (_, at) => make(at));

const result: VolumesResult = {
  starts: {
    kubelet: { bare: times(15, (at) => 190 + at), withObjects: times(15, (at) => 700 + at) },
    berth: { bare: times(60, (at) => 180 + at), withObjects: times(60, (at) => 188 + at + (at % 3)) },
  },
  reads: times(30, (at) => 4 + (at % 3)).map((slowestGetMs) => ({ slowestGetMs, agentMs: 1.2 * slowestGetMs })),
  changes: { kubelet: [60_000, 70_000, 85_000], berth: [...times(29, () => 20), 2100] },
  idle: { kubelet: idle(300, 4096), berth: idle(12, 0, ["create serviceaccounts token"]) },
};

test("pairs of starts are compared within an agent, and the kubelet's fewer samples are named", () => {
  const rows = markdownTable(volumesFigures(result), "volumes").split("\n").slice(2);
  expect(rows).toMatchInlineSnapshot(`
    [
      "| a bare pod, created → Ready |  | 197 ms | 210 ms | 1.06 (1.02–1.11) × | 60 (kubelet: 15) |  |  |",
      "| a pod with a token, 10 ConfigMaps and 10 Secrets, all cached, created → Ready |  | 707 ms | 219 ms | 0.31 (0.29–0.32) × | 60 (kubelet: 15) |  |  |",
      "| the pod with objects over the bare one beside it |  | 510 ms | 9 ms | 0.02 (0.02–0.02) × | 60 (kubelet: 15) | ≤ 10 ms | reached: 9 (9–9) ms |",
      "| nothing cached: first of 21 objects requested → last one there | 5 ms |  | 6 ms |  | 30 | ≤ 1.30 × the floor | not decided: 1.20 (1.20–1.20) × |",
      "| a ConfigMap's change → the container's file |  | 70000 ms | 20 ms |  | 30 (kubelet: 3) | ≤ 300 ms | not decided: 20 (20–20) ms |",
      "| a ConfigMap's change → the container's file, max of 30 |  | 85000 ms | 2100 ms |  | 30 (kubelet: 3) | ≤ 2000 ms | missed |",
      "| idle with 50 usual pods: CPU of the agent, of one core |  | 1.26 % | 0.06 % | 0.05 (0.04–0.05) × | 5 |  |  |",
      "| idle with 50 usual pods: PSS |  | 70.0 MB | 70.0 MB | 1.00 (1.00–1.00) × | 5 |  |  |",
      "| idle with 50 usual pods: anonymous memory |  | 30.0 MB | 30.0 MB | 1.00 (1.00–1.00) × | 5 |  |  |",
      "| idle with 50 usual pods: to disk per minute |  | 10240 B | 0 B | 0.00 × | 5 | ≤ 0 B | reached |",
      "| idle with 50 usual pods: lease renewals in 24 s |  | 3 | 3 | 1.00 × | 5 | ≤ 3 | reached |",
      "| idle with 50 usual pods: node status reports in 24 s |  | 0 | 0 |  | 5 | ≤ 1 | reached |",
      "| idle with 50 usual pods: other requests in 24 s |  | 0 | 1 |  | 5 | ≤ 0 | missed |",
      "| idle with 50 usual pods: watches resumed in 24 s |  | 0 | 0 |  | 5 |  |  |",
    ]
  `);
});
